"""An estimate as a FOCUS 1.2 dataset: one row for each charge of the month ahead.

A price under a term is two rows, as on a bill: the purchase of the commitment, and the usage that it pays for. The
sum of BilledCost and the sum of EffectiveCost are both the month of the estimate and its commitments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache

from gpufleet import catalog
from gpufleet.boundary import read_packaged_rows
from gpufleet.cost.analysis.estimate import CostEstimate
from gpufleet.cost.analysis.reports.focus_column import FocusRow, write_focus_csv
from gpufleet.cost.analysis.reports.summary import format_used_amount
from gpufleet.cost.formatting import format_number
from gpufleet.cost.inputs.terms import TERMS
from gpufleet.cost.money import ZERO, Range, to_decimal
from gpufleet.cost.pricing.bill import Charge, CommitmentUse
from gpufleet.cost.pricing.monthly_use import format_use_unit, is_time_counted
from gpufleet.cost.pricing.rates import PriceBook

DECEMBER = 12
STEP = Decimal("1E-10")  # unit prices that are not in the price list: of ranges and weighted groups
TOLERANCE = Decimal("1E-8")  # of a month's cost, for amounts that were divided into hours
OTHER_SERVICE = ("Other", "Other", "Other (Other)")
PROVIDERS = {
    "aws": "AWS",
    "gcp": "Google Cloud",
    "azure": "Microsoft",
    "onprem": "On-premises",
}
PRICING_CATEGORIES = {"spot": "Dynamic", "capacity_block": "Other", "owned": "Other"}
SPEND_KINDS = ("compute_savings_plan", "ec2_instance_savings_plan", "azure_savings_plan", "spend_cud")
UNITS = {"gib": "GiB-Hours", "mib_per_s": "MiB-Hours"}


@dataclass(frozen=True)
class BillingMonth:
    """The calendar month after a day, in UTC; a charge in it has 730 hours."""

    start: datetime
    end: datetime

    @classmethod
    def find_next(cls, today: date) -> BillingMonth:
        """Return the first whole month after a day."""
        starts = [(today.year * DECEMBER + today.month + offset) for offset in (0, 1)]
        return cls(*(datetime(number // DECEMBER, number % DECEMBER + 1, 1, tzinfo=UTC) for number in starts))


def render_focus_csv(estimate: CostEstimate, today: date | None = None, book: PriceBook | None = None) -> str:
    """Return the estimate's charges and commitments as FOCUS CSV."""
    month = BillingMonth.find_next(today or datetime.now(UTC).date())
    return write_focus_csv(build_focus_rows(estimate, month, book or PriceBook()))


def build_focus_rows(estimate: CostEstimate, month: BillingMonth, book: PriceBook) -> Iterator[FocusRow]:
    """Yield a row for each charge, two for one under a term, and those of existing commitments."""
    shared: FocusRow = {
        "BillingAccountId": f"gpufleet:{estimate.stack or 'stack'}",
        "BillingAccountName": estimate.stack or None,
        "BillingCurrency": "USD",
        "BillingPeriodStart": month.start,
        "BillingPeriodEnd": month.end,
        "ChargePeriodStart": month.start,
        "ChargePeriodEnd": month.end,
    }
    paid = _share_commitment_cost(estimate, book)
    for charge in estimate.bill.charges:
        if charge.purchase in TERMS:
            yield shared | _planned_purchase_row(charge)
            yield shared | _planned_usage_row(charge, book)
        else:
            for part in _split_by_tier(charge):
                yield shared | _usage_row(part, book, estimate.bill.commitments, paid)
    for use in estimate.bill.commitments:
        yield from (shared | row for row in _commitment_rows(use, estimate.bill.charges))


def _split_by_tier(charge: Charge) -> Iterator[Charge]:
    """Yield a charge for each volume tier that it reaches: as on a bill, each has its own unit price."""
    use = charge.monthly_use
    for share in use.shares if use else ():
        used = replace(use, shares=(share,)) if use else None
        yield replace(charge, quantity=Range.from_exact_value(share.amount), monthly_use=used)
    if use is None:
        yield charge


