"""Test that similar accelerators get separate prices on import."""

from __future__ import annotations

import itertools

import pytest

from gpufleet.catalog.prices.imports import PriceOrigin, load_price_file, translation

HEAD = "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice"
# (host, its price alone, the card's name, how many, what all the cards cost): Google's machines with their own cards.
PAIRS = [
    ("a3-highgpu-8g", 9.0, "H100", 8, 80.0),
    ("a3-megagpu-8g", 9.5, "H100-MEGA", 8, 85.0),
    ("a2-highgpu-8g", 5.0, "A100", 8, 23.0),
    ("a2-ultragpu-8g", 6.0, "A100-80GB", 8, 31.0),
    ("a2-highgpu-4g", 2.5, "A100", 4, 11.5),
]


def import_skypilot(path, order, region="us-central1"):
    lines = [HEAD]
    for host, price, card, count, cards in order:
        lines.append(f"{host},96,1360,,,,{region},{region}-a,{price},{price / 4}")
        lines.append(f",,,{card},{count},,{region},{region}-a,{cards},{cards / 5}")
    path.write_text("\n".join(lines) + "\n")
    return {
        (row.item, row.purchase): row for row in load_price_file(path, origin=PriceOrigin(cloud="gcp")).rows
    }


@pytest.mark.parametrize(
    "order", [PAIRS, PAIRS[::-1], PAIRS[2:] + PAIRS[:2]], ids=["as is", "reversed", "turned"]
)
def test_google_machine_gets_the_price_of_its_own_cards(tmp_path, order):
    rows_by_key = import_skypilot(tmp_path / "gcp.csv", order)
    for host, price, _, count, cards in PAIRS:
        assert rows_by_key[host, "on_demand"].usd_per_hour == pytest.approx(price + cards)
        assert rows_by_key[host, "spot"].usd_per_hour == pytest.approx(price / 4 + cards / 5)
        assert rows_by_key[host, "on_demand"].facts.accelerators == count


@pytest.mark.parametrize("left_out", range(2))
def test_google_machine_without_its_card_gets_no_price_of_another_card(tmp_path, left_out):
    pairs = [list(pair) for pair in PAIRS[:2]]
    pairs[left_out][2] = "L4"
    rows_by_key = import_skypilot(tmp_path / "gcp.csv", pairs)
    assert rows_by_key[pairs[left_out][0], "on_demand"].usd_per_hour == pairs[left_out][1]


def test_card_price_of_another_region_is_not_used(tmp_path):
    host, price, card, count, cards = PAIRS[0]
    path = tmp_path / "gcp.csv"
    path.write_text(
        f"{HEAD}\n{host},208,1872,,,,us-central1,us-central1-a,{price},\n,,,{card},{count},,europe-west4,europe-west4-b,{cards},\n"
    )
    (row,) = [row for row in load_price_file(path, origin=PriceOrigin(cloud="gcp")).rows if row.item == host]
    assert row.usd_per_hour == price


# Memory tells siblings of one name apart (NVIDIA's data sheets); where it is not given, the name decides.
CARDS = [
    ("A100", 40, "A100 SXM4 40GB"), ("A100", 80, "A100 SXM4 80GB"), ("A100-80GB", None, "A100 SXM4 80GB"),
    ("A100", None, "A100 SXM4 40GB"), ("V100", 16, "Tesla V100 SXM2 16GB"), ("V100", 32, "Tesla V100 SXM2 32GB"),
    ("V100-32GB", None, "Tesla V100 SXM2 32GB"), ("V100", None, "Tesla V100 SXM2 16GB"),
    ("H100", 80, "H100 SXM5 80GB"), ("H100", 94, "H100 NVL 94GB"), ("H100 NVL", None, "H100 NVL 94GB"),
    ("H100-MEGA", None, "H100 SXM5 80GB"), ("H200", 141, "H200 SXM 141GB"), ("P100", 16, "Tesla P100 PCIe 16GB"),
    ("T4", 16, "T4"), ("L4", 24, "L4"), ("A10G", 24, "A10G"), ("H100", 93.9, "H100 NVL 94GB"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "memory", "catalog_name"), CARDS)
def test_accelerator_name_is_translated_to_the_catalogue_name(raw, memory, catalog_name):
    assert translation.translate_accelerator_name(raw, memory) == catalog_name


def test_unknown_accelerator_keeps_its_name():
    assert translation.translate_accelerator_name("Z9-Turbo", 7) == "Z9-Turbo"


@pytest.mark.parametrize(
    ("location", "cloud", "region"),
    [
        ("us-central1-a", "gcp", "us-central1"),
        ("us-central1", "gcp", "us-central1"),
        ("us-central1-ai1a", "gcp", "us-central1"),
        ("europe-west4-b", "gcp", "europe-west4"),
        ("us-east-1", "aws", "us-east-1"),
        ("eastus2", "azure", "eastus2"),
    ],
)
def test_zone_is_shortened_to_its_region_for_google_only(location, cloud, region):
    assert translation.extract_region_of_location(location, cloud) == region


@pytest.mark.parametrize(
    ("regions", "cloud"),
    [
        ({"us-east-1", "eu-west-3", "us-gov-west-1"}, "aws"),
        ({"us-central1", "asia-southeast1"}, "gcp"),
        ({"eastus", "westeurope", "uksouth", "eastus2"}, "azure"),
    ],
)
def test_cloud_is_detected_from_region_names(regions, cloud):
    assert translation.detect_price_file_cloud("prices", regions, "f.csv") == cloud


def test_prices_of_the_test_pairs_are_distinct():
    sums = [price + cards for _, price, _, _, cards in PAIRS]
    assert all(first != second for first, second in itertools.combinations(sums, 2))
