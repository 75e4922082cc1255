from __future__ import annotations

from datetime import date

import pytest

from gpufleet import catalog
from gpufleet.errors import InputError


def test_price_has_its_source_and_date():
    price = catalog.find_machine_price("aws", "us-east-1", "p4d.24xlarge", "on_demand")
    assert (price.usd_per_hour, price.unit, price.confidence) == (21.957642, "machine", "high")
    assert (price.as_of, price.source) == ("2026-07-06", "karpenter-aws-v1.14.1")


def test_stale_reserved_price_is_ignored():
    assert catalog.find_machine_price("aws", "us-east-1", "p4d.24xlarge", "reserved_1y") is None
    assert catalog.find_machine_price("aws", "us-east-1", "g5.2xlarge", "reserved_1y") is not None


@pytest.mark.parametrize(
    "key",
    [
        ("aws", "mars-1", "p4d.24xlarge", "on_demand"),
        ("gcp", "us-east-1", "p4d.24xlarge", "on_demand"),
        ("aws", "us-east-1", "p4d.24xlarge", "barter"),
    ],
)
def test_unknown_region_cloud_or_purchase_has_no_price(key):
    assert catalog.find_machine_price(*key) is None


@pytest.mark.parametrize(
    ("cloud", "region", "machine", "purchase", "usd_per_hour"),
    [  # by hand from the data handed to the project, prices_main.csv
        ("gcp", "us-central1", "a2-megagpu-16g", "spot", 29.25568),
        ("azure", "eastus", "Standard_ND96amsr_A100_v4", "reserved_1y", 20.97283),
        ("aws", "us-east-1", "g5.2xlarge", "on_demand", 1.212),
        ("gcp", "us-central1", "n1-standard-8", "on_demand", 0.379998),
        ("azure", "eastus", "Standard_NC4as_T4_v3", "on_demand", 0.526),
    ],
)
def test_prices_of_the_shipped_stacks_are_known(cloud, region, machine, purchase, usd_per_hour):
    assert catalog.find_machine_price(cloud, region, machine, purchase).usd_per_hour == pytest.approx(
        usd_per_hour, rel=1e-5
    )


def test_undated_card_price_has_low_confidence():
    price = catalog.find_cloud_part_price("gcp", "us-central1", "accelerator:nvidia-tesla-t4")
    assert (price.usd_per_hour, price.as_of, price.earliest_price_date, price.confidence) == (
        0.35,
        None,
        None,
        "low",
    )


def test_monthly_part_price_is_converted_to_hours():
    price = catalog.find_cloud_part_price("gcp", "us-central1", "pd-balanced")
    assert price.unit == "gib"
    assert price.usd_per_hour * 730 == pytest.approx(0.10)


def test_part_without_a_source_has_no_price():
    assert catalog.find_cloud_part_price("azure", "eastus", "premium-ssd-p6") is None


@pytest.mark.parametrize(
    ("cloud", "region", "part", "usd_per_month"),
    [
        ("aws", "us-east-1", "ebs:gp3", 0.08),
        ("aws", "eu-central-1", "ebs:gp3", 0.0952),
        ("aws", "us-east-1", "public_ipv4", 3.65),
        ("gcp", "us-central1", "public_ipv4", 3.65),
        ("azure", "eastus", "premium-ssd-p10", 19.71),
        ("azure", "westeurope", "premium-ssd-p10", 21.68),
        ("azure", "eastus", "public_ipv4", 3.65),
    ],
)
def test_part_prices_of_the_shipped_stacks_are_known(cloud, region, part, usd_per_month):
    assert catalog.find_cloud_part_price(cloud, region, part).usd_per_hour * 730 == pytest.approx(
        usd_per_month
    )


def test_address_of_a_gcp_spot_machine_costs_half():
    assert catalog.find_cloud_part_price("gcp", "us-central1", "public_ipv4", "spot").usd_per_hour == 0.0025


def test_date_of_an_interval_is_its_start():
    price = catalog.find_machine_price("aws", "us-west-2", "p4d.24xlarge", "on_demand")
    assert (price.as_of, price.earliest_price_date) == ("2025-11/2026-07", date(2025, 11, 1))


def test_machine_is_found_with_and_without_its_cloud():
    assert catalog.get_machine("p4d.24xlarge") == catalog.get_machine("p4d.24xlarge", "aws")
    card = catalog.get_machine("p4d.24xlarge").accelerators[0]
    assert (card.model, card.count, card.memory_gib) == ("A100 SXM4 40GB", 8, 40)


def test_unknown_machine_is_refused_with_suggestions():
    with pytest.raises(InputError, match=r"unknown aws machine 'p4d.24xlarg'; did you mean p4d.24xlarge"):
        catalog.get_machine("p4d.24xlarg", "aws")


def test_machine_of_another_cloud_is_refused_with_its_cloud():
    with pytest.raises(InputError, match="is a machine of azure"):
        catalog.get_machine("Standard_NC4as_T4_v3", "aws")


def test_retired_machine_is_reported_with_date_and_substitutes():
    with pytest.raises(
        InputError, match=r"retired by azure on 2025-09-30; use Standard_NC4as_T4_v3, Standard_NV36"
    ):
        catalog.get_machine("Standard_NC6s_v3")
    assert catalog.find_machine_retirement("Standard_NC6s_v3").retired == date(2025, 9, 30)


def test_regions_with_a_machine_are_listed():
    assert catalog.list_machine_regions("gcp", "a2-megagpu-16g") == (
        "asia-southeast1",
        "europe-west4",
        "us-central1",
    )
    assert "eastus" in catalog.list_accelerator_regions("azure")
