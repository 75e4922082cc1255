"""Test the embedded prices of ordinary machines and of database, cache and search nodes."""

from __future__ import annotations

import gzip
import json
from datetime import date
from pathlib import Path

import moto
import pytest

from gpufleet import catalog
from gpufleet.catalog import data_file
from gpufleet.catalog.prices import snapshot
from gpufleet.catalog.prices.name_suggestion import load_priced_names
from gpufleet.catalog.prices.row import PriceRow
from gpufleet.catalog.prices.snapshot_check import check_snapshot_rows
from gpufleet.catalog.prices.snapshot_report import build_page

ROOT = Path(__file__).resolve().parents[3]

M5 = ("aws", "eu-west-1", "m5.large")


@pytest.mark.parametrize(
    ("cloud", "region", "machine", "purchase", "usd"),
    [
        ("aws", "us-east-1", "t3.medium", "on_demand", 0.0416),
        ("aws", "eu-west-1", "m5.large", "on_demand", 0.107),
        ("aws", "us-east-1", "m5.large:windows", "on_demand", 0.188),
        ("azure", "eastus", "Standard_D2s_v3", "on_demand", 0.096),
        ("azure", "eastus", "Standard_D2s_v3:windows", "on_demand", 0.188),
        ("gcp", "us-central1", "n2-standard-4", "on_demand", 0.194236),
        ("gcp", "us-central1", "n2-standard-4:windows", "on_demand", 0.194236 + 4 * 0.046),
    ],
)
def test_ordinary_machines_have_their_list_price(cloud, region, machine, purchase, usd):
    price = catalog.find_machine_price(cloud, region, machine, purchase)
    assert price.usd_per_hour == pytest.approx(usd)
    assert (price.unit, price.region, price.purchase) == ("machine", region, purchase)
    assert price.source
    assert price.earliest_price_date


@pytest.mark.parametrize(
    ("part", "unit", "usd"),
    [
        ("rds:mysql:db.t3.micro", "instance", 0.017),
        ("rds:postgresql:db.m5.large", "instance", 0.178),
        ("rds:aurora-mysql:db.r6g.large", "instance", 0.26),
        ("elasticache:redis:cache.m5.large", "node", 0.156),
        ("opensearch:m5.large.search", "node", 0.142),
    ],
)
def test_nodes_of_services_have_their_list_price(part, unit, usd):
    price = catalog.find_cloud_part_price("aws", "us-east-1", part)
    assert (price.usd_per_hour, price.unit) == (pytest.approx(usd), unit)


@pytest.mark.parametrize(
    ("cloud", "region", "machine", "usd", "as_of"),
    [
        ("aws", "ap-southeast-6", "m7g.large", None, "2025-10-28"),  # a region opened after May 2025
        ("aws", "ap-east-2", "m7g.large", None, "2025-10-28"),
        ("aws", "eu-south-2", "c7i.large", 0.09575, "2025-10-28"),  # cheaper than in May
        ("azure", "belgiumcentral", "Standard_D4s_v5", None, "2026-08-22"),
        ("azure", "westeurope", "Standard_B2s_v2", 0.096, "2026-08-22"),  # 0.105 is with Windows
        ("azure", "northeurope", "Standard_D4ds_v6:windows", None, "2026-08-22"),
    ],
)
def test_later_lists_are_in_the_snapshot(cloud, region, machine, usd, as_of):
    price = catalog.find_machine_price(cloud, region, machine, "on_demand")
    assert price.as_of == as_of
    assert "@" in price.source
    if usd:
        assert price.usd_per_hour == pytest.approx(usd)


def test_every_price_of_the_later_list_is_embedded_unless_it_has_a_finding():
    with gzip.open(ROOT / "tests/cases/catalog/newer_machines.csv.gz", "rt") as file:
        rows = [line.rstrip("\n").split(",") for line in list(file)[1:] if ",on_demand," in line]
    equal = 0
    for cloud, region, machine, system, purchase, usd, *_ in rows[::20]:
        item = machine if system == "linux" else f"{machine}:{system}"
        price = catalog.find_machine_price(cloud, region, item, purchase)
        equal += price is not None and price.usd_per_hour == pytest.approx(float(usd))
    assert len(rows) > 5_000
    assert equal > 0.95 * len(rows[::20])


