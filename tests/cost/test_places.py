from __future__ import annotations

import pytest

from gpufleet.cost.pricing.pricers.azure.disk import managed_disk_tier_number
from gpufleet.cost.pricing.region import aws_region_of_zone, gcp_region_of_zone, normalize_azure_location


@pytest.mark.parametrize(
    ("zone", "region"),
    [("us-east-1a", "us-east-1"), ("us-gov-west-1b", "us-gov-west-1"), ("us-east-1", "us-east-1")],
)
def test_aws_zone_gives_its_region(zone, region):
    assert aws_region_of_zone(zone) == region


@pytest.mark.parametrize(
    ("zone", "region"),
    [
        ("us-central1-a", "us-central1"),
        ("us-central1", "us-central1"),
        ("x/zones/europe-west4-b", "europe-west4"),
    ],
)
def test_gcp_zone_gives_its_region(zone, region):
    assert gcp_region_of_zone(zone) == region


@pytest.mark.parametrize("location", ["East US 2", "eastus2", "EastUS2"])
def test_azure_location_is_normalized(location):
    assert normalize_azure_location(location) == "eastus2"


@pytest.mark.parametrize(("gib", "number"), [(1, "1"), (128, "10"), (129, "15"), (40000, "80")])
def test_azure_disk_size_gives_its_tier(gib, number):
    assert managed_disk_tier_number(gib) == number
