"""Test the packaged data files of the catalogue."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from gpufleet import catalog
from gpufleet.catalog import data_file
from gpufleet.catalog.price_archive import list_price_members, read_price_member
from gpufleet.catalog.price_table import TABLES_FILE
from tools.price_lists import LISTS, build_table_members, read_price_list

FILES = ("hosts.csv", "machines.csv", "parts.csv", "prices.csv", "regions.csv", "retired.csv")
KEYS = {
    "hosts.csv": ("name",),
    "machines.csv": ("cloud", "name"),
    "parts.csv": ("cloud", "region", "part", "purchase"),
    "prices.csv": ("cloud", "region", "machine", "purchase"),
    "regions.csv": ("cloud", "region"),
    "retired.csv": ("cloud", "machine"),
}
GOOGLE_LOCATIONS = ("us", "eu", "europe", "asia", "nam4", "nam5", "eur3", "eur4", "asia1")  # of storage
SERVICE_PARTS = tuple(f"service_parts_{cloud}.csv" for cloud in catalog.CLOUDS)
PURCHASES = {"on_demand", "spot", "reserved_1y", "reserved_3y"}


def read_rows(name):
    is_listed = any(name in names for names in LISTS.values())
    return read_price_list(name) if is_listed else data_file.load_catalog_rows(name)


def test_the_embedded_tables_are_the_reviewed_lists():
    members = build_table_members()
    embedded = {name: read_price_member(TABLES_FILE, name) for name in list_price_members(TABLES_FILE)}
    assert embedded == members, "run python -m tools.price_lists"


def expected_confidence(row):
    """Return the confidence that the rule in data/README.md gives a price row."""
    spot = row["purchase"] == "spot"
    if not row["as_of"]:
        return "low"
    weak = row["as_of"] < "2025-11" or "skypilot" in row["source"]
    return {(False, False): "high", (False, True): "medium", (True, False): "medium", (True, True): "low"}[
        spot, weak
    ]


@pytest.mark.parametrize("name", FILES)
def test_catalogue_keys_are_unique(name):
    counts = Counter(tuple(row[part] for part in KEYS[name]) for row in read_rows(name))
    assert [key for key, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("name", FILES)
def test_every_row_names_its_source(name):
    rows = read_rows(name)
    assert rows
    assert [row for row in rows if len(row["source"]) < 5] == []


@pytest.mark.parametrize("name", FILES)
def test_no_row_is_recalled_or_suspicious(name):
    bad = ("[R", "suspect", "pre-2025-06-cut")
    assert [row for row in read_rows(name) if any(mark in str(row) for mark in bad)] == []


@pytest.mark.parametrize("name", ["prices.csv", "parts.csv"])
def test_prices_are_plausible(name):
    column = "usd_per_hour" if name == "prices.csv" else "usd"
    free = [row for row in read_rows(name) if row.get("part") == "efa"]
    assert [row for row in read_rows(name) if row not in free and not 0 < float(row[column]) < 500] == []
    assert {row[column] for row in free} <= {"0"}


@pytest.mark.parametrize("name", ["prices.csv", "parts.csv"])
def test_purchases_and_dates_are_well_formed(name):
    prices = data_file.load_machine_prices() if name == "prices.csv" else data_file.load_cloud_part_prices()
    assert {key[3] for key in prices} <= PURCHASES
    assert [price for price in prices.values() if price.as_of and price.earliest_price_date is None] == []


def test_no_discount_costs_more_than_on_demand():
    prices = {**data_file.load_machine_prices(), **data_file.load_cloud_part_prices()}
    dear = [
        key
        for key, price in prices.items()
        if (full := prices.get((*key[:3], "on_demand"))) and price.usd_per_hour > full.usd_per_hour
    ]
    assert dear == []


def test_spot_is_cheaper_than_on_demand_and_not_a_placeholder():
    for key, price in data_file.load_machine_prices().items():
        full = data_file.load_machine_prices().get((*key[:3], "on_demand"))
        if key[3] == "spot" and full:
            assert price.usd_per_hour / full.usd_per_hour < 0.95, key
            assert round(price.usd_per_hour / full.usd_per_hour, 4) != 0.1, key


def test_confidence_matches_source_and_age():
    rows = read_price_list("prices.csv")
    expected = [(row, expected_confidence(row)) for row in rows]
    assert [(row, right) for row, right in expected if row["confidence"] != right] == []


def test_confidence_of_parts_matches_purchase_and_date():
    dated = {"on_demand": "medium", "reserved_1y": "medium", "reserved_3y": "medium", "spot": "low"}
    rows = read_price_list("parts.csv")
    assert [
        row for row in rows if row["confidence"] != (dated[row["purchase"]] if row["as_of"] else "low")
    ] == []


def test_region_with_a_part_price_has_disk_and_address_prices():
    disks = {"aws": "ebs:gp3", "gcp": "pd-balanced"}  # what a pool of ours gets
    rows = read_price_list("parts.csv")
    parts = [(row["cloud"], row["region"], row["part"]) for row in rows]
    for cloud, disk in disks.items():
        regions = {key[1] for key in parts if key[0] == cloud}
        assert {key[1] for key in parts if key[2] == disk} == regions
        assert {key[1] for key in parts if key[0] == cloud and key[2] == "public_ipv4"} == regions


def test_no_part_is_in_two_files():
    names = [*SERVICE_PARTS, "parts.csv"]
    keys = [tuple(row[part] for part in KEYS["parts.csv"]) for name in names for row in read_rows(name)]
    assert [key for key, count in Counter(keys).items() if count > 1] == []


@pytest.mark.parametrize("name", SERVICE_PARTS)
def test_service_parts_are_sorted_dated_and_sourced(name):
    rows = read_rows(name)
    keys = [tuple(row[part] for part in KEYS["parts.csv"]) for row in rows]
    assert keys == sorted(keys)
    assert {row["cloud"] for row in rows} <= {name.removesuffix(".csv").rpartition("_")[2]}
    assert [row for row in rows if len(row["source"]) < 5 or float(row["usd"]) <= 0] == []
    listed = [row for row in rows if row["purchase"] != "spot"]  # a spot price changes, so it may be low
    assert [row for row in listed if (row["confidence"] == "low") != (not row["as_of"])] == []


def test_larger_disk_tiers_cost_more():
    parts = data_file.load_cloud_part_prices()
    prices = [parts["azure", "eastus", f"premium-ssd-p{tier}", "on_demand"] for tier in (4, 10, 15, 20, 30)]
    assert [price.unit for price in prices] == ["disk"] * 5
    assert [price.usd_per_hour for price in prices] == sorted(price.usd_per_hour for price in prices)


def test_a_part_has_one_unit_and_one_period_in_all_regions():
    units = defaultdict(set)
    for name in ("parts.csv", *SERVICE_PARTS):
        for row in read_rows(name):
            units[row["cloud"], row["part"]].add((row["unit"], row["per"]))
    assert len(units) > 800
    assert [key for key, found in units.items() if len(found) > 1] == []


def test_every_price_has_a_source_that_can_be_followed():
    for name in ("parts.csv", *SERVICE_PARTS):
        for row in read_rows(name):
            assert "public repository;" not in row["source"] + ";", row
            assert "stored" not in row["source"], row


def test_every_priced_machine_is_described():
    described = set(data_file.load_machines())
    assert {(key[0], key[2]) for key in data_file.load_machine_prices()} <= described


def test_every_price_is_in_a_known_region():
    regions = {cloud: {*data_file.list_accelerator_regions(cloud), "global"} for cloud in catalog.CLOUDS}
    regions["aws"] |= {*catalog.list_machine_regions("aws", "t3.micro")}
    regions["azure"] |= {*catalog.list_machine_regions("azure", "Standard_D4s_v5")}
    regions["gcp"] |= {*catalog.list_machine_regions("gcp", "c4-standard-2"), *GOOGLE_LOCATIONS, "us-west8"}
    for key in (*data_file.load_machine_prices(), *data_file.load_cloud_part_prices()):
        assert key[1] in regions[key[0]], key


def test_machines_are_plausible():
    for machine in data_file.load_machines().values():
        assert 1 <= machine.vcpus <= 512, machine
        assert 1 <= machine.memory_gib <= 4096, machine
        assert machine.arch in {"x86_64", "arm64"}, machine
        facts = catalog.get_machine_facts(machine.name, machine.cloud)
        assert (machine.fabric is None) == (facts is None or facts.fabric_interfaces == 0), machine


def test_cards_of_machines_are_in_the_catalogue_and_their_memory_fits():
    known = catalog.load_accelerators()
    for machine in data_file.load_machines().values():
        for card in machine.accelerators:
            memory_gib = known[card.model].memory_gib * card.share
            assert card.memory_gib <= memory_gib * 1.01, machine
            assert 1 <= card.count <= 16, machine


def test_attachable_cards_are_in_the_catalogue():
    assert {card for machine in data_file.load_machines().values() for card in machine.attachable} <= set(
        catalog.load_accelerators()
    )


def test_retired_machines_cannot_be_bought_and_their_substitutes_can():
    for (cloud, name), retirement in data_file.load_retirements().items():
        assert (cloud, name) not in data_file.load_machines()
        assert retirement.substitutes
        assert all((cloud, other) in data_file.load_machines() for other in retirement.substitutes), (
            retirement
        )