def test_machines_and_parts_are_apart():
    assert catalog.find_machine_price("aws", "us-east-1", "rds:mysql:db.t3.micro", "on_demand") is None
    assert catalog.find_cloud_part_price("aws", "us-east-1", "t3.medium") is None


def test_each_purchase_has_its_own_source_and_date():
    prices = {
        purchase: catalog.find_machine_price("azure", "eastus", "Standard_D2s_v3", purchase)
        for purchase in snapshot.PURCHASES
    }
    assert prices["on_demand"].as_of == "2026-06-18"
    assert prices["on_demand"].source.startswith("karpenter-azure")
    assert prices["reserved_1y"].as_of == "2025-05-28"
    assert prices["spot"].confidence == "low"
    assert (
        prices["spot"].usd_per_hour
        < prices["reserved_3y"].usd_per_hour
        < prices["reserved_1y"].usd_per_hour
        < prices["on_demand"].usd_per_hour
    )


def test_unknown_prices_are_none():
    assert catalog.find_machine_price(*M5, "savings_plan_1y") is None
    assert catalog.find_machine_price("aws", "eu-west-1", "m5.huge", "on_demand") is None
    assert catalog.find_machine_price("aws", "mars-1", "m5.large", "on_demand") is None
    assert catalog.find_machine_price("gcp", "us-central1", "n2-standard-4:beos", "on_demand") is None
    assert catalog.find_machine_price("gcp", "us-central1", "n2-standard-99:windows", "on_demand") is None


@pytest.mark.parametrize(
    "name",
    [
        "m5.large,0,0.001",
        "m5.large\nx",
        "",
        "\n",
        "m5.large\x00",
        "m5.lärge",
        "\ud800",
        "m5.large,",
        ":windows",
    ],
)
def test_hostile_names_have_no_price(name):
    for cloud, region, machine in (
        ("aws", "us-east-1", name),
        ("aws", name, "m5.large"),
        (name, "us-east-1", "m5.large"),
    ):
        assert catalog.find_machine_price(cloud, region, machine, "on_demand") is None
        assert catalog.find_cloud_part_price(cloud, region, machine) is None


def test_a_past_day_has_only_the_prices_of_its_time():
    assert catalog.find_machine_price(*M5, "on_demand", on_date=date(2025, 5, 27)) is None
    price = catalog.find_machine_price(*M5, "on_demand", on_date=date(2025, 5, 28))
    assert price.usd_per_hour == pytest.approx(0.107)


def test_prices_of_the_list_keep_their_source():
    for key, price in data_file.load_machine_prices().items():
        older = snapshot.find_snapshot_price("machine", *key)
        assert older is None or (older.as_of or "") < (price.as_of or ""), f"{key}: the snapshot's is newer"
    machine = catalog.find_machine_price("aws", "us-east-1", "p4d.24xlarge", "on_demand")
    assert machine == data_file.load_machine_prices()["aws", "us-east-1", "p4d.24xlarge", "on_demand"]


def test_regions_of_an_ordinary_machine_are_listed():
    regions = catalog.list_machine_regions("aws", "m5.large")
    assert len(regions) > 30
    assert {"us-east-1", "eu-central-1", "sa-east-1"} <= set(regions)
    assert catalog.list_machine_regions("aws", "m5.huge") == ()


def _iterate_embedded_rows(cloud):
    """Yield the machine prices of prices.csv and all prices of the snapshot."""
    for (each_cloud, region, item, purchase), price in data_file.load_machine_prices().items():
        if each_cloud == cloud:
            yield PriceRow(cloud, region, item, purchase, price.usd_per_hour, price.as_of or "", price.source)
    for each_cloud, region, kind in snapshot.list_region_members():
        if each_cloud == cloud:
            for item, price in snapshot.iterate_snapshot_prices(kind, cloud, region):
                yield PriceRow(
                    cloud, region, item, price.purchase, price.usd_per_hour, price.as_of or "", price.source, kind,
                    price.unit,
                )  # fmt: skip


@pytest.mark.parametrize("cloud", catalog.CLOUDS)
def test_no_embedded_price_is_suspicious(cloud):
    sizes = {(cloud, name): size for name, size in snapshot.iterate_machine_sizes(cloud)}
    findings = check_snapshot_rows(list(_iterate_embedded_rows(cloud)), sizes)
    assert [(each.code, *each.row.price_key, each.reason) for each in findings if not each.is_accepted] == []
    assert {each.code for each in findings} <= {"region-outlier", "dws-mismatch"}


