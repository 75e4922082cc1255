"""Test that the test command ends with one list of what its two lanes skipped, and why."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = """import pytest

@pytest.mark.skipif(True, reason="needs nft and root")
def test_a(): pass

@pytest.mark.skipif(True, reason="needs nft and root")
def test_b(): pass

@pytest.mark.hosts
def test_c():
    pytest.skip("hosts need root")

def test_d(): pass
"""


def test_the_test_command_lists_what_both_lanes_skipped(tmp_path, clean_env):
    (tmp_path / "tests").mkdir()
    (tmp_path / ".ci").mkdir()
    (tmp_path / "tests/test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    hosts: boots hosts\n")
    shutil.copy(ROOT / "tests/conftest.py", tmp_path / "tests")
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/__init__.py", tmp_path / "tools")  # which conftest.py loads
    shutil.copy(ROOT / ".ci/tests", tmp_path / ".ci")
    command = [tmp_path / ".ci/tests", "-q", "-p", "no:cacheprovider"]
    result = subprocess.run(
        command, env=clean_env | {"PWD": os.fspath(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    listed = result.stdout.partition("== skipped in both lanes: 3 tests\n")[2].splitlines()
    assert [line.split(maxsplit=1) for line in listed] == [
        ["1", "tests/test_some.py: hosts need root"],
        ["2", "tests/test_some.py: needs nft and root"],
    ]
