"""Test that the test command runs every test once, in two lanes, and that a failure in either lane fails it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MARK = "pytest.mark" + ".hosts"  # .ci/tests looks for the marker in this file too
TEST = "import pytest\n\n{mark}\ndef test_it():\n    with open('ran', 'a') as log:\n        log.write('{name} ')\n"
CONFTEST = """import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name in ("roles", "hosts"):
            item.add_marker({mark})
"""


@pytest.fixture
def project(tmp_path):
    """Give a folder with tests of all places that the command knows: nine on booted hosts, two others."""
    for name in (
        *(f"hosts/test_{n}" for n in "abcd"),
        "roles/test_e",
        "roles/test_f",
        "test_i",
        "cost/test_j",
    ):
        write_test(tmp_path, name)
    for name in ("docs/test_g", "docs/test_h", "faults/test_k"):
        write_test(tmp_path, name, f"@{MARK}")
    for folder in ("roles", "hosts"):
        (tmp_path / f"tests/{folder}/conftest.py").write_text(CONFTEST.format(mark=MARK))
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = -p no:cacheprovider --import-mode=importlib\nmarkers =\n    hosts: boots hosts\n"
    )
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / "tests/conftest.py", tmp_path / "tests")
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/__init__.py", tmp_path / "tools")  # which conftest.py loads
    shutil.copy(ROOT / ".ci/tests", tmp_path / ".ci")
    return tmp_path


def write_test(root, name, mark="", tail=""):
    path = root / "tests" / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TEST.format(name=name, mark=mark) + tail)


@pytest.mark.parametrize("name", ["test_i", "hosts/test_d"])
def test_failure_in_either_lane_fails_the_command_after_every_test_ran_once(project, clean_env, name):
    write_test(project, name, tail="    assert not 'broken'\n")
    result = subprocess.run(
        [project / ".ci/tests", "-q"], env=clean_env, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1, result.stdout + result.stderr
    assert "AssertionError: assert not 'broken'" in result.stdout
    assert sorted(name[-1] for name in (project / "ran").read_text().split()) == list("abcdefghijk")
