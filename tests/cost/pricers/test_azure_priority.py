"""How an Azure virtual machine says that it is spot."""

from __future__ import annotations

import pytest
from gpufleet.cost.pricing.pricers.azure_machine import is_spot


@pytest.mark.parametrize(
    ("priority", "spot"), [("Spot", True), ("Low", True), ("Regular", False), (None, None)]
)
def test_priority(priority, spot):
    assert is_spot({} if priority is None else {"priority": priority}) is spot
