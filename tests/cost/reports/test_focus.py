"""Test an estimate's CSV against the rules of FOCUS 1.2.

``focus_1_2_columns.csv`` has the columns' requirement levels, nullability, formats and allowed values, from the
specification's files ``specification/columns/*.md`` at its tag v1.2 (FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec). RULES
are its conditional requirements, by the ids of ``model-1.2.json`` (finopsfoundation/focus_validator 2.0.1).
"""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.cost.analysis.reports.focus import BillingMonth, find_focus_service, render_focus_csv
from gpufleet.cost.analysis.reports.focus_column import FOCUS_COLUMNS, OWN_COLUMNS
from gpufleet.cost.pricing.commitments import load_commitments
from gpufleet.cost.pricing.pricers import PRICERS

POOL = "urn:pulumi:prod::gpufleet::gpufleet:cloud:AwsPool::pool"  # tags set prices in a pool only
COLUMNS = list(csv.DictReader((Path(__file__).parent / "focus_1_2_columns.csv").open()))
NUMBER = re.compile(
    r"-?\d+\.\d+"
)  # FOCUS: no sign for positive values, no separators; here always with a point
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
TIME = "(Years|Months|Days|Hours|Minutes|Seconds)"
UNIT = re.compile(rf"((GiB|MiB|GB|[A-Z][a-z]*( [a-z]+)*)(-{TIME})?|{TIME}|USD)")
FORMATS = {
    "numeric": NUMBER.fullmatch,
    "datetime": MOMENT.fullmatch,
    "unit": UNIT.fullmatch,
    "currency": re.compile(r"[A-Z]{3}").fullmatch,
    "json": lambda text: all(isinstance(value, str) for value in json.loads(text).values()),
    "text": lambda text: text.strip() != "",
}
COMMITMENTS = """
commitments:
  - {id: ri-1, kind: reserved_instance, region: us-east-1, machine: p4d.24xlarge, count: 3, usd_per_hour: 10,
     start: 2026-01-01, end: 2027-01-01, source: an invoice}
"""


def number(row, column):
    return Decimal(row[column])


def is_product(row, price, cost_column):
    return number(row, price) * number(row, "PricingQuantity") == number(row, cost_column)


# The rules with an upper case letter of the spec's MUST and MUST NOT that depend on other columns.
RULES = {
    "ListUnitPrice-C-005-C": lambda row: row["ListUnitPrice"] != "",
    "ListUnitPrice-C-008-M": lambda row: number(row, "ListUnitPrice") >= 0,
    "ListUnitPrice-C-010-C": lambda row: is_product(row, "ListUnitPrice", "ListCost"),
    "ContractedUnitPrice-C-006-C": lambda row: row["ContractedUnitPrice"] != "",
    "ContractedUnitPrice-C-011-C": lambda row: is_product(row, "ContractedUnitPrice", "ContractedCost"),
    "PricingQuantity-C-005-C": lambda row: row["PricingQuantity"] != "",
    "PricingUnit-C-006-C": lambda row: row["PricingUnit"] != "",
    "PricingCategory-C-004-C": lambda row: row["PricingCategory"] != "",
    "SkuId-C-005-C": lambda row: row["SkuId"] != "",
    "SkuPriceId-C-005-C": lambda row: row["SkuPriceId"] != "",
    "SkuMeter-C-004-C": lambda row: bool(row["SkuMeter"]) <= bool(row["SkuId"]),
    "ChargeFrequency-C-004-C": lambda row: (
        (row["ChargeCategory"], row["ChargeFrequency"]) != ("Purchase", "Usage-Based")
    ),
    "ConsumedQuantity-C-004-C": lambda row: (
        row["ConsumedQuantity"] == "" or (row["ChargeCategory"] == "Usage" and not is_unused(row))
    ),
    "ConsumedQuantity-C-006-C": lambda row: (
        row["ConsumedQuantity"] != "" or row["ChargeCategory"] != "Usage" or is_unused(row)
    ),
    "ConsumedUnit-C-005-C": lambda row: bool(row["ConsumedUnit"]) == bool(row["ConsumedQuantity"]),
    "RegionName-C-004-C": lambda row: bool(row["RegionName"]) == bool(row["RegionId"]),
    "ResourceName-C-004-C": lambda row: bool(row["ResourceName"]) == bool(row["ResourceId"]),
    "EffectiveCost-C-005-C": lambda row: (
        row["ChargeCategory"] != "Purchase" or number(row, "EffectiveCost") == 0
    ),
    "CommitmentDiscountCategory-C-003-C": lambda row: has_all_or_none(row, "CommitmentDiscountCategory"),
    "CommitmentDiscountType-C-004-C": lambda row: has_all_or_none(row, "CommitmentDiscountType"),
    "CommitmentDiscountQuantity-C-005-C": lambda row: has_all_or_none(row, "CommitmentDiscountQuantity"),
    "CommitmentDiscountUnit-C-005-C": lambda row: has_all_or_none(row, "CommitmentDiscountUnit"),
    "CommitmentDiscountStatus-C-004-C": lambda row: (
        row["ChargeCategory"] != "Usage" or has_all_or_none(row, "CommitmentDiscountStatus")
    ),
    "CapacityReservationStatus-C-004-C": lambda row: (
        bool(row["CapacityReservationId"]) == bool(row["CapacityReservationStatus"])
    ),
    "PricingCategory-C-009-C": lambda row: (
        not row["CommitmentDiscountId"]
        or (row["PricingCategory"] == "Committed") == (row["ChargeCategory"] == "Usage")
    ),
}


