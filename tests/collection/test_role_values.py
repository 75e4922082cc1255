"""What roles decide of a host's answers: recorded from their templates before filters computed it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROLES = HERE.parents[1] / "playbooks/roles"
RECORDED = {file.stem: json.loads(file.read_text()) for file in sorted((HERE / "role_values").glob("*.json"))}


def parsed(value):
    """Return a value with JSON texts in it parsed: their spacing is not part of the outcome."""
    if isinstance(value, dict):
        return {key: parsed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [parsed(item) for item in value]
    if isinstance(value, str) and value.startswith("{"):
        return json.loads(value)
    return value


def expand_files(value, role):
    """Return a recorded value in which ``@PATH`` is the text of that file of the role, without its last newline."""
    if isinstance(value, dict):
        return {key: expand_files(item, role) for key, item in value.items()}
    if isinstance(value, list):
        return [expand_files(item, role) for item in value]
    if isinstance(value, str) and value.startswith("@files/"):
        path = value.strip("@\n")
        return value.replace(f"@{path}", (ROLES / role / path).read_text().rstrip())
    return value


@pytest.fixture(scope="module")
def values():
    """Return every case's value by role, from one process for each role."""
    computed = {}
    for role, cases in RECORDED.items():
        program = [sys.executable, str(HERE / "role_values.py"), str(ROLES)]
        env = os.environ | {"ANSIBLE_FORCE_COLOR": "0"}
        result = subprocess.run(
            program, input=json.dumps(cases), capture_output=True, text=True, env=env, check=False
        )
        assert result.returncode == 0, result.stderr[-2000:]
        computed[role] = json.loads(result.stdout)
    return computed


@pytest.mark.parametrize("role", RECORDED)
def test_role_values_match_the_recorded_ones(role, values):
    for case, value in zip(RECORDED[role], values[role], strict=True):
        assert parsed(value) == parsed(expand_files(case["expected"], role)), case["name"]
