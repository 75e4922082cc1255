"""Test the table of machine facts: notation, sources, and its figures against the clouds' own answers."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from functools import cache
from importlib import resources

import pytest

from gpufleet import catalog
from gpufleet.catalog import data_file, fact_value
from gpufleet.catalog.machine_facts import is_row_of_machine, load_fact_rows

CLOUD_MACHINES = [key for key in data_file.load_machines() if key[0] in catalog.CLOUDS]
WITH_FACTS = [key for key in CLOUD_MACHINES if catalog.get_machine_facts(key[1], key[0])]
USAGE_CLASSES = {"on-demand": "on_demand", "spot": "spot", "capacity-block": "capacity_block"}


@cache
def load_instance_types():
    """Return AWS's answers of DescribeInstanceTypes by type, as moto records them."""
    packed = resources.files("moto").joinpath("ec2/resources/instance_types.json.gz").read_bytes()
    return json.loads(gzip.decompress(packed))


def test_each_fact_is_stated_once():
    counts = Counter((row["cloud"], row["machine"], row["field"]) for row in load_fact_rows())
    assert [key for key, count in counts.items() if count > 1] == []


def find_row_faults(row):
    """Yield what is wrong with a row's machine, value, source or date."""
    base = row["machine"].split("+", maxsplit=1)[0]
    if not any(cloud == row["cloud"] and is_row_of_machine(base, name) for cloud, name in CLOUD_MACHINES):
        yield "no machine of that name"
    if row["value"] == fact_value.UNKNOWN:
        if row["source"] or len(row["note"]) < 20:
            yield "an unknown value has a note that says where it was looked for, and no source"
        return
    fact_value.parse_fact(row["field"], row["value"])
    if not row["source"] or set(row["source"].split()) - set(catalog.load_catalog_sources()):
        yield f"source {row['source']!r} is not in sources.csv"
    if not re.fullmatch(r"20\d\d(-\d\d){0,2}", row["as_of"]):
        yield f"date {row['as_of']!r}"


def test_rows_are_well_formed():
    assert [(row.where, fault) for row in load_fact_rows() for fault in find_row_faults(row)] == []


@pytest.mark.parametrize(("cloud", "name"), WITH_FACTS)
def test_facts_are_plausible(cloud, name):
    facts = catalog.get_machine_facts(name, cloud)
    assert (facts.fabric is None) == (facts.fabric_interfaces == 0)
    assert all(1 <= card.interfaces <= 15 and card.efa_interfaces in {0, 1} for card in facts.network_cards)
    assert facts.fabric == "efa" or not any(card.efa_interfaces for card in facts.network_cards)
    assert facts.fabric_gbit_per_s is None or 25 <= facts.fabric_gbit_per_s <= 6400
    assert facts.local_disk_total_gib is None or facts.local_disk_total_gib <= 30_000
    assert set(facts.quota_buckets) <= set(fact_value.PURCHASE_KINDS)
    assert not facts.creatable_reservation or "reserved" in facts.purchases or not facts.purchases


@pytest.mark.parametrize("name", sorted(name for cloud, name in WITH_FACTS if cloud == "aws"))
def test_aws_facts_equal_the_answers_of_describe_instance_types(name):
    facts, answer = catalog.get_machine_facts(name, "aws"), load_instance_types()[name]
    network = answer["NetworkInfo"]
    assert [
        (card.index, card.interfaces, card.efa_interfaces, card.gbit_per_s) for card in facts.network_cards
    ] == [
        (
            card["NetworkCardIndex"],
            card["MaximumNetworkInterfaces"],
            int(network["EfaSupported"] and "efa" in card["InterfaceTypes"]),
            card["PeakBandwidthInGbps"],
        )
        for card in network["NetworkCards"]
    ]
    assert (facts.fabric == "efa") == network["EfaSupported"]
    assert facts.fabric_interfaces == network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    (disks,) = answer["InstanceStorageInfo"]["Disks"]
    assert facts.local_disk_count == disks["Count"]
    assert facts.local_disk_gib == pytest.approx(disks["SizeInGB"] * 1e9 / 2**30, abs=0.1)
    sold = {USAGE_CLASSES[usage] for usage in answer["SupportedUsageClasses"]}
    assert facts.purchases & set(USAGE_CLASSES.values()) == sold


def test_first_card_of_p6_b300_has_no_efa():
    cards = catalog.get_machine_facts("p6-b300.48xlarge", "aws").network_cards
    assert [card.efa_interfaces for card in cards] == [0] + [1] * 16


def test_h200_machine_of_azure_has_infiniband_and_no_reservation():
    facts = catalog.get_machine_facts("Standard_ND96isr_H200_v5", "azure")
    assert (facts.fabric, facts.fabric_interfaces, facts.creatable_reservation) == ("infiniband", 8, False)
    assert catalog.get_machine("Standard_ND96isr_H200_v5").fabric == "infiniband"


def test_fact_names_its_source_and_date():
    facts = catalog.get_machine_facts("Standard_ND96isr_H100_v5", "azure")
    assert facts.source_of("local_disk_gib") == ("azure-sizes-ndh100v5", "2025-09-02")
    assert facts.local_disk_total_gib == 28 * 1024


def test_machine_without_rows_has_no_facts():
    assert catalog.get_machine_facts("c5.large", "aws") is None


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("network_cards", "0:2/1"),
        ("network_cards", "1:2/1/100"),
        ("local_disks", "8 disks"),
        ("fabric", "ethernet"),
        ("purchases", "on_demand reserved_1y"),
        ("creatable_reservation", "perhaps"),
        ("retires", "soon"),
        ("colour", "green"),
    ],
)
def test_malformed_value_is_refused(field, text):
    with pytest.raises(ValueError, match=r".+"):
        fact_value.parse_fact(field, text)
