"""Test what a cost command imports before it starts the child that evaluates the program."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpufleet import cost

HEAVY = [
    "gpufleet.catalog",
    "gpufleet.cost.pricing.pricers",
    "gpufleet.fleet",
    "pydantic",
    "ruamel.yaml",
    "yaml",
]


@pytest.mark.parametrize("name", cost.__all__)
def test_every_name_is_found_in_its_module(name):
    assert getattr(cost, name) is not None


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = cost.absent


@pytest.mark.parametrize("module", ["gpufleet.cli.cost", "gpufleet.cost.api"])
def test_pricing_is_imported_after_the_child_has_started(module):
    code = f"import sys, {module}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed.split() == []
