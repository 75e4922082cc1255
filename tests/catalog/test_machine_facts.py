"""Test the table of machine facts: notation, sources, and its figures against the clouds' own answers."""

from __future__ import annotations

import fnmatch
import gzip
import json
import re
from collections import Counter
from functools import cache
from importlib import resources
from itertools import product

import botocore.session
import pytest

from gpufleet import catalog
from gpufleet.catalog import data_file, fact_value
from gpufleet.catalog.machine_facts import is_row_of_machine, load_fact_rows, matches_name_pattern

CLOUD_MACHINES = [key for key in data_file.load_machines() if key[0] in catalog.CLOUDS]
INSTANCE_TYPES = botocore.session.get_session().get_service_model("ec2").shape_for("InstanceType").enum
NAMED_MACHINES = [
    *CLOUD_MACHINES,
    *(("aws", name) for name in INSTANCE_TYPES),
]  # P3 has facts, but no driver here
WITH_FACTS = [key for key in CLOUD_MACHINES if catalog.get_machine_facts(key[1], key[0])]
REQUIRED_FIELDS = (
    "network_cards",
    "fabric",
    "local_disks",
    "boot_disk_kinds",
    "purchases",
    "creatable_reservation",
    "image",
    "quota_units",
    "zones",
)
FIELDS_OF_CLOUD = {
    "aws": ("quota_buckets", "gpu_module"),
    "azure": ("quota_buckets", "temp_disk_gib"),
    "gcp": (),
}
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
    if not any(cloud == row["cloud"] and is_row_of_machine(base, name) for cloud, name in NAMED_MACHINES):
        yield "no machine of that name"
    if row["value"] == fact_value.UNKNOWN:
        if row["source"] or len(row["note"]) < 20:
            yield "an unknown value has a note that says where it was looked for, and no source"
        return
    fact_value.parse_fact(row["field"], row["value"])
    if not row["source"] or set(row["source"].split()) - set(catalog.load_catalog_sources()):
        yield f"source {row['source']!r} is not in sources.csv"
    if not re.fullmatch(r"20\d\d(-\d\d){0,2}|undated", row["as_of"]):
        yield f"date {row['as_of']!r}"


@pytest.mark.parametrize(
    "pattern", ["a", "a*", "*a", "a*b", "a*b*", "*a*b", "a*b*c", "ab*ba", "*", "**", "a**b", ""]
)
def test_name_pattern_matches_as_the_shell_does(pattern):
    names = ["".join(letters) for length in range(6) for letters in product("abc", repeat=length)]
    assert [name for name in names if matches_name_pattern(name, pattern)] == fnmatch.filter(names, pattern)


def test_rows_are_well_formed():
    assert [(row.where, fault) for row in load_fact_rows() for fault in find_row_faults(row)] == []


def list_required_fields(facts):
    """Return the fields that a machine of this cloud and fabric must state, or name as unknown."""
    yield from REQUIRED_FIELDS
    yield from FIELDS_OF_CLOUD[facts.cloud]
    if facts.fabric:
        yield from ("fabric_gbit_per_s", "max_fabric_nodes")
    if facts.fabric and facts.fabric.startswith("gpudirect"):
        yield "fabric_networks"


@pytest.mark.parametrize(("cloud", "name"), CLOUD_MACHINES)
def test_every_declared_machine_states_its_facts_or_names_them_as_unknown(cloud, name):
    facts = catalog.get_machine_facts(name, cloud)
    assert facts is not None
    assert [field for field in list_required_fields(facts) if field not in facts.cells] == []


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


@pytest.mark.parametrize(
    "name", sorted({"p3dn.24xlarge"} | {name for cloud, name in WITH_FACTS if cloud == "aws"})
)
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
    cell = facts.get_cell("local_disk_gib")
    assert (cell.source, cell.as_of) == ("azure-sizes-ndh100v5", "2025-09-02")
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


@pytest.mark.parametrize("machine", ["a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"])
def test_small_a3_machines_are_sold_as_spot_and_flex_start_only(machine):
    facts = catalog.get_machine_facts(machine, "gcp")
    assert (facts.purchases, facts.creatable_reservation) == ({"spot", "flex_start"}, False)


def test_a3_ultra_and_a4_are_not_sold_on_demand():
    for machine in ("a3-ultragpu-8g", "a4-highgpu-8g"):
        assert "on_demand" not in catalog.get_machine_facts(machine, "gcp").purchases


@pytest.mark.parametrize("machine", ["a3-ultragpu-8g", "a4-highgpu-8g", "g4-standard-48"])
def test_newer_google_machines_boot_from_hyperdisk_only(machine):
    assert catalog.get_machine_facts(machine, "gcp").boot_disk_kinds == ("hyperdisk-balanced",)


def test_mi300x_needs_the_image_with_rocm():
    assert catalog.get_machine_facts("Standard_ND96isr_MI300X_v5", "azure").image.endswith(":2204-rocm")


@pytest.mark.parametrize(
    ("machine", "can_be_reserved"),
    [
        ("Standard_NC4as_T4_v3", True),
        ("Standard_NC24ads_A100_v4", True),
        ("Standard_NV36adms_A10_v5", True),
        ("Standard_NC80adis_H100_v5", False),
        ("Standard_ND96amsr_A100_v4", False),
        ("Standard_ND96isr_MI300X_v5", False),
    ],
)
def test_azure_reserves_capacity_for_some_series_only(machine, can_be_reserved):
    facts = catalog.get_machine_facts(machine, "azure")
    assert facts.creatable_reservation is can_be_reserved
    assert ("reserved" in facts.purchases) is can_be_reserved
    assert (
        "committed" in facts.purchases
    )  # a reserved VM instance is a billing reservation and needs no resource


def test_attached_accelerator_adds_its_facts():
    plain, with_t4 = (catalog.get_machine_facts("n1-standard-8", "gcp", model) for model in (None, "T4"))
    assert plain.quota_buckets == {}
    assert with_t4.quota_buckets["spot"] == "PREEMPTIBLE_NVIDIA_T4_GPUS"
    assert with_t4.boot_disk_kinds == plain.boot_disk_kinds
    assert (with_t4.machine, max(with_t4.local_disk_counts), max(plain.local_disk_counts)) == (
        "n1-standard-8",
        16,
        24,
    )
    assert with_t4.accelerator_vcpus == {1: 48, 2: 48, 4: 96}


def test_unknown_fact_is_none_and_says_why():
    facts = catalog.get_machine_facts("p4d.24xlarge", "aws")
    assert (facts.max_fabric_nodes, facts.is_known("max_fabric_nodes")) == (None, False)
    assert "AWS names no limit" in facts.get_cell("max_fabric_nodes").note


def test_stated_absence_is_not_unknown():
    facts = catalog.get_machine_facts("a2-megagpu-16g", "gcp")
    assert (facts.fabric, facts.is_known("fabric")) == (None, True)
    assert (facts.local_disk_count, facts.local_disk_gib, facts.local_disk_counts) == (0, 375, (8,))