def _usage_row(
    charge: Charge,
    book: PriceBook,
    uses: tuple[CommitmentUse, ...],
    paid: dict[tuple[str, str], Decimal],
) -> FocusRow:
    """Return the usage of a charge that is not bought under a term."""
    quantity = _quantity(charge)
    use = next((use for use in uses if use.id == charge.covered_by), None)
    if use:
        list_price = _list_price(charge, book, paid[charge.comparison_key], quantity)
        return (
            _describe_charge(charge)
            | _commitment_fields(use)
            | _costs(quantity, list_price, ZERO, paid[charge.comparison_key])
            | {
                "PricingCategory": "Committed",
                "ConsumedQuantity": quantity,
                "ConsumedUnit": _unit(charge),
                "CommitmentDiscountStatus": "Used",
                "CommitmentDiscountQuantity": paid[charge.comparison_key],
            }
        )
    cost = charge.usd_per_month.expected
    unit_price = _unit_price(charge, cost, quantity)
    category = PRICING_CATEGORIES.get(charge.purchase, "Standard")
    return (
        _describe_charge(charge)
        | _costs(quantity, unit_price, unit_price * quantity, unit_price * quantity)
        | {"PricingCategory": category, "ConsumedQuantity": quantity, "ConsumedUnit": _unit(charge)}
    )


def _planned_purchase_row(charge: Charge) -> FocusRow:
    """Return the purchase of a commitment that the program plans: a month's instalment."""
    quantity = _quantity(charge)
    unit_price = _unit_price(charge, charge.usd_per_month.expected, quantity)
    return (
        _describe_charge(charge)
        | _costs(quantity, unit_price, unit_price * quantity, ZERO)
        | _planned_commitment(charge, quantity)
        | {"ChargeCategory": "Purchase", "ChargeFrequency": "Recurring", "PricingCategory": "Standard"}
    )


def _planned_usage_row(charge: Charge, book: PriceBook) -> FocusRow:
    """Return the usage that a planned commitment pays for, with the on-demand list price."""
    quantity = _quantity(charge)
    effective = _unit_price(charge, charge.usd_per_month.expected, quantity) * quantity
    return (
        _describe_charge(charge)
        | _costs(quantity, _list_price(charge, book, effective, quantity), ZERO, effective)
        | _planned_commitment(charge, quantity)
        | {
            "PricingCategory": "Committed",
            "ConsumedQuantity": quantity,
            "ConsumedUnit": _unit(charge),
            "CommitmentDiscountStatus": "Used",
            "x_CostLow": None,
            "x_CostHigh": None,
        }
    )


def _planned_commitment(charge: Charge, quantity: Decimal) -> FocusRow:
    return {
        "CommitmentDiscountCategory": "Usage",
        "CommitmentDiscountId": f"planned:{charge.urn}::{charge.component}",
        "CommitmentDiscountName": f"{charge.name} {charge.component}",
        "CommitmentDiscountType": charge.purchase.replace("_", " "),
        "CommitmentDiscountQuantity": quantity,
        "CommitmentDiscountUnit": _unit(charge),
    }


def _commitment_rows(use: CommitmentUse, charges: tuple[Charge, ...]) -> Iterator[FocusRow]:
    """Yield the instalment of an existing commitment, and what of it is not used."""
    covered = [charge for charge in charges if charge.covered_by == use.id]
    cloud = covered[0].cloud if covered else _cloud_of_kind(use.kind)
    unused = use.usd_per_month if not covered else use.usd_per_month - _used_usd(use)
    row = _describe_commitment(use, cloud)
    yield (
        row
        | _costs(Decimal(1), use.usd_per_month, use.usd_per_month, ZERO)
        | {
            "ChargeCategory": "Purchase",
            "ChargeFrequency": "Recurring",
            "ChargeDescription": f"{use.label} {use.id}, instalment of a month, until {use.until}",
            "CommitmentDiscountQuantity": use.usd_per_month,
            "PricingCategory": "Standard",
        }
    )
    if unused > 0:
        yield (
            row
            | _costs(unused, Decimal(1), ZERO, unused)
            | {
                "ChargeDescription": f"{use.label} {use.id}, unused part of the month",
                "CommitmentDiscountStatus": "Unused",
                "CommitmentDiscountQuantity": unused,
                "PricingCategory": "Committed",
                "PricingUnit": "USD",
            }
        )


