"""One row of a billing export as a charge: FOCUS, Azure's cost details, Google's billing export.

FOCUS's effective cost is used, not the billed cost: it has what a commitment pays for in the usage, and its purchase
has none of it. Azure's amortized details are the same; its actual details have purchases as they are invoiced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from gpufleet.boundary import CsvRow
from gpufleet.cost.inputs.bill_value import (
    find_cloud,
    find_machine,
    is_hour_unit,
    parse_amount,
    parse_time,
    read_labels,
    read_tags,
)
from gpufleet.cost.money import ZERO
from gpufleet.errors import InputError

FOCUS_COLUMNS = ("BilledCost", "BillingCurrency", "ChargeCategory", "ChargePeriodStart", "ChargePeriodEnd")
PROVIDER_COLUMNS = ("ProviderName", "ServiceProviderName", "HostProviderName", "PublisherName")
FOCUS_FIELDS = (
    *FOCUS_COLUMNS,
    *PROVIDER_COLUMNS,
    "ChargeClass",
    "CommitmentDiscountId",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "ConsumedQuantity",
    "ConsumedUnit",
    "EffectiveCost",
    "PricingQuantity",
    "PricingUnit",
    "ResourceId",
    "ServiceCategory",
    "ServiceName",
    "SkuId",
    "Tags",
    "x_BilledCostInUsd",
    "x_EffectiveCostInUsd",
    "x_SkuMeterCategory",
)
AZURE_COLUMNS = ("date", "quantity", "metercategory")
AZURE_COSTS = {"costinbillingcurrency": "CostInBillingCurrency", "cost": "Cost"}
AZURE_FIELDS = (
    *AZURE_COLUMNS,
    *AZURE_COSTS,
    "billingcurrency",
    "billingcurrencycode",
    "chargetype",
    "costinusd",
    "meterid",
    "pricingmodel",
    "resourceid",
    "tags",
    "unitofmeasure",
)
GOOGLE_FIELDS = (
    "cost",
    "cost_type",
    "credits",
    "currency",
    "currency_conversion_rate",
    "labels",
    "resource",
    "service",
    "sku",
    "usage_end_time",
    "usage_start_time",
)
COMPUTE = ("Compute", "Virtual Machines", "Compute Engine")
LICENCES = "Virtual Machines Licenses"  # Azure's category of a second row for the hours of a machine
COMMITTED_MODELS = ("reservation", "savingsplan")
USAGE = "usage"
KINDS = {
    "usage": USAGE,
    "regular": USAGE,
    "tax": "taxes",
    "credit": "credits",
    "purchase": "purchases",
    "adjustment": "adjustments",
    "roundingadjustment": "adjustments",
    "rounding_error": "adjustments",
    "refund": "refunds",
    "unusedreservation": "unused commitments",
    "unusedsavingsplan": "unused commitments",
}
CREDITS_OF_MONEY = ("PROMOTION", "SUBSCRIPTION_BENEFIT", "RESELLER_MARGIN")  # others are a lower price

RowParser = Callable[[CsvRow], "BilledCharge"]


@dataclass(frozen=True, slots=True)
class BilledCharge:
    """One row of an export.

    ``kind`` is usage, or what else is billed: taxes, credits … ``credit`` is the part of the cost that a credit of
    money pays, zero or negative. ``hours`` are of machines, zero for their licences, None for something else.
    ``machine`` is the machine's id or name, empty for another resource. ``column`` names where the cost is from.
    """

    cost: Decimal
    currency: str
    start: datetime
    end: datetime
    service: str
    kind: str = USAGE
    resource: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    hours: Decimal | None = None
    cloud: str = ""  # empty for a provider that is not one of ours
    machine: str = ""
    invoiced: Decimal | None = None  # None: the row does not say
    credit: Decimal = ZERO
    column: str = ""
    where: str = field(default="", compare=False)
    is_paid_by_commitment: bool = False  # and the cost is not in this row
    earlier_file: str = field(default="", compare=False)  # that has the same row
    # the provider's id of what is billed: a machine has rows of several
    sku: str = field(default="", compare=False)
    corrected: Decimal = ZERO  # the cost that the export has in this row by a fault, and that is left out


def find_row_parser(columns: list[str], where: str) -> RowParser:
    """Return the parser of an export with these columns; InputError if no export has them."""
    if all(column in columns for column in FOCUS_COLUMNS):
        return parse_focus_row
    names = {column.lower(): column for column in columns}
    cost = next((names[each] for each in AZURE_COSTS if each in names), None)
    if cost and all(column in names for column in AZURE_COLUMNS):
        return _AzureParser(names, cost)
    is_of_semicolons = len(columns) == 1 and ";" in columns[0]
    raise InputError(
        "is not an export of costs that is known",
        where=where,
        remedy="separate its columns by commas, as in the provider's file"
        if is_of_semicolons
        else "give FOCUS CSV, AWS's cost and usage report, Azure's cost details, "
        "or JSON lines of Google's billing export",
    )


def parse_focus_row(row: CsvRow) -> BilledCharge:
    """Return the charge of a row of FOCUS 1.0 to 1.3."""
    category, service_category = row["ChargeCategory"], row.get("ServiceCategory")
    is_machine = service_category == "Compute" and category == "Usage"
    quantity = _get_cell(row, "ConsumedQuantity") or _get_cell(row, "PricingQuantity")
    unit = _get_cell(row, "ConsumedUnit") or _get_cell(row, "PricingUnit")
    column = "EffectiveCost" if _get_cell(row, "EffectiveCost") else "BilledCost"
    invoiced = parse_amount(_get_cell(row, "BilledCost"), row.where, "BilledCost")
    resource = _get_cell(row, "ResourceId")
    cost, currency, column = _choose_currency(row, column, row["BillingCurrency"], f"x_{column}InUsd")
    cloud = find_cloud(next(filter(None, (_get_cell(row, each) for each in PROVIDER_COLUMNS)), ""))
    corrected = cost if cloud == "azure" and _is_commitment_purchase(row, category) else ZERO
    return BilledCharge(
        cost - corrected,
        currency,
        parse_time(row["ChargePeriodStart"], row.where, "ChargePeriodStart"),
        parse_time(row["ChargePeriodEnd"], row.where, "ChargePeriodEnd"),
        _get_cell(row, "ServiceName"),
        _find_focus_kind(row, category),
        resource,
        read_tags(_get_cell(row, "Tags"), row.where),
        _count_hours(quantity, row.where, "ConsumedQuantity", _get_cell(row, "x_SkuMeterCategory"))
        if is_machine and quantity and is_hour_unit(unit)
        else None,
        cloud,
        find_machine(resource),
        invoiced if currency == row["BillingCurrency"] else None,
        column=column,
        where=row.where,
        sku=_get_cell(row, "SkuId"),
        corrected=corrected,
    )


def _is_commitment_purchase(row: CsvRow, category: str) -> bool:
    """Return whether a row buys a commitment: its effective cost is in the usage that it pays for (FOCUS).

    Azure's export gives such rows one all the same (microsoft/finops-toolkit issue 1092).
    """
    return category == "Purchase" and any(
        _get_cell(row, each) for each in ("CommitmentDiscountId", "CommitmentDiscountType")
    )


def _count_hours(quantity: str, where: str, key: str, category: str) -> Decimal:
    """Return a machine's hours. A licence has the same hours once more: its cost counts, its hours do not."""
    return ZERO if category == LICENCES else parse_amount(quantity, where, key)