def is_unused(row):
    return row["CommitmentDiscountStatus"] == "Unused"


def has_all_or_none(row, column):
    return bool(row["CommitmentDiscountId"]) == bool(row[column])


@pytest.fixture
def make_rows(make_resource, book):
    """Return the rows of an estimate of these resources."""

    def build(*resources, commitments=()):
        estimate = cost.estimate(
            resources, stack="prod", book=book, commitments=commitments, today=date(2026, 7, 10)
        )
        text = render_focus_csv(estimate, date(2026, 12, 31), book)
        return estimate, list(csv.DictReader(io.StringIO(text)))

    return build


@pytest.fixture
def mixed(make_rows, make_resource, tmp_path):
    """Return an estimate with each kind of row: on demand, spot, reserved, committed, of ranges, disks, unpriced."""
    file = tmp_path / "commitments.yaml"
    file.write_text(COMMITMENTS)
    azure_inputs = {
        "location": "eastus",
        "hardwareProfile": {"vmSize": "Standard_ND96amsr_A100_v4"},
        "tags": {"gpufleet-purchase": "reserved-1y"},
    }
    spot = {"instanceType": "g5.2xlarge", "region": "us-east-1", "tags": {"gpufleet-purchase": "spot"}}
    return make_rows(
        make_resource("a"),
        make_resource("b"),
        make_resource("s", inputs=spot, parent=POOL),
        make_resource("g", inputs={"instanceType": "g5.xlarge", "region": "us-east-1", "tags": {"k": "v"}}),
        make_resource("v", "azure-native:compute:VirtualMachine", azure_inputs, parent=POOL),
        make_resource("?", "aws:medialive/channel:Channel"),
        commitments=load_commitments(file).commitments,
    )


def test_every_mandatory_column_is_there_and_no_unknown_one():
    known = {column["column"] for column in COLUMNS}
    assert {each["column"] for each in COLUMNS if each["feature_level"] == "mandatory"} <= set(FOCUS_COLUMNS)
    assert set(FOCUS_COLUMNS) <= known
    assert all(re.fullmatch(r"x_[A-Z][A-Za-z0-9]*", name) for name in OWN_COLUMNS)
    # Left out: the subject of each is one that an estimate does not have.
    assert known - set(FOCUS_COLUMNS) == {
        "AvailabilityZone", "BillingAccountType", "SubAccountId", "SubAccountName", "SubAccountType",
        "PricingCurrency", "PricingCurrencyContractedUnitPrice", "PricingCurrencyEffectiveCost",
        "PricingCurrencyListUnitPrice",
    }  # fmt: skip