def regional_rows(machine, usd, **usd_by_region):
    prices = dict.fromkeys((f"region-{number}" for number in range(1, 6)), usd) | usd_by_region
    return [
        PriceRow("azure", region, machine, "on_demand", price, "2026-01-01", "list")
        for region, price in prices.items()
    ]


def level_rows(types):
    rows = (
        regional_rows(f"Standard_D{number}s_v5", number, india=0.3 * number) for number in range(1, types + 1)
    )
    return [row for machine_rows in rows for row in machine_rows]


def test_a_price_level_is_kept_and_a_single_outlier_is_not():
    level = level_rows(12)
    assert {each.is_accepted for each in check_snapshot_rows(level, {})} == {True}
    outlier = regional_rows("Standard_Q2_v9", 1.0, india=0.1)
    findings = check_snapshot_rows([*level, *outlier], {})
    assert [each.row.item for each in findings if not each.is_accepted] == ["Standard_Q2_v9"]
    assert {each.is_accepted for each in check_snapshot_rows(level_rows(9), {})} == {False}


@pytest.mark.parametrize(("cloud", "machine"), [("azure", "Standard_D2s_v5"), ("aws", "m5.large")])
def test_a_machine_with_windows_is_compared_with_the_machine_without(cloud, machine):
    rows = [
        PriceRow(cloud, "region", item, "on_demand", usd, "2026-01-01", "list")
        for item, usd in ((machine, 0.1), (f"{machine}:windows", 0.09))
    ]
    (finding,) = check_snapshot_rows(rows, {})
    assert (finding.code, finding.row.item, finding.is_accepted) == (
        "licence-cheaper",
        f"{machine}:windows",
        False,
    )


def search(**options):
    return [
        (offer.machine.name, offer.region, offer.purchase, offer.price.usd_per_hour)
        for offer in catalog.search_offers(**options)
    ]


def test_a_machine_is_found_by_name_also_with_its_system():
    rows = search(machine="m5.large", region="eu-west-1", purchase="on_demand")
    assert rows == [("m5.large", "eu-west-1", "on_demand", pytest.approx(0.107))]
    rows = search(machine="n2-standard-4:windows", region="us-central1", purchase="on_demand")
    assert rows == [("n2-standard-4:windows", "us-central1", "on_demand", pytest.approx(0.378236))]
    assert len({region for _, region, *_ in search(machine="m5.large", purchase="on_demand")}) > 30
    assert search(machine="m5.large", region="eu-west-1", on_date=date(2025, 5, 27)) == []
    assert search(machine="m5.large", compare_by="accelerator") == []


@pytest.mark.parametrize("cloud", catalog.CLOUDS)
def test_every_machine_that_an_estimate_prices_is_found(cloud):
    names = snapshot.list_snapshot_items(cloud)
    unsized = sorted(
        names - snapshot.list_sized_machines(cloud) - {name for _, name in data_file.load_machines()}
    )
    assert len(unsized) >= {"aws": 60, "azure": 306, "gcp": 0}[cloud]
    assert [name for name in unsized if not list(catalog.search_offers(machine=name, limit=1))] == []
    assert not unsized or unsized[0] in load_priced_names().items[cloud]


def test_a_machine_of_unknown_size_is_listed_with_its_price(gpufleet, tmp_path):
    result = gpufleet(
        "prices",
        "--machine",
        "inf2.8xlarge",
        "--region",
        "us-east-1",
        "--purchase",
        "on_demand",
        cwd=tmp_path,
    )
    assert "1.9679" in result.stdout
    assert "unknown" in result.stdout
    offers = json.loads(gpufleet("prices", "--machine", "inf2.8xlarge", "--json", cwd=tmp_path).stdout)[
        "offers"
    ]
    assert {(offer["machine"], offer["accelerators"]) for offer in offers} == {("inf2.8xlarge", None)}
    assert search(machine="inf2.8xlarge", min_vcpus=1) == []  # it has some, nobody wrote down how many