def _find_focus_kind(row: CsvRow, category: str) -> str:
    if row.get("ChargeClass") == "Correction":
        return "corrections"
    if row.get("CommitmentDiscountStatus") == "Unused":
        return "unused commitments"
    return KINDS.get(category.lower(), "other charges")


def _get_cell(row: CsvRow, column: str) -> str:
    """Return a cell; empty if the column is missing or the cell is a database's word for nothing."""
    cell = row.get(column, "")
    return "" if cell in {"NULL", "null"} else cell


def _choose_currency(row: CsvRow, column: str, currency: str, usd_column: str) -> tuple[Decimal, str, str]:
    """Return the cost, its currency and column: the provider's own conversion to USD if it gives one."""
    if not _get_cell(row, column):
        raise InputError("has no cost", where=row.where, key=column)
    if currency != "USD" and _get_cell(row, usd_column):
        return parse_amount(row[usd_column], row.where, usd_column), "USD", usd_column
    return parse_amount(row[column], row.where, column), currency, column


class _AzureParser:
    """Parses rows of Azure's cost details; the agreements spell the columns differently."""

    def __init__(self, names: Mapping[str, str], cost: str) -> None:
        self._names, self._cost = names, cost

    def __call__(self, row: CsvRow) -> BilledCharge:
        start = parse_time(self._get(row, "date"), row.where, "Date")
        service, resource = self._get(row, "metercategory"), self._get(row, "resourceid")
        is_hourly = is_hour_unit(self._get(row, "unitofmeasure"))
        is_machine, is_licence = service in COMPUTE and is_hourly, service == LICENCES and is_hourly
        currency = self._get(row, "billingcurrency") or self._get(row, "billingcurrencycode")
        usd_column = self._names.get("costinusd", "costInUsd")
        cost, chosen, column = _choose_currency(row, self._cost, currency, usd_column)
        kind = KINDS.get(self._get(row, "chargetype").lower() or USAGE, "other charges")
        is_committed = self._get(row, "pricingmodel").lower() in COMMITTED_MODELS
        return BilledCharge(
            cost,
            chosen,
            start,
            start + timedelta(days=1),
            service,
            kind,
            resource,
            read_tags(self._get(row, "tags"), row.where),
            _count_hours(self._get(row, "quantity"), row.where, "Quantity", service)
            if is_machine or is_licence
            else None,
            "azure",
            find_machine(resource),
            column=column,
            where=row.where,
            is_paid_by_commitment=is_committed and is_machine and kind == USAGE and not cost,
            sku=self._get(row, "meterid"),
        )

    def _get(self, row: CsvRow, name: str) -> str:
        return _get_cell(row, self._names.get(name, name))