@pytest.mark.parametrize(
    "column", [each for each in COLUMNS if each["column"] in FOCUS_COLUMNS], ids=lambda each: each["column"]
)
def test_every_cell_has_the_format_of_its_column(mixed, column):
    allowed = column["allowed_values"].split("; ")
    for row in mixed[1]:
        text = row[column["column"]]
        if text == "":
            assert column["allows_nulls"] == "yes"
        elif column["column"] == "ServiceSubcategory":
            assert f"{row['ServiceCategory']}: {text}" in allowed
        elif column["format"] == "choice":
            assert text in allowed
        else:
            assert FORMATS[column["format"]](text), text


@pytest.mark.parametrize("rule", RULES)
def test_conditional_rule_applies_to_every_row(mixed, rule):
    assert len(mixed[1]) == 12
    assert [row["ChargeDescription"] for row in mixed[1] if not RULES[rule](row)] == []


def test_rules_notice_a_broken_row(mixed):
    row = next(row for row in mixed[1] if row["CommitmentDiscountStatus"] == "Used")
    empty = dict.fromkeys(row, "") | {
        "ChargeCategory": "Usage",
        "PricingQuantity": "1",
        "ListUnitPrice": "-1",
    }
    filled = row | {
        "ChargeCategory": "Purchase",
        "CommitmentDiscountId": "",
        "ChargeFrequency": "Usage-Based",
    }
    filled |= {
        "SkuId": "",
        "RegionName": "",
        "ResourceName": "",
        "CapacityReservationId": "x",
        "ConsumedUnit": "",
    }
    filled |= {"EffectiveCost": "1", "ListCost": "5", "ContractedCost": "5"}
    cells = (
        "ConsumedQuantity",
        "PricingCategory",
        "CommitmentDiscountStatus",
        "ListUnitPrice",
        "PricingQuantity",
    )
    emptied = [row | {name: ""} for name in cells]
    noticed = set()
    for broken in (empty, filled, *emptied):
        for name, rule in RULES.items():
            try:
                noticed |= set() if rule(broken) else {name}
            except ArithmeticError:
                continue
    assert set(RULES) - noticed == set()


def test_sums_are_the_month_of_the_estimate_and_its_commitments(mixed):
    estimate, rows = mixed
    paid = sum((use.usd_per_month for use in estimate.bill.commitments), Decimal(0))
    month = estimate.bill.usd_per_month.expected + paid
    assert paid == 3 * 10 * 730
    assert abs(sum(number(row, "BilledCost") for row in rows) - month) < Decimal("0.005")
    assert abs(sum(number(row, "EffectiveCost") for row in rows) - month) < Decimal("0.005")


def test_commitment_is_split_into_used_and_unused(mixed):
    # Rule EffectiveCost-C-012-C: used and unused parts add up to the instalments of a commitment.
    rows = [row for row in mixed[1] if row["CommitmentDiscountId"] == "ri-1"]
    by_status = {}
    for row in rows:
        by_status.setdefault(row["CommitmentDiscountStatus"] or row["ChargeCategory"], []).append(row)
    assert [number(row, "BilledCost") for row in by_status["Purchase"]] == [21900]
    assert [number(row, "EffectiveCost") for row in by_status["Used"]] == [7300, 7300]
    assert [number(row, "EffectiveCost") for row in by_status["Unused"]] == [7300]
    assert {number(row, "ListUnitPrice") for row in by_status["Used"]} == {Decimal("21.957642")}