def test_machines_of_a_size_are_listed_cheapest_first():
    options = {
        "cloud": "aws",
        "region": "eu-west-1",
        "purchase": "on_demand",
        "min_vcpus": 8,
        "min_memory_gib": 32,
    }
    everything = search(**options)
    prices = [usd for *_, usd in everything]
    assert prices == sorted(prices)
    names = {name for name, *_ in everything}
    assert {"m5.2xlarge", "r5.2xlarge", "m5.24xlarge"} <= names
    assert not {"m5.xlarge", "c5.2xlarge", "m5.2xlarge:windows"} & names  # 4 vCPUs; 16 GiB
    assert search(**options, limit=3) == everything[:3]
    assert search(**options, max_usd_per_hour=prices[4]) == [
        row for row in everything if row[-1] <= prices[4]
    ]


def test_a_list_without_name_and_size_has_no_ordinary_machines():
    names = {name for name, *_ in search(cloud="aws", region="us-east-1")}
    assert names <= {name for cloud, name in data_file.load_machines() if cloud == "aws"}


@pytest.mark.parametrize(
    ("name", "cloud", "vcpus", "memory_gib", "arch"),
    [
        ("t4g.medium", "aws", 2, 4, "arm64"),
        ("m7gd.xlarge", "aws", 4, 16, "arm64"),
        ("c5.4xlarge", "aws", 16, 32, "x86_64"),
        ("Standard_D4ps_v5", "azure", 4, 16, "arm64"),
        ("Standard_D4s_v5", "azure", 4, 16, "x86_64"),
        ("t2a-standard-4", "gcp", 4, 16, "arm64"),
        ("e2-micro", "gcp", 1, 1, "x86_64"),
    ],
)
def test_ordinary_machines_have_a_size(name, cloud, vcpus, memory_gib, arch):
    machine = snapshot.find_sized_machine(cloud, name)
    assert (machine.vcpus, machine.memory_gib, machine.arch) == (vcpus, memory_gib, arch)
    assert machine.source


def test_machines_with_accelerators_are_described_elsewhere():
    for name in ("p3.2xlarge", "g5.xlarge", "trn1.2xlarge", "inf2.xlarge", "p4d.24xlarge"):
        assert snapshot.find_sized_machine("aws", name) is None
    assert catalog.find_machine_price(
        "aws", "us-west-2", "p3.2xlarge", "on_demand"
    ).usd_per_hour == pytest.approx(3.06)
    assert {key for key, machine in data_file.load_machines().items() if machine.accelerators}.isdisjoint(
        (cloud, name) for cloud in catalog.CLOUDS for name in snapshot.list_sized_machines(cloud)
    )


def test_the_page_of_coverage_is_current():
    command = "python -m gpufleet.catalog.prices.snapshot_report > docs/price-coverage.md"
    assert (ROOT / "docs/price-coverage.md").read_text() == build_page(), f"run {command}"


def test_ordinary_machines_are_found_in_any_cloud():
    assert catalog.find_ordinary_machine("m5.large").cloud == "aws"
    assert catalog.find_ordinary_machine("e2-standard-4", "gcp").vcpus == 4
    assert catalog.find_ordinary_machine("e2-standard-4", "aws") is None
    assert catalog.find_ordinary_machine("p4d.24xlarge") is None  # catalog.get_machine has it


def test_a_machine_with_accelerators_reads_no_region_of_the_snapshot(monkeypatch):
    expected = search(machine="g5.xlarge")
    monkeypatch.setattr(
        snapshot, "find_snapshot_price", lambda *_: pytest.fail("sizing must not become slower")
    )
    assert search(machine="g5.xlarge") == expected


def load_recorded_instance_types():
    """Return EC2's own descriptions of instance types, as moto recorded them."""
    file = Path(moto.__file__).parent / "ec2/resources/instance_types.json.gz"
    return json.loads(gzip.decompress(file.read_bytes()))


def test_sizes_of_aws_machines_are_those_that_ec2_describes():
    recorded = load_recorded_instance_types()
    names = snapshot.list_sized_machines("aws") & recorded.keys()
    assert len(names) > 1200
    kinds = {"GpuInfo", "InferenceAcceleratorInfo", "FpgaInfo", "NeuronInfo", "MediaAcceleratorInfo"}
    assert [name for name in names if kinds & recorded[name].keys()] == []
    for name in names:
        machine, described = snapshot.find_sized_machine("aws", name), recorded[name]
        assert machine.vcpus == described["VCpuInfo"]["DefaultVCpus"], name
        assert machine.memory_gib == pytest.approx(described["MemoryInfo"]["SizeInMiB"] / 1024, rel=0.02), (
            name
        )
        assert machine.arch in described["ProcessorInfo"]["SupportedArchitectures"], name