def _describe_commitment(use: CommitmentUse, cloud: str) -> FocusRow:
    sku = f"{cloud}:commitment:{use.kind}"
    return {
        **_commitment_fields(use),
        **_provider_fields(cloud),
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "PricingUnit": "Months",
        "ServiceCategory": "Other",
        "ServiceName": use.label,
        "ServiceSubcategory": "Other (Other)",
        "SkuId": sku,
        "SkuMeter": "Commitment",
        "SkuPriceId": f"{sku}:{use.id}",
    }


def _commitment_fields(use: CommitmentUse) -> FocusRow:
    return {
        "CommitmentDiscountCategory": "Spend" if use.kind in SPEND_KINDS else "Usage",
        "CommitmentDiscountId": use.id,
        "CommitmentDiscountType": use.label,
        "CommitmentDiscountUnit": "USD",
    }


def _cloud_of_kind(kind: str) -> str:
    if kind.startswith("azure"):
        return "azure"
    return "gcp" if kind.endswith("_cud") else "aws"


def _used_usd(use: CommitmentUse) -> Decimal:
    return (use.usd_per_month * use.used).quantize(STEP)


def _share_commitment_cost(estimate: CostEstimate, book: PriceBook) -> dict[tuple[str, str], Decimal]:
    """Return the part of each commitment's used dollars that a covered charge has, by its value at list price."""
    shares: dict[tuple[str, str], Decimal] = {}
    for use in estimate.bill.commitments:
        covered = [charge for charge in estimate.bill.charges if charge.covered_by == use.id]
        quantities = [_quantity(charge) for charge in covered]
        prices = [_on_demand_price(charge, book) for charge in covered]
        has_prices = all(price is not None for price in prices)
        weights = [
            quantity * (price or ZERO) if has_prices else quantity
            for quantity, price in zip(quantities, prices, strict=True)
        ]
        remaining, total = _used_usd(use), sum(weights, ZERO)
        for index, charge in enumerate(covered):
            is_last = index == len(covered) - 1
            part = (
                remaining
                if is_last
                else (_used_usd(use) * weights[index] / total).quantize(STEP)
                if total
                else ZERO
            )
            shares[charge.comparison_key] = part
            remaining -= part
    return shares


def _describe_charge(charge: Charge) -> FocusRow:
    """Return what a charge is for; its costs and commitment are added."""
    service, category, subcategory = find_focus_service(charge.cloud, charge.item, charge.type)
    region = charge.region if catalog.CLOUDS.get(charge.cloud) else None
    sku = f"{charge.cloud}:{charge.item}"
    month = charge.usd_per_month
    use = charge.monthly_use
    tier_start = use.shares[0].from_amount if use else ZERO
    quantity_text = (
        f"{format_used_amount(use)} of {charge.item}"
        if use
        else f"{format_number(charge.quantity.expected)} x {charge.item}"
    )
    price = use.shares[0] if use else charge.price
    hours_text = "" if use else f", {format_number(charge.hours_per_month)} h"
    reservation = charge.note.removeprefix("covered by ") if charge.purchase == "covered" else ""
    return {
        **_provider_fields(charge.cloud),
        "CapacityReservationId": (reservation or None) if not charge.covered_by else None,
        "CapacityReservationStatus": "Used" if reservation and not charge.covered_by else None,
        "ChargeCategory": "Usage",
        "ChargeDescription": (
            f"{charge.name} {charge.component}: {quantity_text} in {charge.region}, "
            f"{charge.purchase.replace('_', ' ')}{hours_text}, estimated"
        ),
        "ChargeFrequency": "Usage-Based",
        "PricingUnit": _unit(charge),
        "RegionId": region or None,
        "RegionName": region or None,
        "ResourceId": charge.urn,
        "ResourceName": charge.name,
        "ResourceType": charge.type,
        "ServiceCategory": category,
        "ServiceName": service,
        "ServiceSubcategory": subcategory,
        "SkuId": sku,
        "SkuMeter": charge.component.partition(":")[0],
        "SkuPriceId": f"{sku}:{charge.region}:{charge.purchase}{f':from-{tier_start}' if tier_start else ''}",
        "Tags": dict(charge.tags) or None,
        "x_Component": charge.component,
        "x_CostHigh": month.high,
        "x_CostLow": month.low,
        "x_Note": charge.note or None,
        "x_Owner": charge.owner or None,
        "x_PoolName": charge.pool or None,
        "x_PriceAsOf": price.as_of if price else None,
        "x_PriceSource": price.source if price else None,
        "x_Purchase": charge.purchase,
    }


