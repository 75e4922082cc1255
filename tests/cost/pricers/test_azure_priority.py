"""The priority of an Azure virtual machine decides whether it is spot."""

from __future__ import annotations

import pytest

from azure_bill import make
from gpufleet.catalog import Price
from gpufleet.cost import PriceBook, price_resources


@pytest.mark.parametrize(
    ("priority", "purchase"),
    [("Spot", "spot"), ("Low", "spot"), ("Regular", "on_demand"), (None, "on_demand")],
)
def test_spot_and_low_priority_machines_are_spot(priority, purchase):
    inputs = {"location": "eastus", "hardwareProfile": {"vmSize": "Standard_D4s_v3"}}
    machine = make(
        "azure-native:compute:VirtualMachine", inputs | ({"priority": priority} if priority else {})
    )

    def price(cloud, region, item, purchase):
        return Price(1.0, "unit", "2026-07-06", "written by hand", "high", region, purchase)

    assert [each.purchase for each in price_resources([machine], PriceBook(price, price)).charges] == [
        purchase
    ]
