"""What each pool would cost on demand, on spot and under a commitment."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.catalog import Price
from gpufleet.cost.formatting import round_for_json
from gpufleet.cost.inputs.terms import TERMS
from gpufleet.cost.money import HOURS_PER_MONTH, ZERO, to_decimal
from gpufleet.cost.pricing.bill import Bill, Charge
from gpufleet.cost.pricing.rates import PriceBook

KINDS = ("on_demand", "spot", *TERMS)
NOT_BOUGHT = ("owned", "covered")  # owned, or inside reserved capacity with its own row


@dataclass(frozen=True)
class PurchaseOption:
    """One purchase kind for a pool's machines; the price is None if the catalogue has none."""

    kind: str
    price: Price | None
    usd_per_month: Decimal | None


@dataclass(frozen=True)
class WhatIfRow:
    """One pool's machines of a type, with their present and their possible purchase kinds."""

    pool: str
    cloud: str
    region: str
    machine: str
    component: str
    purchase: str
    count: Decimal
    hours: Decimal
    usd_per_month: Decimal
    options: tuple[PurchaseOption, ...]

    @property
    def cheapest_option(self) -> PurchaseOption | None:
        """Return the cheapest option, None if no option has a price."""
        priced = [option for option in self.options if option.usd_per_month is not None]
        return min(priced, key=lambda option: option.usd_per_month or ZERO, default=None)


def compare_purchase_kinds(bill: Bill, book: PriceBook | None = None) -> tuple[WhatIfRow, ...]:
    """Price each pool's machines under every kind of purchase; commitments bill around the clock."""
    prices = book or PriceBook()
    groups: dict[tuple[str, ...], list[Charge]] = {}
    for charge in bill.charges:
        if charge.purchase not in NOT_BOUGHT and _is_replaceable(charge):
            groups.setdefault(_group_key(charge), []).append(charge)
    rows = [_make_row(charges, prices) for _, charges in sorted(groups.items())]
    return tuple(row for row in rows if row.count > 0)


def _is_replaceable(charge: Charge) -> bool:
    return charge.component.startswith(("machine", "accelerators"))


def _group_key(charge: Charge) -> tuple[str, ...]:
    return (charge.pool, charge.cloud, charge.region, charge.item, charge.purchase)


def _make_row(charges: list[Charge], book: PriceBook) -> WhatIfRow:
    first = charges[0]
    count = sum((charge.quantity.expected for charge in charges), ZERO)
    planned = first.hours_per_month
    options = tuple(_price_option(first, kind, count, planned, book) for kind in KINDS)
    now = sum((charge.usd_per_month.expected for charge in charges), ZERO)
    component = first.component.partition(":")[0]
    return WhatIfRow(
        first.pool, first.cloud, first.region, first.item, component, first.purchase, count, planned, now, options
    )  # fmt: skip


def _price_option(
    charge: Charge, kind: str, count: Decimal, planned: Decimal, book: PriceBook
) -> PurchaseOption:
    lookup = (
        book.find_cloud_part_price if charge.component.startswith("accelerators") else book.find_machine_price
    )
    price = lookup(charge.cloud, charge.region, charge.item, kind)
    billed = HOURS_PER_MONTH if kind in TERMS else planned
    return PurchaseOption(
        kind, price, None if price is None else to_decimal(price.usd_per_hour) * count * billed
    )


def build_what_if_document(rows: tuple[WhatIfRow, ...]) -> list[dict[str, Any]]:
    """Return the comparison as JSON: a row per pool and machine, its options by kind of purchase."""
    return [
        {
            "pool": row.pool,
            "cloud": row.cloud,
            "region": row.region,
            "machine": row.machine,
            "component": row.component,
            "purchase": row.purchase,
            "count": float(row.count),
            "hours_per_month": float(row.hours),
            "usd_per_month": round_for_json(row.usd_per_month),
            "cheapest": row.cheapest_option.kind if row.cheapest_option else None,
            "options": {option.kind: _option_document(option) for option in row.options},
        }
        for row in rows
    ]


def _option_document(option: PurchaseOption) -> dict[str, Any] | None:
    """Return an option's cost and price, None if it has no price."""
    price = option.price
    if price is None or option.usd_per_month is None:
        return None
    return {
        "usd_per_month": round_for_json(option.usd_per_month),
        "price": {"usd_per_hour": price.usd_per_hour, "as_of": price.as_of, "source": price.source},
    }
