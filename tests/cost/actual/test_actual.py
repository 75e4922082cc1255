"""Test the comparison of billed with declared cost: exports of three clouds, reasons, hostile files."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from decimal import Decimal
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.cost.analysis.actual import compare_with_bill, sum_billed_charges
from gpufleet.cost.analysis.reports.actual import format_actual_table
from gpufleet.cost.inputs.bill_export import stream_billed_charges
from gpufleet.errors import InputError

HEADER = (
    "BilledCost,EffectiveCost,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,ConsumedQuantity,"
    "ConsumedUnit,ServiceCategory,ServiceName,ProviderName,Tags"
)
PERIOD = "2026-10-01T00:00:00Z,2026-10-31T10:00:00Z"  # 730 hours
TRAIN = '"{""user:gpufleet_pool"": ""train"", ""gpufleet-stack"": ""prod""}"'  # one key as AWS writes it


def make_row(usd, hours="", *, unit="Hours", category="Compute", tags=TRAIN, currency="USD", service="EC2"):
    return f"{usd},{usd},{currency},Usage,{PERIOD},{hours},{unit},{category},{service},AWS,{tags}"


@pytest.fixture
def write_export(tmp_path):
    def write(*rows, name="export.csv", header=HEADER):
        path = tmp_path / name
        path.write_text("\n".join([header, *rows]) + "\n")
        return path

    return write


@pytest.fixture
def compare(make_resource, book, write_export):
    """Compare a pool of two g5.xlarge (1.006 USD an hour) with rows of an export."""

    def build(*rows, purchased=("a", "b")):
        inputs = {
            "instanceType": "g5.xlarge", "region": "us-east-1", "associatePublicIpAddress": False,
            "tags": {"gpufleet-pool": "train"}, "rootBlockDevice": {"volumeSize": 0, "volumeType": "gp3"},
        }  # fmt: skip
        bill = cost.price_resources([make_resource(name, inputs=inputs) for name in purchased], book)
        billed = sum_billed_charges(stream_billed_charges(write_export(*rows)), "prod")
        return compare_with_bill(bill, billed)

    return build


def test_same_cost_has_no_reason(compare):
    (pool,) = compare(make_row("1468.76", "1460")).pools
    assert (pool.pool, pool.declared_usd, pool.billed_usd) == (
        "train",
        Decimal("1468.76"),
        Decimal("1468.76"),
    )
    assert {usd for _, usd in pool.reasons} == {0}


def test_columns_with_semicolons_are_named(tmp_path):
    (tmp_path / "bill.csv").write_text(HEADER.replace(",", ";") + "\n")
    with pytest.raises(InputError, match="separate its columns by commas"):
        list(stream_billed_charges(tmp_path / "bill.csv"))


def test_folder_that_is_not_a_project_is_named(gpufleet, tmp_path):
    result = gpufleet("cost", "actual", "-s", "dev", "--project", tmp_path / "none", "bill.csv", cwd=tmp_path)
    assert result.returncode == 2
    assert "none: has no Pulumi.yaml" in result.stderr


def test_usage_that_ends_before_it_starts_is_refused(compare):
    row = make_row("5", "1").replace(PERIOD, "2026-11-01T00:00:00Z,2026-10-01T00:00:00Z")
    with pytest.raises(InputError, match=r":2: its period ends at 2026-10-01 00:00, before it starts"):
        compare(row)


def test_difference_is_split_into_hours_price_and_parts(compare):
    # 1,000 hours instead of 1,460 at 1.10 USD instead of 1.006, and a disk of 20 USD that is not declared.
    rows = [make_row("1100", "1000"), make_row("20", "30", unit="GB-Mo", category="Storage", service="EBS")]
    (pool,) = compare(*rows).pools
    assert dict(pool.reasons) == {
        "hours of machines": Decimal("-462.760"),  # (1000 - 1460) * 1.006
        "price of an hour": Decimal("94.000"),  # 1100 - 1000 * 1.006
        "disks, addresses, traffic": Decimal("20.00"),
    }
    assert sum(usd for _, usd in pool.reasons) == pool.difference_usd == Decimal("-348.76")


def test_declared_cost_is_that_of_the_period_of_the_rows(compare):
    day = make_row("48.288", "48").replace(PERIOD, "2026-10-01T00:00:00Z,2026-10-02T00:00:00Z")
    (pool,) = compare(day).pools
    assert round(pool.declared_usd, 6) == Decimal("48.288")  # 2 * 24 * 1.006


def test_what_is_not_tagged_not_declared_and_of_other_stacks_is_apart(compare):
    other = '"{""gpufleet-pool"": ""train"", ""gpufleet-stack"": ""dev""}"'
    comparison = compare(
        make_row("1468.76", "1460"),
        make_row("5", tags="", service="Amazon S3", category="Storage"),
        make_row("7", tags='"{""gpufleet-pool"": ""lost""}"'),
        make_row("9", tags=other),
    )
    assert comparison.billed.untagged_usd == {"Amazon S3": 5}
    assert comparison.billed.other_stacks_usd == 9
    lost = next(pool for pool in comparison.pools if pool.pool == "lost")
    assert lost.reasons == (("the stack does not declare this pool", 7),)


def test_pool_that_is_not_billed_is_named(compare):
    (pool,) = compare(make_row("1", tags="")).pools
    assert pool.reasons == (("nothing is billed with this tag", Decimal("-1468.76")),)


def test_clouds_without_rows_are_not_compared(make_resource, book, write_export):
    inputs = {"location": "eastus", "hardwareProfile": {"vmSize": "Standard_ND96amsr_A100_v4"}}
    azure = make_resource("v", "azure-native:compute:VirtualMachine", inputs)
    billed = sum_billed_charges(stream_billed_charges(write_export(make_row("1", tags=""))), "prod")
    comparison = compare_with_bill(cost.price_resources([azure], book), billed)
    assert (comparison.pools, comparison.missing_clouds) == ((), ("azure",))
    assert "Not compared: no rows of:\n  azure" in format_actual_table(comparison)


def test_committed_usage_counts_once(write_export):
    purchase = f"100,0,USD,Purchase,{PERIOD},,,Compute,RI,AWS,"
    usage = f"0,100,USD,Usage,{PERIOD},10,Hours,Compute,EC2,AWS,{TRAIN}"
    assert sum(each.cost for each in stream_billed_charges(write_export(purchase, usage))) == 100


def test_our_own_focus_export_is_read_back(make_resource, book, tmp_path):
    inputs = {"instanceType": "g5.xlarge", "region": "us-east-1", "associatePublicIpAddress": False}
    estimate = cost.estimate(
        [make_resource("a", inputs=inputs | {"tags": {"gpufleet-pool": "p"}})], book=book
    )
    path = tmp_path / "own.csv"
    path.write_text(cost.render_estimate(estimate, "focus"))
    billed = sum_billed_charges(stream_billed_charges(path), "")
    assert billed.pools["p"].usd == estimate.bill.usd_per_month.expected
    assert billed.pools["p"].machine_hours == 730


def test_azure_export_is_read(write_export):
    header = "Date,MeterCategory,MeterName,Quantity,UnitOfMeasure,CostInBillingCurrency,BillingCurrency,Tags,ChargeType"
    pairs = '"""gpufleet-pool"": ""serve"",""env"": ""x"""'  # Azure's form without braces
    path = write_export(
        f"10/02/2026,Virtual Machines,NC4as T4 v3,24,1 Hour,12.62,USD,{pairs},Usage",
        '2026-10-03,Storage,P10 Disks,0.04,1/Month,0.79,USD,"{""gpufleet-pool"": ""serve""}",Usage',
        header=header,
    )
    machine, disk = stream_billed_charges(path)
    assert (machine.cost, machine.hours, machine.tags) == (
        Decimal("12.62"), 24, {"gpufleet-pool": "serve", "env": "x"},
    )  # fmt: skip
    assert (disk.hours, disk.tags, disk.cloud) == (None, {"gpufleet-pool": "serve"}, "azure")
    assert str(machine.start.date()) == "2026-10-02"


def test_google_export_is_read_with_its_credits(tmp_path):
    record = {
        "service": {"description": "Compute Engine"},
        "usage_start_time": "2026-10-01 00:00:00 UTC",
        "usage_end_time": "2026-10-01T01:00:00Z",
        "labels": [{"key": "gpufleet-pool", "value": "tune"}],
        "cost": "2.5",
        "currency": "USD",
        "credits": [{"name": "Sustained use", "amount": -0.5}],
    }
    path = tmp_path / "export.jsonl.gz"
    path.write_bytes(gzip.compress((json.dumps(record) + "\n\n" + json.dumps(record)).encode()))
    first, second = stream_billed_charges(path)
    assert first == second
    assert (first.cost, first.tags, first.cloud) == (Decimal("2.0"), {"gpufleet-pool": "tune"}, "gcp")


def test_gzip_csv_is_read(write_export, tmp_path):
    path = tmp_path / "export.csv.gz"
    path.write_bytes(gzip.compress(write_export(make_row("5", "1")).read_bytes()))
    assert [each.cost for each in stream_billed_charges(path)] == [5]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (make_row("ten"), "'ten' is not an amount"),
        (make_row("NaN"), "'NaN' is not an amount"),
        (make_row("1E+999999"), "is not an amount"),
        (make_row("1").replace("2026-10-01T00", "yesterday"), "is not a time"),
        (make_row("1", tags='"{1}"'), "export.csv:2"),
        (make_row("1") + ",more", "export.csv:2: has 13 fields, the header has 12"),
        (make_row("1", currency="EUR"), "the bill is in EUR"),
        ('"open', "is not CSV"),
        ("\x00", "NUL"),
    ],
)
def test_hostile_row_is_one_line_with_its_place(write_export, row, message):
    with pytest.raises(InputError) as excinfo:
        sum_billed_charges(stream_billed_charges(write_export(row)), "prod")
    assert message in str(excinfo.value)
    assert "\n" not in str(excinfo.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no header line"),
        (b"a,b\n1,2\n", "is not an export of costs that is known"),
        (b"{\n", "export:1"),
        (b'{"a": 1}\n', "is not a row of Google's billing export"),
        (b'{"cost": [1]}\n', "[1] is not an amount"),
        (b"\x1f\x8bnot gzip", "cannot be read"),
        (b"\xff\xfe,b\n", "UTF-8"),
        (b"x" * ((1 << 20) + 2), "a line of more than 1,048,576 bytes"),
    ],
)
def test_hostile_file_is_one_line(tmp_path, content, message):
    path = tmp_path / "export"
    path.write_bytes(content)
    with pytest.raises(InputError) as excinfo:
        list(stream_billed_charges(path))
    assert message in str(excinfo.value)


def test_folder_and_missing_file_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none", Path("/dev/zero")):
        with pytest.raises(InputError):
            list(stream_billed_charges(path))


def test_number_of_groups_is_bounded(write_export):
    rows = [make_row("1", tags=f'"{{""gpufleet-pool"": ""p{at}""}}"') for at in range(1500)]
    billed = sum_billed_charges(stream_billed_charges(write_export(*rows)), "prod")
    assert len(billed.pools) == 1001
    assert sum(pool.usd for pool in billed.pools.values()) == 1500


def test_memory_does_not_grow_with_the_file(write_export):
    path = write_export(*[make_row("1", "1")] * 30_000)
    assert path.stat().st_size > 4_000_000
    tracemalloc.start()
    billed = sum_billed_charges(stream_billed_charges(path), "prod")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert billed.row_count == 30_000
    assert peak < 2_000_000


def test_command_compares_the_example_with_a_stack(gpufleet, project):
    result = gpufleet("cost", "actual", "-s", "dev", "docs/examples/bill-focus.csv", "--json", cwd=project)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    (pool,) = document["pools"]
    assert (pool["pool"], pool["billed_usd"], document["rows"]) == ("train", 258.4, 3)
    assert round(sum(each["usd"] for each in pool["reasons"]), 2) == pool["difference_usd"]
    assert round(pool["billed_usd"] - pool["declared_usd"], 2) == pool["difference_usd"]
    assert document["not_compared"] == ["azure", "gcp"]
