"""Test Google's machines without accelerators, disks and addresses, composed from SKUs.

The descriptions are those of build/mapping.csv in Cyclenerd/google-cloud-pricing-cost-calculator; the amounts of E2 and
N2 in us-central1 are Google's list prices, from which the embedded prices of 2026-07-30 follow.
"""

from __future__ import annotations

import pytest

from gpufleet import catalog
from gpufleet.catalog.prices import check_prices
from gpufleet.catalog.prices.check_context import load_price_check_context
from gpufleet.catalog.prices.refresh.google import (
    ORDINARY_FAMILIES,
    GoogleBillingSource,
    list_ordinary_machines,
    ordinary_component_amounts,
)
from gpufleet.catalog.prices.refresh.google_sku import parse_sku_description

from .conftest import TODAY
from .test_google import catalogue, find_usd_per_hour


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "a-secret-key")


def build_sku(description, nanos, usage="OnDemand", *, family="Compute", group="CPU", unit="h"):
    return {
        "description": description,
        "category": {"resourceFamily": family, "resourceGroup": group, "usageType": usage},
        "serviceRegions": ["us-central1"],
        "pricingInfo": [{"pricingExpression": {"usageUnit": unit, "tieredRates": [
            {"startUsageAmount": 0, "unitPrice": {"currencyCode": "USD", "units": "0", "nanos": nanos}}]}}],
    }  # fmt: skip


SKUS = [
    build_sku("E2 Instance Core running in Americas", 21811590),
    build_sku("E2 Instance Ram running in Americas", 2923530, group="RAM", unit="GiBy.h"),
    build_sku("E2 Custom Instance Core running in Americas", 99000000),
    build_sku("Spot Preemptible E2 Instance Core running in Americas", 6543000, "Preemptible"),
    build_sku("Spot Preemptible E2 Instance Ram running in Americas", 877000, "Preemptible", group="RAM",
              unit="GiBy.h"),
    build_sku("Commitment v1: E2 Cpu in Americas for 1 Year", 13740000, "Commit1Yr"),
    build_sku("Commitment v1: E2 Ram in Americas for 1 Year", 1842000, "Commit1Yr", group="RAM", unit="GiBy.h"),
    build_sku("N2 Instance Core running in Americas", 31611000),
    build_sku("N2 Instance Ram running in Americas", 4237000, group="RAM", unit="GiBy.h"),
    build_sku("Micro Instance with burstable CPU running in Americas", 7600000, group="F1Micro"),
    build_sku("Storage PD Capacity", 40000000, family="Storage", group="PDStandard", unit="GiBy.mo"),
    build_sku("SSD backed PD Capacity", 170000000, family="Storage", group="SSD", unit="GiBy.mo"),
    build_sku("Balanced PD Capacity", 100000000, family="Storage", group="SSD", unit="GiBy.mo"),
    build_sku("External IP Charge on a Standard VM", 5000000, family="Network", group="IpAddress"),
]  # fmt: skip


@pytest.fixture
def batch(start_fake_server, http_client):
    fake_server = start_fake_server(catalogue(SKUS))
    return GoogleBillingSource(http_client, fake_server.base).fetch_region_prices("us-central1", TODAY)


@pytest.mark.parametrize(
    "machine",
    ["e2-standard-4", "e2-micro", "e2-small", "e2-medium", "e2-highmem-8", "n2-standard-2", "f1-micro"],
)
def test_ordinary_machine_has_the_embedded_price(batch, machine):
    embedded = catalog.find_machine_price("gcp", "us-central1", machine, "on_demand").usd_per_hour
    assert find_usd_per_hour(batch, machine) == pytest.approx(embedded, rel=1e-4)


def test_memory_billed_by_decimal_gigabyte_gives_the_embedded_price(start_fake_server, http_client):
    # amounts and unit of the public catalogue for C4D in us-central1, as a public test of its reader quotes them
    skus = [
        build_sku("C4D Instance Core running in Americas", 32703500),
        build_sku("C4D Instance Ram running in Americas", 3495578, group="RAM", unit="GBy.h"),
    ]
    fake_server = start_fake_server(catalogue(skus))
    batch = GoogleBillingSource(http_client, fake_server.base).fetch_region_prices("us-central1", TODAY)
    for machine in ("c4d-standard-8", "c4d-highmem-8"):
        embedded = catalog.find_machine_price("gcp", "us-central1", machine, "on_demand").usd_per_hour
        assert find_usd_per_hour(batch, machine) == pytest.approx(embedded, rel=1e-5)


