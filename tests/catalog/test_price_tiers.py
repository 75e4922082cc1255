"""Test the table of volume tiers: complete keys, sources, falling prices, and that it fits the parts' prices."""

from __future__ import annotations

import pytest

from gpufleet import catalog
from gpufleet.catalog import data_file
from tools.price_lists import read_price_list

TIERS = catalog.load_price_tiers()


def test_rows_are_sorted_unique_dated_and_sourced():
    rows = read_price_list("price_tiers.csv")
    keys = [(row["cloud"], row["region"], row["part"], row.get_integer("from_amount")) for row in rows]
    assert keys == sorted(set(keys))
    assert [row for row in rows if len(row["source"]) < 5 or row.get_number("usd") <= 0] == []
    assert [row for row in rows if (row["confidence"] == "low") != (not row["as_of"])] == []


@pytest.mark.parametrize("key", TIERS)
def test_tiers_start_at_zero_and_their_prices_fall(key):
    tiers = TIERS[key]
    assert len(tiers) > 1
    assert tiers[0].from_amount == 0
    prices = [tier.usd for tier in tiers]
    assert prices == sorted(set(prices), reverse=True)


@pytest.mark.parametrize("key", TIERS)
def test_first_tier_is_the_price_of_the_part(key):
    price = catalog.find_cloud_part_price(*key)
    assert price is not None
    months = 1 if data_file.find_part_period(*key) == "use" else catalog.HOURS_PER_MONTH
    assert price.usd_per_hour * months == pytest.approx(float(TIERS[key][0].usd), rel=1e-9)


def test_part_without_tiers_has_none():
    assert catalog.find_price_tiers("aws", "us-east-1", "nat_gateway:gib") == ()
    assert catalog.find_first_tier_limit("aws", "nat_gateway:gib") is None


def test_smallest_limit_of_a_part_is_found_over_all_regions():
    assert catalog.find_first_tier_limit("aws", "egress:gib") == 10_240
    assert catalog.find_first_tier_limit("gcp", "egress:gib") == 1_024
