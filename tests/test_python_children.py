"""Test that a Python child imports nothing from the current folder, which may hold anybody's files."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet.fleet import Bmc
from gpufleet.rehearsal import providers
from gpufleet.remote.bmc import control
from gpufleet.remote.bmc.model import PowerRequest
from gpufleet.remote.shards import node_playbook, unit_guard

MODULES = Path(__file__).resolve().parents[1] / "modules"
PROGRAM_OPTIONS = {"-m", "-c"}
SAFE_OPTIONS = {"-P", "-I"}


def list_unsafe_starts(source: str) -> list[int]:
    """Return the lines of command lists that start Python with the current folder on its path."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.List) and node.elts and is_python(node.elts[0])
        for options in [[item.value for item in node.elts if isinstance(item, ast.Constant)]]
        if PROGRAM_OPTIONS & set(options) and not SAFE_OPTIONS & set(options)
    ]


def is_python(word: ast.expr) -> bool:
    if isinstance(word, ast.Constant):
        return str(word.value).startswith("python")
    return ast.unparse(word) == "sys.executable"


def test_no_python_child_starts_with_the_current_folder_on_its_path():
    assert list_unsafe_starts("run([sys.executable, '-m', 'pip'])") == [1]
    unsafe = [
        f"{path.relative_to(MODULES)}:{line}"
        for path in sorted(MODULES.rglob("*.py"))
        for line in list_unsafe_starts(path.read_text())
        if path.name != "cloud_init.py"  # a command of the first boot, in the machine's root folder
    ]
    assert unsafe == []


@pytest.fixture
def hostile_folder(tmp_path, monkeypatch):
    """Return the current folder; a program that imports one of its files leaves ``imported`` there."""
    for module in ("gpufleet", "importlib", "json", "threading"):
        text = f"open({str(tmp_path / 'imported')!r}, 'w').close()\n"
        (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_power_control_imports_no_file_of_the_current_folder(hostile_folder, monkeypatch):
    monkeypatch.setitem(control.LIBRARIES, "ipmi", "json")
    bmc = Bmc(protocol="ipmi", address="127.0.0.1", port=9)
    request = PowerRequest(bmc=bmc, action="read", user="u", password="p", shutdown_seconds=30)
    report = control.run_power_action(request)
    assert report.problem
    assert "process ended with status" not in report.problem
    assert not (hostile_folder / "imported").exists()


def test_guard_of_a_run_imports_no_file_of_the_current_folder(hostile_folder):
    control_socket = type("Control", (), {"socket_path": hostile_folder / "none"})()
    folder = hostile_folder / "send"
    folder.mkdir()
    unit_guard.UnitGuard(control_socket, folder).close_guard()
    assert not folder.exists()  # the guard did its work
    assert not (hostile_folder / "imported").exists()


def test_version_check_of_a_mesh_node_imports_no_file_of_the_current_folder(hostile_folder):
    problem = node_playbook.find_version_problem(sys.executable, {"ansible-core": "1.0"})
    assert problem.startswith("this node has ansible-core ")
    assert not (hostile_folder / "imported").exists()


def test_simulated_provider_imports_no_file_of_the_current_folder(hostile_folder, tmp_path):
    launcher = providers.install_provider_launchers(tmp_path / "bin", sys.executable)[0]
    version = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=True).stdout
    assert "simulated" in version
    assert not (hostile_folder / "imported").exists()