def test_purchases_of_ordinary_machines(batch):
    assert find_usd_per_hour(batch, "e2-standard-2", "spot") == pytest.approx(2 * 0.006543 + 8 * 0.000877)
    assert find_usd_per_hour(batch, "e2-standard-2", "reserved_1y") == pytest.approx(
        2 * 0.01374 + 8 * 0.001842
    )
    assert find_usd_per_hour(batch, "n2-standard-2", "spot") is None  # no SKU
    (row,) = [row for row in batch.rows if (row.item, row.purchase) == ("e2-standard-2", "on_demand")]
    assert (row.facts.vcpus, row.facts.memory_gib, row.facts.accelerators) == (2, 8, 0)


@pytest.mark.parametrize(
    ("part", "usd", "unit"),
    [
        ("pd-standard", 0.04 / 730, "gib"),
        ("pd-ssd", 0.17 / 730, "gib"),
        ("pd-balanced", 0.1 / 730, "gib"),
        ("public_ipv4", 0.005, "address"),
    ],
)
def test_parts_have_the_embedded_price_and_unit(batch, part, usd, unit):
    (row,) = [row for row in batch.rows if row.item == part]
    assert (row.kind, row.unit, row.usd_per_hour) == ("part", unit, pytest.approx(usd, abs=1e-8))
    assert catalog.find_cloud_part_price("gcp", "us-central1", part).usd_per_hour == pytest.approx(
        usd, rel=0.01
    )


def test_composed_prices_pass_the_checks(batch):
    findings = check_prices(batch.rows, load_price_check_context(None, batch.rows))
    assert [(finding.code, finding.row.item) for finding in findings] == []


@pytest.mark.parametrize("family", sorted(ORDINARY_FAMILIES))
def test_embedded_prices_of_a_family_are_the_sum_of_cores_and_memory(family):
    """Two machines give the price of a core and of a GiB; all others must follow from them."""
    machines = [
        (
            *(ordinary_component_amounts(machine.name, machine)[kind, family] for kind in ("core", "ram")),
            price,
        )
        for machine in list_ordinary_machines()
        if machine.name.startswith(f"{family}-")
        and (price := catalog.find_machine_price("gcp", "us-central1", machine.name, "on_demand"))
    ]
    if family == "n1" and not machines:
        pytest.skip("machines.csv has the machines of N1")
    cores, ram, price = machines[0]
    other = next((m for m in machines if abs(m[1] / m[0] - ram / cores) > 0.5), None)
    if other is None:  # one ratio of memory to cores: the price of a core says it all
        assert all(
            m[2].usd_per_hour / m[0] == pytest.approx(price.usd_per_hour / cores, rel=2e-3) for m in machines
        )
        return
    divisor = cores * other[1] - other[0] * ram
    core_usd = (price.usd_per_hour * other[1] - other[2].usd_per_hour * ram) / divisor
    ram_usd = (cores * other[2].usd_per_hour - other[0] * price.usd_per_hour) / divisor
    for machine_cores, machine_ram, machine_price in machines:
        expected = machine_cores * core_usd + machine_ram * ram_usd
        assert machine_price.usd_per_hour == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize(
    ("description", "usage", "expected"),
    [
        ("C2D AMD Instance Core running in Americas", "OnDemand", ("core", "c2d", "on_demand")),
        ("C4A Arm Instance Ram running in Zurich", "OnDemand", ("ram", "c4a", "on_demand")),
        ("Compute optimized Core running in Americas", "OnDemand", ("core", "c2", "on_demand")),
        ("Commitment: Compute optimized Core running in Americas for 1 Year", "Commit1Yr",
         ("core", "c2", "reserved_1y")),
        ("M3 Memory-optimized Instance Core running in Americas", "OnDemand", ("core", "m3", "on_demand")),
        ("Memory-optimized Instance Ram running in Americas", "OnDemand", ("ram", "m1", "on_demand")),
        ("Regional SSD backed PD Capacity in Zurich", "OnDemand", ("disk", "regional-pd-ssd", "on_demand")),
        ("N2 Custom Instance Core running in Americas", "OnDemand", None),
        ("N2 Sole Tenancy Instance Core running in Americas", "OnDemand", None),
        ("Reserved N2 Instance Core in Americas", "OnDemand", None),
        ("Memory Optimized Upgrade Premium for Memory-optimized Instance Core running in Americas", "OnDemand", None),
    ],
)  # fmt: skip
def test_descriptions_of_ordinary_components(description, usage, expected):
    assert parse_sku_description(description, usage) == expected
