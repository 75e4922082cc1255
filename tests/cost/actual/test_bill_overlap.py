"""Test that rows of one export are found in another: a day's export next to the month's."""

from __future__ import annotations

import random

import pytest

from gpufleet import cost
from gpufleet.cost.analysis.actual import compare_with_bill, sum_billed_charges
from gpufleet.cost.analysis.reports.actual import build_actual_document, format_actual_table
from gpufleet.cost.inputs.bill_export import stream_bill_files
from gpufleet.cost.inputs.bill_overlap import RowSample

HEADER = (
    "BilledCost,EffectiveCost,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,ConsumedQuantity,"
    "ConsumedUnit,ServiceCategory,ServiceName,ProviderName,ResourceId,SkuId,Tags"
)


def make_row(day, machine="i-0a", usd="1", tags="", sku="BoxUsage"):
    hours = f"2026-10-{day:02}T00:00:00Z,2026-10-{day:02}T01:00:00Z"
    return f"{usd},{usd},USD,Usage,{hours},1,Hours,Compute,EC2,AWS,{machine},{sku},{tags}"


@pytest.fixture
def compare(tmp_path, book):
    """Compare an empty stack with several files of rows; return JSON and the files."""

    def build(*exports):
        paths = [tmp_path / f"{number}.csv" for number in range(len(exports))]
        for path, rows in zip(paths, exports, strict=True):
            path.write_text("\n".join([HEADER, *rows]) + "\n")
        billed = sum_billed_charges(stream_bill_files(paths), "prod")
        comparison = compare_with_bill(cost.price_resources([], book), billed)
        return build_actual_document(comparison), format_actual_table(comparison)

    return build


def test_rows_of_a_day_in_the_exports_of_a_month_and_a_day_are_reported(compare):
    document, table = compare([make_row(day) for day in range(1, 31)], [make_row(30), make_row(31)])
    assert (document["rows"], document["repeated_rows"], document["repeated_usd"]) == (32, 1, 1)
    assert "at least 1 row, $1.00, are counted twice if the exports overlap: " in table
    assert "1.csv:2 is also in " in table


@pytest.mark.parametrize(
    "other",
    [
        make_row(2),
        make_row(1, "i-0b"),
        make_row(1, usd="2"),
        make_row(1, sku="DataTransfer"),
        make_row(1, tags='"{""a"": ""b""}"'),
    ],
)
def test_other_rows_are_not_repeated(compare, other):
    document, table = compare([make_row(1)], [other, make_row(9)])
    assert (document["repeated_rows"], "counted twice" in table) == (0, False)


def test_rows_without_a_cost_and_rows_twice_in_one_file_are_not_repeated(compare):
    document, _ = compare(
        [make_row(1), make_row(1), make_row(2, usd="0")], [make_row(2, usd="0"), make_row(3)]
    )
    assert document["repeated_rows"] == 0


def test_sample_of_many_rows_is_bounded_and_finds_copies():
    draw = random.Random(7)
    rows = [draw.getrandbits(63) for _ in range(5_000)]
    sample = RowSample(max_rows=400)
    assert all(sample.add(row, 0) is None for row in rows)
    assert len(sample._files) <= 400
    found = [sample.add(row, 1) for row in rows]
    assert 100 <= found.count(0) <= 400
    assert set(found) == {0, None}
