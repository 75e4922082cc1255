"""Test that an equal bill shows no difference in any month, and that printed amounts add up."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet import cost
from gpufleet.cost.analysis.actual import PoolComparison, compare_with_bill, sum_billed_charges
from gpufleet.cost.analysis.bill_period import BillPeriod, list_months
from gpufleet.cost.analysis.reports.actual import build_actual_document, format_actual_table
from gpufleet.cost.inputs.bill_export import stream_billed_charges
from gpufleet.cost.money import round_parts_to_total, round_to_cents
from gpufleet.errors import InputError

HEADER = (
    "BilledCost,EffectiveCost,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,ConsumedQuantity,"
    "ConsumedUnit,ServiceCategory,ServiceName,ProviderName,Tags"
)
TRAIN = '"{""gpufleet-pool"": ""train""}"'
OCTOBER = "2026-10-01T00:00:00Z,2026-11-01T00:00:00Z"
FEBRUARY = "2026-02-01T00:00:00Z,2026-03-01T00:00:00Z"


def make_row(usd, hours="", *, period=OCTOBER, category="Usage", service="Compute", tags=TRAIN, unit="Hours"):
    return f"{usd},{usd},USD,{category},{period},{hours},{unit},{service},EC2,AWS,{tags}"


@pytest.fixture
def compare(make_resource, book, tmp_path):
    """Compare a g5.xlarge (1.006 USD an hour) with a root disk (100 GiB at 0.073 USD a month) with rows."""

    def build(*rows, **tags):
        inputs = {
            "instanceType": "g5.xlarge", "region": "us-east-1", "associatePublicIpAddress": False,
            "rootBlockDevice": {"volumeType": "gp3", "volumeSize": 100}, "tags": {"gpufleet-pool": "train"} | tags,
        }  # fmt: skip
        path = tmp_path / "export.csv"
        path.write_text("\n".join([HEADER, *rows]) + "\n")
        pool = "urn:pulumi:prod::gpufleet::gpufleet:cloud:AwsPool::train"  # tags set hours in a pool only
        bill = cost.price_resources([make_resource("a", inputs=inputs, parent=pool)], book)
        billed = sum_billed_charges(stream_billed_charges(path), "prod")
        return compare_with_bill(bill, billed)

    return build


@pytest.mark.parametrize(
    ("period", "hours", "machine_usd"),
    [(OCTOBER, 744, "748.464"), (FEBRUARY, 672, "676.032"), ("2026-10-01,2026-10-02", 24, "24.144")],
)
def test_equal_bill_of_any_length_has_no_difference(compare, period, hours, machine_usd):
    # A disk costs the same in each month: 100 GiB at 0.0001 * 730; of one day of October a 31st.
    disk = Decimal("7.3") / 31 if hours == 24 else Decimal("7.3")
    rows = [make_row(machine_usd, hours, period=period)]
    rows.append(make_row(round(disk, 9), 100, period=period, service="Storage", unit="GB-Mo"))
    (pool,) = compare(*rows).pools
    assert pool.difference_usd == 0
    assert {usd for _, usd in pool.rounded_reasons} == {0}


def test_planned_hours_are_of_the_calendar_month(compare):
    rows = [make_row("60.36", 60), make_row("7.3", 100, service="Storage", unit="GB-Mo")]
    (pool,) = compare(*rows, **{"gpufleet-hours-per-month": "60"}).pools
    assert pool.difference_usd == 0


def test_period_is_that_of_usage_and_is_printed(compare):
    tax = make_row("9", category="Tax", tags="")  # of the whole month, in an export of its first day
    comparison = compare(make_row("24.144", 24, period="2026-10-01,2026-10-02"), tax)
    text = format_actual_table(comparison)
    assert "prod: 2026-10-01 00:00 to 2026-10-02 00:00 UTC: 24 h, 0.032 months; 2 rows" in text
    assert "cost: EffectiveCost" in text
    assert "Not usage, and of no pool:\n  taxes: $9.00" in text


def test_each_cloud_is_compared_in_its_own_period(compare):
    # AWS was exported for a day, Azure for the whole month: an equal AWS bill has no difference.
    rows = [make_row("24.144", 24, period="2026-10-01,2026-10-02")]
    rows.append(make_row("0.235483871", 100, period="2026-10-01,2026-10-02", service="Storage", unit="GB-Mo"))
    rows.append(make_row("5", tags="").replace(",AWS,", ",Microsoft,"))
    comparison = compare(*rows)
    assert [pool.difference_usd for pool in comparison.pools] == [0]
    text = format_actual_table(comparison)
    assert (
        "\n  aws: 2026-10-01 00:00 to 2026-10-02 00:00 UTC: 24 h, 0.032 months\n  azure: 2026-10-01" in text
    )


def test_stack_is_compared_as_its_tag_spells_it(make_resource, book, tmp_path):
    path = tmp_path / "export.csv"
    tags = '"{""gpufleet-pool"": ""train"", ""gpufleet-stack"": ""prod-eu-1""}"'
    path.write_text(f"{HEADER}\n{make_row(5, tags=tags)}\n")
    billed = sum_billed_charges(stream_billed_charges(path), "Prod_EU.1")
    assert (billed.pools["train"].usd, billed.other_stacks_usd) == (5, 0)


def test_credits_and_taxes_of_a_pool_are_reasons(compare):
    rows = [make_row("748.464", 744), make_row("7.3", 100, service="Storage", unit="GB-Mo")]
    rows += [make_row("-100", category="Credit"), make_row("50", category="Tax")]
    (pool,) = compare(*rows).pools
    assert pool.difference_usd == -50
    reasons = dict(pool.rounded_reasons)
    assert (reasons["credits"], reasons["taxes"], reasons["price of an hour"]) == (-100, 50, 0)


def test_invoice_that_differs_is_a_note(compare):
    purchase = f"100,0,USD,Purchase,{OCTOBER},,,Compute,RI,AWS,"
    usage = f"0,90,USD,Usage,{OCTOBER},744,Hours,Compute,EC2,AWS,{TRAIN}"
    comparison = compare(purchase, usage)
    assert build_actual_document(comparison)["invoiced_usd"] == 100
    assert "the invoices say $100.00 (BilledCost), not $90.00" in format_actual_table(comparison)


def test_months_are_counted_by_the_days_of_each():
    period = BillPeriod(datetime(2026, 1, 17, 12, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))
    assert round(period.months, 6) == round(Decimal("14.5") / 31 + 1, 6)
    assert period.hours == 14 * 24 + 12 + 28 * 24


@pytest.mark.parametrize("header", [HEADER, "Date,MeterCategory,Quantity,Cost,BillingCurrency"])
def test_header_without_rows_is_one_clear_line(compare, header, tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text(header + "\n")
    billed = sum_billed_charges(stream_billed_charges(path), "prod")
    with pytest.raises(InputError, match="cost actual: the files have a header and no rows; export a period"):
        compare_with_bill(cost.price_resources([]), billed)


def test_header_of_another_file_is_refused_without_rows(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n")
    with pytest.raises(InputError, match="is not an export of costs that is known"):
        list(stream_billed_charges(path))


AMOUNTS = st.decimals(min_value=-10_000, max_value=10_000, places=6)


@given(st.lists(AMOUNTS, min_size=1, max_size=8), AMOUNTS)
def test_rounded_reasons_add_up_to_the_difference_exactly(parts, declared):
    billed = declared + sum(parts)
    pool = PoolComparison("p", declared, billed, tuple((str(at), part) for at, part in enumerate(parts)))
    assert sum(usd for _, usd in pool.rounded_reasons) == pool.difference_usd
    assert all(
        abs(usd - part) < Decimal("0.03") for (_, usd), part in zip(pool.rounded_reasons, parts, strict=True)
    )


def test_parts_are_rounded_by_the_largest_remainder():
    thirds = [Decimal("0.33333")] * 3
    assert round_parts_to_total(thirds, Decimal("1.00")) == [
        Decimal("0.34"),
        Decimal("0.33"),
        Decimal("0.33"),
    ]
    assert round_parts_to_total([Decimal("0.005")], round_to_cents(Decimal("0.005"))) == [Decimal("0.01")]
    assert round_parts_to_total([], Decimal(0)) == []


@pytest.mark.parametrize(
    ("start", "end", "months"),
    [
        ("2026-10-01", "2026-11-01", [(2026, 10)]),
        ("2026-10-31", "2026-11-02", [(2026, 10), (2026, 11)]),
        ("2026-12-31", "2027-01-01", [(2026, 12)]),
        ("2026-11-01", "2026-11-01", [(2026, 11)]),
        ("2026-11-01", "2027-02-01", [(2026, 11), (2026, 12), (2027, 1)]),
    ],
)
def test_months_of_a_time(start, end, months):
    moments = (datetime.fromisoformat(f"{day}T00:00:00+00:00") for day in (start, end))
    assert list_months(*moments) == tuple(months)


def test_month_without_usage_is_a_note(compare):
    august = "2026-08-01T00:00:00Z,2026-09-01T00:00:00Z"
    comparison = compare(make_row("5", 5, period=august), make_row("5", 5))
    (note,) = build_actual_document(comparison)["notes"]
    assert (
        note
        == "no usage is billed in 2026-09 aws, of which the declared cost is counted: give these exports too"
    )


def test_adjacent_months_and_a_tax_of_another_month_are_not_a_gap(compare):
    september, may = "2026-09-01T00:00:00Z,2026-10-01T00:00:00Z", "2026-05-01T00:00:00Z,2026-06-01T00:00:00Z"
    tax = make_row("1", period=may, category="Tax")
    comparison = compare(make_row("5", 5, period=september), make_row("5", 5), tax)
    assert build_actual_document(comparison)["notes"] == []


@pytest.mark.parametrize("day", ["9999-12-31", "0001-01-01", "1999-12-31"])
def test_time_that_no_bill_has_is_refused(tmp_path, day):
    period = f"{day}T00:00:00Z,{day}T01:00:00Z"
    file = tmp_path / "bill.csv"
    file.write_text("\n".join([HEADER, make_row("1", period=period)]) + "\n")
    with pytest.raises(InputError, match=f"{day}.* is not a time of a bill"):
        list(stream_billed_charges(file))
