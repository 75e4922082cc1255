"""What stacks register, resource by resource, against the records in tests/cases/cloud.

The shipped stacks, and small ones of tests/cases/cloud/stacks.yaml: each a way to buy, to group or to place that
the shipped ones do not show. After an intended change: ``pytest tests/cloud/test_golden.py --regenerate``, and
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
SMALL = yaml.safe_load((CASES / "stacks.yaml").read_text())


@pytest.fixture
def evaluation(recorder, monkeypatch, sdks):
    return lambda declared: registered.record(declared, recorder, monkeypatch)


@pytest.mark.parametrize("stack", ["dev", "poc", "production"])
def test_a_shipped_stack_registers_what_is_recorded(stack, repo_root, evaluation, golden):
    found = evaluation(fleet.load(stack, repo_root))
    golden(CASES / f"{stack}.yaml", registered.as_yaml(found))


@pytest.mark.parametrize("name", SMALL)
def test_a_small_stack_registers_what_is_recorded(name, evaluation, golden):
    found = evaluation(fleet.parse(SMALL[name], stack="small"))
    golden(CASES / f"small-{name}.yaml", registered.as_yaml(found))
