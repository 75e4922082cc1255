"""The priority of an Azure virtual machine decides whether it is spot."""

from __future__ import annotations

import pytest

from gpufleet.cost.pricing.pricers.azure.machine_inputs import parse_virtual_machine_inputs


@pytest.mark.parametrize(
    ("priority", "is_spot"), [("Spot", True), ("Low", True), ("Regular", False), (None, None)]
)
def test_spot_and_low_priority_machines_are_spot(priority, is_spot):
    assert parse_virtual_machine_inputs({} if priority is None else {"priority": priority}).is_spot is is_spot
