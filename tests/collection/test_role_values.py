"""Test the values that roles compute, recorded before filters computed them."""

import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROLES = HERE.parents[1] / "modules/ansible_collections/gpufleet/fleet/roles"
RECORDED = {file.stem: json.loads(file.read_text()) for file in sorted((HERE / "role_values").glob("*.json"))}


def parse_json_texts(value):
    """Return a value with JSON texts in it parsed: their spacing is not part of the outcome."""
    if isinstance(value, dict):
        return {key: parse_json_texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [parse_json_texts(item) for item in value]
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
def values_by_role():
    """Return every case's value by role. One process evaluates all: most of its time is loading Ansible."""
    program = [sys.executable, str(HERE / "role_values.py"), str(ROLES)]
    cases = json.dumps([case for role_cases in RECORDED.values() for case in role_cases])
    env = os.environ | {"ANSIBLE_FORCE_COLOR": "0"}
    result = subprocess.run(program, input=cases, capture_output=True, text=True, env=env, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    computed = iter(json.loads(result.stdout))
    return {role: list(islice(computed, len(role_cases))) for role, role_cases in RECORDED.items()}


@pytest.mark.parametrize("role", RECORDED)
def test_role_values_match_the_recorded_ones(role, values_by_role):
    for case, value in zip(RECORDED[role], values_by_role[role], strict=True):
        assert parse_json_texts(value) == parse_json_texts(expand_files(case["expected"], role)), case["name"]