def _provider_fields(cloud: str) -> FocusRow:
    provider = PROVIDERS.get(cloud, cloud)
    return {"ProviderName": provider, "PublisherName": provider, "InvoiceIssuerName": provider}


def _costs(quantity: Decimal, list_price: Decimal, billed: Decimal, effective: Decimal) -> FocusRow:
    """Return the costs of a row; without negotiated discounts the contracted price is the list price."""
    return {
        "BilledCost": billed,
        "ContractedCost": list_price * quantity,
        "ContractedUnitPrice": list_price,
        "EffectiveCost": effective,
        "ListCost": list_price * quantity,
        "ListUnitPrice": list_price,
        "PricingQuantity": quantity,
    }


def _quantity(charge: Charge) -> Decimal:
    """Return the units of a month: machine hours, GiB hours, or what is used."""
    if charge.monthly_use:
        return _round_fine_digits(charge.quantity.expected)
    return (charge.quantity.expected * charge.hours_per_month).quantize(STEP)


def _round_fine_digits(amount: Decimal) -> Decimal:
    """Round an amount to ten decimals, if it has more."""
    exponent, finest = amount.as_tuple().exponent, STEP.as_tuple().exponent
    is_fine = isinstance(exponent, int) and isinstance(finest, int) and exponent < finest
    return (amount.quantize(STEP) if is_fine else amount).normalize()


def _unit_price(charge: Charge, cost: Decimal, quantity: Decimal) -> Decimal:
    """Return the list price of a unit if it explains the cost, else the cost of one unit."""
    if charge.monthly_use:
        return charge.monthly_use.shares[0].usd_per_unit
    listed = to_decimal(charge.price.usd_per_hour) if charge.price else ZERO
    if abs(listed * quantity - cost) < TOLERANCE:
        return listed
    return (cost / quantity).quantize(STEP) if quantity else ZERO


def _list_price(charge: Charge, book: PriceBook, effective: Decimal, quantity: Decimal) -> Decimal:
    """Return the on-demand price of a unit; the effective one if the price list has none."""
    on_demand = _on_demand_price(charge, book)
    if on_demand is not None:
        return on_demand
    return (effective / quantity).quantize(STEP) if quantity else ZERO


def _on_demand_price(charge: Charge, book: PriceBook) -> Decimal | None:
    is_machine = charge.component.partition(":")[0] == "machine"
    look_up = book.find_machine_price if is_machine else book.find_cloud_part_price
    price = look_up(charge.cloud, charge.region, charge.item, "on_demand")
    return None if price is None else to_decimal(price.usd_per_hour)


def _unit(charge: Charge) -> str:
    """Return the unit in FOCUS's spelling: Hours, GiB-Hours, GiB-Months, GiB, Requests."""
    if charge.monthly_use:
        return format_focus_unit(charge.monthly_use.unit_name)
    unit = charge.price.unit if charge.price else "machine"
    if is_time_counted(unit):
        return format_focus_unit(format_use_unit(unit, is_stored=False, is_plural=True))
    return UNITS.get(unit, "Hours")


def format_focus_unit(unit_name: str) -> str:
    """Return a unit with capitals, as FOCUS's unit format demands: GiB-Months, Data Points."""
    return re.sub(r"\b[a-z]", lambda match: match[0].upper(), unit_name)


@cache
def find_focus_service(cloud: str, item: str, type_token: str) -> tuple[str, str, str]:
    """Return FOCUS's service name, category and subcategory of an item of a resource type."""
    for row in read_packaged_rows("gpufleet.cost", "data/focus_services.csv"):
        if row["cloud"] == cloud and fnmatchcase(item, row["item"]) and fnmatchcase(type_token, row["type"]):
            return row["service"], row["category"], row["subcategory"]
    return OTHER_SERVICE
