"""The columns of FOCUS 1.2 that an estimate fills, and how their values are written as CSV.

FOCUS is the FinOps Open Cost and Usage Specification; https://focus.finops.org/focus-specification/v1-2/. Columns of
our own start with ``x_``, as it requires. Left out are columns whose subject an estimate has not: sub accounts,
availability zones and prices in a second currency.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal

from gpufleet.boundary import make_printable

Value = str | Decimal | datetime | Mapping[str, str] | None
FocusRow = dict[str, Value]

FOCUS_COLUMNS = (
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "CapacityReservationId",
    "CapacityReservationStatus",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountQuantity",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "CommitmentDiscountUnit",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceId",  # always empty: an estimate has no invoice
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "Tags",
)
OWN_COLUMNS = (
    "x_Component",
    "x_CostHigh",
    "x_CostLow",
    "x_Note",
    "x_Owner",
    "x_PoolName",
    "x_PriceAsOf",
    "x_PriceSource",
    "x_Purchase",
)
FORMULA_MARKS = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
)  # the last: full width


def write_focus_csv(rows: Iterable[FocusRow]) -> str:
    """Return rows as CSV; a text that a spreadsheet would run as a formula gets an apostrophe in front."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    columns = (*FOCUS_COLUMNS, *OWN_COLUMNS)
    writer.writerow(columns)
    writer.writerows([_format_value(row.get(column)) for column in columns] for row in rows)
    return stream.getvalue().removesuffix("\n")  # a blank line at the end would be a row without values


def _format_value(value: Value) -> str:
    """Return a cell; no value is an empty cell, which is CSV's null."""
    if value is None:
        return ""
    if isinstance(value, Decimal):
        return format_decimal(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, Mapping):
        return json.dumps(dict(sorted(value.items())))
    text = make_printable(value, None)
    return f"'{text}" if text.startswith(FORMULA_MARKS) else text


def format_decimal(value: Decimal) -> str:
    """Return a number with a decimal point and without an exponent: readers then take a column for decimals."""
    text = f"{value.normalize():f}"
    return text if "." in text else f"{text}.0"