def test_planned_term_is_a_purchase_and_its_usage_at_the_list_price(mixed):
    bought, used = [row for row in mixed[1] if row["CommitmentDiscountId"].startswith("planned:")]
    assert (bought["ChargeCategory"], bought["ChargeFrequency"]) == ("Purchase", "Recurring")
    assert number(bought, "BilledCost") == number(used, "EffectiveCost") == Decimal("20.97283") * 730
    assert number(used, "ListUnitPrice") == Decimal("32.77")


def test_row_of_a_disk_and_of_spot(mixed):
    disk = next(row for row in mixed[1] if row["x_Component"] == "disk:root")
    assert (disk["PricingQuantity"], disk["ServiceName"]) == ("73000.0", "Amazon Elastic Block Store")
    spot = next(row for row in mixed[1] if row["x_Purchase"] == "spot")
    assert (spot["PricingCategory"], spot["ListUnitPrice"], spot["Tags"]) == (
        "Dynamic", "0.43632", '{"gpufleet-purchase": "spot"}',
    )  # fmt: skip


def test_month_ahead_is_the_next_calendar_month():
    month = BillingMonth.find_next(date(2026, 12, 31))
    assert (month.start.date(), month.end.date()) == (date(2027, 1, 1), date(2027, 2, 1))
    month = BillingMonth.find_next(date(2026, 11, 1))
    assert (month.start.date(), month.end.date()) == (date(2026, 12, 1), date(2027, 1, 1))


@pytest.mark.parametrize("name", ["=1+1", "+1", "-2", "@SUM(A1)", "\t=1", "\uff1d1"])
def test_no_cell_begins_with_a_formula(make_rows, make_resource, name):
    inputs = {"instanceType": "g5.xlarge", "region": "us-east-1", "tags": {name: name, "owner": name}}
    _, rows = make_rows(make_resource(name, inputs=inputs))
    assert rows
    for row in rows:
        for cell in row.values():
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\uff1d"))


def test_line_ends_and_quotes_in_a_name_make_no_row(make_rows, make_resource):
    _, rows = make_rows(make_resource('a"\n,b\r\n'))
    assert {row["BillingCurrency"] for row in rows} == {"USD"}
    assert len(rows) == 2


def list_services():
    clouds = {"aws": "aws", "aws-native": "aws", "gcp": "gcp", "azure": "azure", "azure-native": "azure"}
    types = [type_ for type_ in PRICERS if type_.split(":")[0] in clouds]
    return {type_: find_focus_service(clouds[type_.split(":")[0]], "machine", type_) for type_ in types}


def test_no_service_has_two_categories():
    services = {}
    for name, *group in list_services().values():
        services.setdefault(name, set()).add(tuple(group))
    assert [name for name, groups in services.items() if len(groups) > 1] == []


def test_services_and_categories_are_those_of_the_specification():
    allowed = next(each for each in COLUMNS if each["column"] == "ServiceSubcategory")[
        "allowed_values"
    ].split("; ")
    assert [each for each in list_services().values() if f"{each[1]}: {each[2]}" not in allowed] == []


def test_almost_every_priced_type_has_a_service():
    services = list_services()
    others = [type_ for type_, service in services.items() if service[0] == "Other"]
    assert len(services) > 100
    assert len(others) <= len(services) * 0.05, others


def test_command_prints_the_csv_and_the_number_of_missing_prices(gpufleet, project):
    result = gpufleet("cost", "estimate", "-s", "production", "--format", "focus", cwd=project)
    assert result.returncode == 0, result.stderr
    assert not result.stdout.endswith("\n\n")  # a validator takes a blank line for a row
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    as_json = json.loads(gpufleet("cost", "estimate", "-s", "production", "--json", cwd=project).stdout)
    total = sum(number(row, "BilledCost") for row in rows)
    assert abs(total - Decimal(str(as_json["total"]["usd_per_month"]))) < Decimal("0.01")
    assert f"not in the CSV: {len(as_json['unpriced'])}" in result.stderr or not as_json["unpriced"]
