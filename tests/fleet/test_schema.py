from __future__ import annotations

import json
import subprocess
import sys

import jsonschema
import pytest
from ruamel.yaml import YAML

from gpufleet import fleet

STACKS = ("poc", "dev", "production")


@pytest.fixture(scope="module")
def validator():
    return jsonschema.Draft202012Validator(fleet.build_stack_json_schema())


def stack(root, name):
    return YAML(typ="safe").load((root / f"stacks/Pulumi.{name}.yaml").read_text())


def test_exported_schema_matches_the_models(repo_root):
    exported = json.loads((repo_root / "stacks/fleet.schema.json").read_text())
    assert exported == fleet.build_stack_json_schema(), (
        "run: python -m gpufleet.fleet.schema > stacks/fleet.schema.json"
    )


def test_command_prints_the_exported_schema(repo_root):
    result = subprocess.run(
        [sys.executable, "-m", "gpufleet.fleet.schema"],
        capture_output=True,
        text=True,
        check=True,
        cwd=repo_root,
    )
    assert result.stdout == (repo_root / "stacks/fleet.schema.json").read_text()
    assert result.stderr == ""


@pytest.mark.parametrize("name", STACKS)
def test_shipped_stack_is_valid_and_names_its_schema(repo_root, validator, name):
    assert list(validator.iter_errors(stack(repo_root, name))) == []
    first = (repo_root / f"stacks/Pulumi.{name}.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=fleet.schema.json"


@pytest.mark.parametrize(
    ("key", "value"),
    [("purchse", {}), ("count", -1), ("count", {"min": 1}), ("cloud", "moon"), ("name", "Train")],
)
def test_schema_refuses_what_the_models_refuse(repo_root, validator, key, value):
    broken = stack(repo_root, "dev")
    broken["config"]["gpufleet:fleet"]["pools"][0][key] = value
    assert list(validator.iter_errors(broken)) != []


def test_json_schema_is_valid():
    jsonschema.Draft202012Validator.check_schema(fleet.build_stack_json_schema())
