"""Test group sizes that a program ignores: the state may have an old size."""

from __future__ import annotations

import pytest

from gpufleet.cost.inputs.drift import ignored_size_change_warnings
from gpufleet.engine import StateResource

GROUP = "aws:autoscaling/group:Group"


def group(*ignored, custom=True):
    return StateResource(
        f"urn:pulumi:s::p::{GROUP}::workers", GROUP, "workers", {}, {}, ignore_changes=ignored, custom=custom
    )


@pytest.mark.parametrize(
    "name",
    ["desiredCapacity", "targetSize", 'scalingConfig["desiredSize"]',
     "scalingConfig", "scalingConfig.desiredSize", "sku",
     "sku.capacity", "nodeCount", "initialNodeCount", "count", "targetCapacity", "*"],
)  # fmt: skip
def test_ignored_size_of_each_cloud_is_recognised(name):
    (line,) = ignored_size_change_warnings([group("tags", name)])
    assert line.startswith(f"workers ignores changes to {name}: ")


@pytest.mark.parametrize(
    "name", ["desired_capacity", "scaling_config.desired_size", "scalingConfig.desired_size"]
)
def test_name_that_the_provider_does_not_have_ignores_nothing(name):
    assert ignored_size_change_warnings([group(name)]) == []


def test_other_ignored_inputs_are_not_sizes():
    assert (
        ignored_size_change_warnings([group("tags", "minSize"), group(), group("targetSize", custom=False)])
        == []
    )
