"""Test that an unusable registry stops Ansible, also outside playbooks/ and without ansible.cfg."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from gpufleet.nodes import Registry

PROGRAMS = Path(sys.executable).parent
LOCK = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("PRAGMA locking_mode=EXCLUSIVE")
held.execute("PRAGMA journal_mode=DELETE")
held.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(rack_project):
    """Give the file of the project's registry, which is fine so far."""
    file = rack_project / ".gpufleet" / "registry.db"
    Registry(f"sqlite:///{file}").close()
    return file


def run(program, *arguments, cwd, env, small):
    return subprocess.run(
        [PROGRAMS / program, "-i", small / "inventory", *map(str, arguments)],
        cwd=cwd, env=env | {"ANSIBLE_NOCOLOR": "1", "GPUFLEET_DATABASE_TIMEOUT": "0.3"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def write_garbage(file):
    file.write_bytes(b"garbage, and long enough to be read as a database" * 99)


def truncate_file(file):
    os.truncate(file, 8192)


def empty_file(file):
    os.truncate(file, 0)


def replace_with_folder(file):
    file.unlink()
    file.mkdir()


def set_newer_version(file):
    engine = create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0999'"))
    engine.dispose()


TROUBLE = {
    write_garbage: "restore it from a backup",
    truncate_file: "restore it from a backup",
    empty_file: "restore it from a backup",
    replace_with_folder: "must be a file",
    set_newer_version: "upgrade",
}


@pytest.mark.parametrize(
    ("trouble", "remedy"), TROUBLE.items(), ids=lambda case: getattr(case, "__name__", "")
)
def test_damaged_registry_stops_the_inventory_in_any_folder(  # noqa: PLR0917 - pytest passes by name
    path, rack_project, clean_env, tmp_path, trouble, remedy
):
    trouble(path)
    result = run("ansible-inventory", "--list", cwd=tmp_path, env=clean_env, small=rack_project)
    assert result.returncode != 0
    assert result.stdout.strip() == ""
    assert remedy in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_locked_registry_stops_a_play_before_its_first_task(path, rack_project, clean_env, tmp_path):
    book = tmp_path / "play.yml"
    book.write_text(
        json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [{"debug": {"msg": "ran"}}]}])
    )
    with subprocess.Popen(
        [sys.executable, "-c", LOCK, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "locked\n"
        result = run("ansible-playbook", book, cwd=tmp_path, env=clean_env, small=rack_project)
        holder.stdin.close()
    assert result.returncode != 0
    assert "ran" not in result.stdout
    assert "another gpufleet is writing" in " ".join(result.stderr.split())


def test_password_in_a_database_url_is_not_shown(rack_project, clean_env, tmp_path):
    env = clean_env | {"GPUFLEET_DATABASE_URL": "postgresql://me:s3cr3t@127.0.0.1:1/fleet"}
    result = run("ansible-inventory", "--list", "-vvv", cwd=tmp_path, env=env, small=rack_project)
    assert result.returncode != 0
    assert "s3cr3t" not in result.stdout + result.stderr


def test_unexpected_exception_stops_ansible(path, rack_project, clean_env, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import gpufleet.nodes.inventory as inventory\n"
        "def broken(*given, **more): raise ZeroDivisionError('by chance')\n"
        "inventory.assemble_ansible_inventory = broken\n"
    )
    env = clean_env | {"PYTHONPATH": os.pathsep.join((str(tmp_path), clean_env.get("PYTHONPATH", "")))}
    result = run("ansible-inventory", "--list", cwd=tmp_path, env=env, small=rack_project)
    assert result.returncode != 0
    assert "ZeroDivisionError: by chance" in " ".join(result.stderr.split())
