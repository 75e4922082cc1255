"""Test the resources that stacks register against the golden records in tests/cases/cloud.

The stacks are the shipped ones and small ones of tests/cases/cloud/stacks.yaml, which cover other kinds of
purchase, groups and placement. After an intended change: ``pytest tests/cloud/test_golden.py --regenerate``, and
read the difference before you commit it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import yaml

from gpufleet import fleet

spec = importlib.util.spec_from_file_location("cloud_registered", Path(__file__).with_name("registered.py"))
registered = importlib.util.module_from_spec(spec)
spec.loader.exec_module(registered)

CASES = Path(__file__).resolve().parents[1] / "cases/cloud"
SMALL_STACKS = yaml.safe_load((CASES / "stacks.yaml").read_text())


@pytest.fixture
def record_fleet(recorder, monkeypatch, sdks):
    return lambda declared_fleet: registered.record(declared_fleet, recorder, monkeypatch)


@pytest.mark.parametrize("stack", ["dev", "poc", "production"])
def test_shipped_stack_matches_its_golden_record(stack, repo_root, record_fleet, golden):
    record = record_fleet(fleet.load_fleet(stack, repo_root))
    golden(CASES / f"{stack}.yaml", registered.as_yaml(record))


@pytest.mark.parametrize("name", SMALL_STACKS)
def test_small_stack_matches_its_golden_record(name, record_fleet, golden):
    record = record_fleet(fleet.parse_fleet(SMALL_STACKS[name], stack="small"))
    golden(CASES / f"small-{name}.yaml", registered.as_yaml(record))
