"""Test which region's price stands for one that nobody recorded, its bounds, and how old prices move."""

from __future__ import annotations

from datetime import date

import pytest

from gpufleet import catalog
from gpufleet.catalog import price_drift, price_table, regional_price
from gpufleet.catalog.cloud import get_cloud
from gpufleet.catalog.prices import snapshot

estimate = regional_price.estimate_regional_price


@pytest.mark.parametrize(
    ("region", "stands_for_it"),
    [
        ("us-west-2-lax-1", "us-west-2"),  # a local zone: its parent
        ("ap-southeast-4", "ap-southeast-2"),  # the closest price level
        ("me-central-1", "me-south-1"),
    ],
)
def test_a_disk_is_priced_as_the_region_most_like_it(region, stands_for_it):
    assert catalog.find_cloud_part_price("aws", region, "ebs:gp3") is None
    price = estimate("part", "aws", region, "ebs:gp3")
    assert price.note == f"priced as {stands_for_it}"
    assert price.price == catalog.find_cloud_part_price("aws", stands_for_it, "ebs:gp3")
    assert (price.low * 730, price.high * 730) == (pytest.approx(0.08), pytest.approx(0.152))
    assert "of 21 regions" in price.basis


def test_an_item_of_one_region_has_the_spread_of_its_cloud():
    price = estimate("part", "azure", "westus2", "kubernetes_cluster")
    assert (price.price.usd_per_hour, price.price.region, price.regions) == (0.1, "eastus", 1)
    assert price.low == pytest.approx(0.093, abs=0.002)
    assert price.high == pytest.approx(0.115, abs=0.002)
    assert "nine in ten" in price.basis


def test_a_global_price_holds_everywhere():
    price = estimate("part", "azure", "westus2", "dns:zone")
    assert price.low == price.price.usd_per_hour == price.high


@pytest.mark.parametrize(
    ("kind", "cloud", "region", "item"),
    [
        ("part", "aws", "us-esat-1", "ebs:gp3"),  # misspelt
        ("part", "aws", "us-west-2", "ebs:gp9"),
        ("part", "aws", "", "ebs:gp3"),
        ("machine", "aws", "us-west-2", "m5.huge"),
        ("machine", "aws", "ap-southeast-1", "g6e.xlarge"),  # not sold there (offered.csv)
        ("part", "mars", "us-west-2", "ebs:gp3"),
        ("part", "aws", "us-west-2", "ebs:gp3\n"),
    ],
)
def test_what_nobody_knows_is_not_estimated(kind, cloud, region, item):
    assert estimate(kind, cloud, region, item) is None


@pytest.mark.parametrize("cloud", catalog.CLOUDS)
def test_no_part_is_without_a_price_in_a_region(cloud):
    rows = list(price_table.iterate_table_rows("part", cloud))
    regions = [
        each for each in regional_price.list_priced_regions(cloud) if get_cloud(cloud).is_region_name(each)
    ]
    parts = sorted(
        {part for part, region, purchase, *_ in rows if purchase == "on_demand" and region in regions}
    )
    for part in parts[::12]:
        for region in regions:
            known = catalog.find_cloud_part_price(cloud, region, part)
            price = known or estimate("part", cloud, region, part).price
            assert price.usd_per_hour >= 0, (part, region)
            assert price.source, (part, region)


@pytest.mark.parametrize("cloud", catalog.CLOUDS)
def test_no_machine_is_without_a_price_in_a_region_that_may_sell_it(cloud):
    regions = [
        each for each in regional_price.list_priced_regions(cloud) if get_cloud(cloud).is_region_name(each)
    ]
    for machine in sorted(snapshot.list_snapshot_items(cloud))[::60]:
        for region in regions:
            known = catalog.find_machine_price(cloud, region, machine, "on_demand")
            is_sold = catalog.is_sold_in(cloud, machine, region)
            assert known or is_sold is False or estimate("machine", cloud, region, machine), (machine, region)


def make_price(purchase, as_of):
    return catalog.Price(1.0, "machine", as_of, "list", "high", "us-east-1", purchase)


def test_only_an_old_price_moves():
    today = date(2026, 11, 29)
    assert catalog.find_price_drift("aws", make_price("spot", "2026-06-02"), today) is None
    drift = catalog.find_price_drift("aws", make_price("spot", "2026-06-01"), today)
    assert (drift.low, drift.high) == (0.6459, 2.5988)
    assert catalog.find_price_drift("aws", make_price("spot", None), today) is None
    assert catalog.find_price_drift("aws", make_price("reserved_1y", "2025-05-28"), today) is None


def test_drifts_are_measured_on_many_prices_with_a_source():
    drifts = price_drift._load_drifts().values()
    assert {(each.cloud, each.purchase) for each in drifts} == {
        (cloud, purchase) for cloud in catalog.CLOUDS for purchase in ("on_demand", "spot")
    }
    for drift in drifts:
        assert 0 < drift.low <= 1 <= drift.high
        assert drift.prices > 1000
        assert "@" in drift.source or "npm" in drift.source


def test_the_command_lists_what_stands_for_a_region(gpufleet, tmp_path):
    shown = gpufleet("prices", "--machine", "ebs:gp3", "--region", "me-central-1", cwd=tmp_path).stdout
    assert "priced as me-south-1" in shown
    assert "0.0968" in shown
    assert gpufleet("prices", "--machine", "ebs:gp3", "--region", "mars-1", cwd=tmp_path).returncode == 2