def parse_google_record(record: Mapping[str, Any], place: str) -> BilledCharge:
    """Return the charge of a row of Google's standard or detailed usage export, with its credits."""
    reductions = record.get("credits") or []
    if "cost" not in record or not isinstance(reductions, list):
        raise InputError("is not a row of Google's billing export", where=place, key="cost")
    credits_usd = {True: ZERO, False: ZERO}
    for each in reductions:
        if isinstance(each, Mapping):
            is_money = each.get("type") in CREDITS_OF_MONEY
            credits_usd[is_money] += parse_amount(each.get("amount"), place, "credits")
    rate, currency = _find_google_rate(record, place)
    resource = _read_text(record, "resource", "global_name")
    cost = parse_amount(record["cost"], place, "cost") + credits_usd[True] + credits_usd[False]
    return BilledCharge(
        cost / rate,
        currency,
        parse_time(record.get("usage_start_time"), place, "usage_start_time"),
        parse_time(record.get("usage_end_time"), place, "usage_end_time"),
        _read_text(record, "service", "description"),
        KINDS.get(str(record.get("cost_type") or USAGE).lower(), "other charges"),
        resource or _read_text(record, "resource", "name"),
        read_labels(record.get("labels") or []),
        None,  # Google bills cores and memory by themselves: no hours of machines
        "gcp",
        find_machine(resource),
        credit=credits_usd[True] / rate,
        column="cost with credits",
        where=place,
        sku=_read_text(record, "sku", "id"),
    )


def _find_google_rate(record: Mapping[str, Any], place: str) -> tuple[Decimal, str]:
    """Return units of the bill's currency for one USD, as Google converted, and the currency of the result."""
    currency = str(record.get("currency") or "")
    rate = parse_amount(record.get("currency_conversion_rate"), place, "currency_conversion_rate")
    return (rate, "USD") if currency != "USD" and rate > 0 else (Decimal(1), currency)


def _read_text(record: Mapping[str, Any], key: str, inner_key: str) -> str:
    inner = record.get(key)
    return str(inner.get(inner_key) or "") if isinstance(inner, Mapping) else ""
