"""One row of AWS's Cost and Usage Report as a charge: CUR 2.0 and the legacy report, CSV or Parquet.

The cost is the amortized one: what a reservation or a savings plan pays for is in the usage, its purchase has none of
it, and what it bought and nothing used is a kind of its own (AWS, "Understanding your amortized costs": columns
``reservation_effective_cost``, ``savings_plan_savings_plan_effective_cost`` and those of unused fees).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from gpufleet.boundary import CsvRow
from gpufleet.cost.inputs.bill_row import USAGE, BilledCharge
from gpufleet.cost.inputs.bill_value import find_machine, normalize_tag, parse_amount, parse_time, read_tags
from gpufleet.cost.money import ZERO

COLUMNS = ("line_item_line_item_type", "line_item_usage_start_date", "line_item_unblended_cost")
TAG_PREFIX = "resource_tags_"
OWN_TAGS = tuple(  # as a report's columns spell them
    tag.replace("-", "_")
    for tag in ("gpufleet-pool", "gpufleet-stack", "gpufleet-node", "gpufleet-owner", "owner")
)
FIELDS = (
    *COLUMNS,
    "line_item_currency_code",
    "line_item_product_code",
    "line_item_resource_id",
    "line_item_usage_amount",
    "line_item_usage_end_date",
    "line_item_usage_type",
    "pricing_rate_code",
    "pricing_unit",
    "product_product_name",
    "reservation_effective_cost",
    "reservation_reservation_a_r_n",
    "reservation_reservation_arn",
    "reservation_unused_amortized_upfront_fee_for_billing_period",
    "reservation_unused_recurring_fee",
    "resource_tags",
    "savings_plan_savings_plan_effective_cost",
    "savings_plan_total_commitment_to_date",
    "savings_plan_used_commitment",
    *(f"{TAG_PREFIX}user_{each}" for each in OWN_TAGS),
)
UNUSED = "unused commitments"
KINDS = {
    "Usage": USAGE,
    "DiscountedUsage": USAGE,
    "SavingsPlanCoveredUsage": USAGE,
    "SavingsPlanNegation": USAGE,
    "BundledDiscount": USAGE,
    "EdpDiscount": USAGE,
    "PrivateRateDiscount": USAGE,
    "RIFee": UNUSED,
    "SavingsPlanRecurringFee": UNUSED,
    "SavingsPlanUpfrontFee": "purchases",
    "Fee": "purchases",
    "Tax": "taxes",
    "Credit": "credits",
    "Refund": "refunds",
}
# Hours of machines: EC2's usage types end so; others are of disks, traffic and addresses.
MACHINE_USAGE = re.compile(r"(?:^|-)(?:BoxUsage|SpotUsage|DedicatedUsage|HostBoxUsage|HeavyUsage)(?::|$)")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def normalize_column(name: str) -> str:
    """Return a column of either report in the spelling of CUR 2.0: ``lineItem/UsageType`` is line_item_usage_type."""
    return _CAPITAL.sub("_", re.sub(r"[/:-]", "_", name)).lower()


class AwsParser:
    """Parses rows of a report with these columns, by their names in the spelling of CUR 2.0."""

    def __init__(self, columns: list[str]) -> None:
        self._names = {normalize_column(each): each for each in columns}
        self._tags = {key: each for key, each in self._names.items() if key.startswith(TAG_PREFIX)}

    @classmethod
    def is_report(cls, columns: list[str]) -> bool:
        """Return whether the columns are those of a cost and usage report."""
        return {*COLUMNS} <= {normalize_column(each) for each in columns}

    def __call__(self, row: CsvRow) -> BilledCharge:
        """Return the charge of a row."""
        line_type = self._get(row, "line_item_line_item_type")
        start = parse_time(
            self._get(row, "line_item_usage_start_date"), row.where, "line_item_usage_start_date"
        )
        end = self._get(row, "line_item_usage_end_date")
        resource = self._get(row, "line_item_resource_id")
        usage_type, unit = self._get(row, "line_item_usage_type"), self._get(row, "pricing_unit")
        is_machine = MACHINE_USAGE.search(usage_type) is not None and line_type != "SavingsPlanNegation"
        unblended = self._amount(row, "line_item_unblended_cost")
        return BilledCharge(
            self._amortize(row, line_type, unblended),
            self._get(row, "line_item_currency_code") or "USD",
            start,
            parse_time(end, row.where, "line_item_usage_end_date") if end else start,
            self._get(row, "product_product_name") or self._get(row, "line_item_product_code"),
            KINDS.get(line_type, "other charges"),
            resource,
            self._read_tags(row),
            self._amount(row, "line_item_usage_amount") if is_machine and unit in ("", "Hrs") else None,
            "aws",
            find_machine(resource),
            unblended,
            column="amortized cost",
            where=row.where,
            sku=self._get(row, "pricing_rate_code"),
        )

    def _amortize(self, row: CsvRow, line_type: str, unblended: Decimal) -> Decimal:
        if line_type == "DiscountedUsage":
            return self._amount(row, "reservation_effective_cost")
        if line_type == "SavingsPlanCoveredUsage":
            return self._amount(row, "savings_plan_savings_plan_effective_cost")
        if line_type == "RIFee":
            return self._amount(
                row, "reservation_unused_amortized_upfront_fee_for_billing_period"
            ) + self._amount(row, "reservation_unused_recurring_fee")
        if line_type == "SavingsPlanRecurringFee":
            committed = self._amount(row, "savings_plan_total_commitment_to_date")
            return committed - self._amount(row, "savings_plan_used_commitment")
        is_reservation = self._get(row, "reservation_reservation_a_r_n") or self._get(
            row, "reservation_reservation_arn"
        )
        if line_type in ("SavingsPlanNegation", "SavingsPlanUpfrontFee") or (
            line_type == "Fee" and is_reservation
        ):
            return ZERO
        return unblended

    def _read_tags(self, row: CsvRow) -> Mapping[str, str]:
        tags = {
            normalize_tag(key.removeprefix(TAG_PREFIX)): value
            for key, column in self._tags.items()
            if (value := row.get(column, ""))
        }
        return tags or read_tags(self._get(row, "resource_tags"), row.where)

    def _amount(self, row: CsvRow, name: str) -> Decimal:
        return parse_amount(self._get(row, name), row.where, name)

    def _get(self, row: CsvRow, name: str) -> str:
        cell = row.get(self._names.get(name, name), "")
        return "" if cell in {"NULL", "null"} else cell
