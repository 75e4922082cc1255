"""Test AWS's own reports: CUR 2.0 and the legacy report, with amortized cost, and the faults of FOCUS exports.

Columns and line item types are those of AWS's data dictionary (docs.aws.amazon.com/cur, "Line item details",
"Reservation details", "Savings Plans details", "CUR 2.0 table dictionary").
"""

from __future__ import annotations

import csv
import json
from decimal import Decimal

import pytest

from gpufleet.cost.analysis.actual import sum_billed_charges
from gpufleet.cost.inputs.bill_export import stream_billed_charges
from gpufleet.cost.inputs.bill_row_aws import normalize_column

LEGACY = {
    "line_item_line_item_type": "lineItem/LineItemType",
    "line_item_usage_start_date": "lineItem/UsageStartDate",
    "line_item_usage_end_date": "lineItem/UsageEndDate",
    "line_item_unblended_cost": "lineItem/UnblendedCost",
    "line_item_currency_code": "lineItem/CurrencyCode",
    "line_item_usage_type": "lineItem/UsageType",
    "line_item_usage_amount": "lineItem/UsageAmount",
    "line_item_resource_id": "lineItem/ResourceId",
    "line_item_product_code": "lineItem/ProductCode",
    "pricing_unit": "pricing/unit",
    "reservation_effective_cost": "reservation/EffectiveCost",
    "reservation_reservation_a_r_n": "reservation/ReservationARN",
    "reservation_unused_recurring_fee": "reservation/UnusedRecurringFee",
    "savings_plan_savings_plan_effective_cost": "savingsPlan/SavingsPlanEffectiveCost",
    "savings_plan_total_commitment_to_date": "savingsPlan/TotalCommitmentToDate",
    "savings_plan_used_commitment": "savingsPlan/UsedCommitment",
}
MACHINE = {
    "line_item_usage_type": "BoxUsage:p5.48xlarge",
    "line_item_usage_amount": "10",
    "line_item_resource_id": "i-0abc",
    "pricing_unit": "Hrs",
}
ROWS = (
    {"line_item_line_item_type": "Usage", "line_item_unblended_cost": "550.40", **MACHINE},
    {"line_item_line_item_type": "SavingsPlanCoveredUsage", "line_item_unblended_cost": "550.40",
     "savings_plan_savings_plan_effective_cost": "300", **MACHINE},
    {"line_item_line_item_type": "SavingsPlanNegation", "line_item_unblended_cost": "-550.40", **MACHINE},
    {"line_item_line_item_type": "DiscountedUsage", "line_item_unblended_cost": "0",
     "reservation_effective_cost": "200", **MACHINE},
    {"line_item_line_item_type": "SavingsPlanRecurringFee", "line_item_unblended_cost": "320",
     "savings_plan_total_commitment_to_date": "320", "savings_plan_used_commitment": "300", "tags": {}},
    {"line_item_line_item_type": "RIFee", "line_item_unblended_cost": "210",
     "reservation_unused_recurring_fee": "10", "tags": {}},
    {"line_item_line_item_type": "Fee", "line_item_unblended_cost": "5000",
     "reservation_reservation_a_r_n": "arn:aws:ec2:us-east-1:1:reserved-instances/r", "tags": {}},
    {"line_item_line_item_type": "Tax", "line_item_unblended_cost": "7", "tags": {}},
    {"line_item_line_item_type": "Usage", "line_item_unblended_cost": "2", "line_item_usage_type": "EBS:Volume.gp3",
     "line_item_resource_id": "vol-1", "pricing_unit": "GB-Mo"},
)  # fmt: skip
TAGS = {"gpufleet-pool": "train", "gpufleet-stack": "prod"}


def write_report(path, form):
    """Write the rows as a report of CUR 2.0 or of the legacy form."""
    common = {
        "line_item_usage_start_date": "2026-10-01T00:00:00Z",
        "line_item_usage_end_date": "2026-10-01T10:00:00Z",
        "line_item_currency_code": "USD",
        "line_item_product_code": "AmazonEC2",
    }
    rows = []
    for row in ROWS:
        values = common | {key: value for key, value in row.items() if key != "tags"}
        tags = row.get("tags", TAGS)
        if form == "cur2":
            names = {f"user_{key.replace('-', '_')}": value for key, value in tags.items()}
            rows.append(values | {"resource_tags": json.dumps(names)})
        else:
            rows.append(
                {LEGACY[key]: value for key, value in values.items()}
                | {f"resourceTags/user:{key}": value for key, value in tags.items()}
            )
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("form", ["cur2", "legacy"])
def test_report_has_the_amortized_cost(tmp_path, form):
    billed = sum_billed_charges(stream_billed_charges(write_report(tmp_path / "cur.csv", form)), "prod")
    # 550.40 on demand + 300 of the savings plan + 0 of its negation + 200 of the reservation + 2 of a volume
    assert billed.pools["train"].usd == Decimal("1052.40")
    assert billed.pools["train"].machine_hours == 30
    # unused: 320 - 300 of the savings plan + 10 of the reservation; its purchase of 5,000 is in the usage
    assert billed.other_usd["unused commitments"] == 30
    assert billed.other_usd["taxes"] == 7
    assert billed.usd == Decimal("1089.40")
    assert billed.columns == {"amortized cost"}


def test_columns_of_both_reports_have_one_spelling():
    for name, legacy in LEGACY.items():
        assert normalize_column(legacy) == name.replace("a_r_n", "arn")


FOCUS = {
    "BilledCost": "0",
    "BillingCurrency": "USD",
    "ChargeCategory": "Usage",
    "ChargePeriodStart": "2026-10-01T00:00:00Z",
    "ChargePeriodEnd": "2026-11-01T00:00:00Z",
    "EffectiveCost": "2000",
    "ProviderName": "Microsoft",
    "CommitmentDiscountType": "",
    "Tags": "",
}


def write_focus(path, *rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(FOCUS))
        writer.writeheader()
        writer.writerows({**FOCUS, **row} for row in rows)
    return path


@pytest.mark.parametrize(("provider", "usd"), [("Microsoft", 2000), ("Another", 4000)])
def test_effective_cost_of_azures_purchases_counts_once(tmp_path, provider, usd):
    purchase = {"ChargeCategory": "Purchase", "BilledCost": "2000", "CommitmentDiscountType": "Savings Plan"}
    rows = ({"ProviderName": provider}, {"ProviderName": provider, **purchase})
    billed = sum_billed_charges(stream_billed_charges(write_focus(tmp_path / "f.csv", *rows)), "prod")
    assert (billed.usd, billed.corrected_usd) == (usd, 4000 - usd)


@pytest.mark.parametrize("prefix", ["", "user:", "resourceTags/", "resourceTags/user:"])
def test_tags_of_aws_are_read_with_their_prefixes(tmp_path, prefix):
    tags = json.dumps({f"{prefix}{key}": value for key, value in TAGS.items()})
    billed = sum_billed_charges(
        stream_billed_charges(write_focus(tmp_path / "f.csv", {"ProviderName": "AWS", "Tags": tags})), "prod"
    )
    assert billed.pools["train"].usd == 2000
