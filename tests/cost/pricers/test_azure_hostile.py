"""No input of an Azure resource makes its pricer fail: every type against values of every wrong kind."""

from __future__ import annotations

import pytest

from azure_bill import make
from gpufleet.cost import price_resources
from gpufleet.cost.pricing.pricers.azure import PRICERS
from gpufleet.engine import UnreadableValue

NAMES = (
    "sku", "skuName", "location", "resourceGroupName", "properties", "template", "containers", "roles", "storage",
    "workloadProfiles", "scaleSettings", "autoscaleConfiguration", "options", "autoscaleSettings", "locations",
    "geoLocations", "accountName", "serverId", "kind", "size", "sizeInTb", "maxSizeBytes", "georeplications",
    "prefixLength", "defaultNodePool", "agentPoolProfiles", "virtualNetworkGateway1", "model", "serverFarmId",
    "highAvailability", "capacity", "storageMb", "throughput", "serviceLevel",
)  # fmt: skip
VALUES = (
    UnreadableValue.UNKNOWN, UnreadableValue.SECRET, None, [], {}, "", "x" * 300, "GP_Gen5_2", -1, 1e300, True,
    [None], [[]], {"name": []}, {"name": {"a": 1}, "capacity": "many"}, [{"resources": "x", "name": 1}], "\x1b[31m",
)  # fmt: skip


@pytest.mark.parametrize("type_", sorted(PRICERS))
def test_no_input_makes_a_pricer_fail(type_):
    for value in VALUES:
        inputs = dict.fromkeys(NAMES, value)
        bill = price_resources([make(type_, inputs)])
        reasons = [each.reason for each in bill.unpriced_resources]
        assert all(reason.isprintable() and len(reason) < 1000 for reason in reasons), reasons
        assert not any("pricer failed" in reason for reason in reasons), reasons
