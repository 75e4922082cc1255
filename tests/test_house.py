"""Test project rules that no linter checks: sizes of files and functions, exports of packages."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "modules" / "gpufleet"
SOURCES = sorted([*(ROOT / "modules").rglob("*.py"), *(ROOT / "tools").rglob("*.py")])
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py") if path.parent.name != "cli")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_respect_the_size_limits(path):
    text = path.read_text()
    lines = len(text.splitlines())
    if lines > 600:
        warnings.warn(f"{lines} lines: is it still one idea?", stacklevel=1)
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    assert [node.name for node in functions if node.end_lineno - node.lineno >= 80] == []


@pytest.mark.parametrize("room", ROOMS)
def test_packages_have_a_docstring_and_export_their_names(room):
    module = importlib.import_module(f"gpufleet.{room}")
    assert len(module.__doc__ or "") > 80
    assert sorted(module.__all__, key=str.lower)
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert [name for name in missing if importlib.util.find_spec(f"gpufleet.{room}.{name}") is None] == []


def test_repository_root_has_few_entries():
    tracked_files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    top = {line.split("/")[0] for line in tracked_files.splitlines()}
    # Code hosts and tools look here for CONTRIBUTING.md, SECURITY.md and REUSE.toml.
    assert len([name for name in top if not name.startswith(".")]) <= 18


@pytest.mark.parametrize("name", ["README.md", "pyproject.toml", ".ci/constraints.txt", "Makefile"])
def test_no_file_names_a_package_registry(name):
    text = (ROOT / name).read_text()
    assert "--index-url" not in text
    assert "find-links" not in text.replace("--no-emit-find-links", "")


def test_collection_binds_no_single_underscore():
    """ansible-test's pylint refuses it; `make sanity` takes minutes, so this part of it is checked here."""
    bindings = [
        f"{path.name}:{node.lineno}"
        for path in (ROOT / "modules/ansible_collections").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id == "_" and isinstance(node.ctx, ast.Store)
    ]
    assert bindings == []
