"""The same stack under each way to buy: what would each pool cost on demand, on spot, under a commitment."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from gpufleet.catalog import Price
from gpufleet.cost.demand import Bill, Charge
from gpufleet.cost.money import HOURS_PER_MONTH, ZERO, exact
from gpufleet.cost.rates import PriceBook
from gpufleet.cost.terms import TERMS

KINDS = ("on_demand", "spot", *TERMS)
OWN = ("owned",)  # nothing else can be bought in place of these


@dataclass(frozen=True)
class Option:
    """One way to buy a pool's machines: None where the catalogue has no usable price for it."""

    kind: str
    price: Price | None
    usd_per_month: Decimal | None


@dataclass(frozen=True)
class WhatIf:
    """One pool's machines of a type, as they are bought and as they could be."""

    pool: str
    cloud: str
    region: str
    machine: str
    component: str
    purchase: str
    count: Decimal
    hours: Decimal
    usd_per_month: Decimal
    options: tuple[Option, ...]

    @property
    def cheapest(self) -> Option | None:
        """Return the option that costs least, None where none has a price."""
        priced = [option for option in self.options if option.usd_per_month is not None]
        return min(priced, key=lambda option: option.usd_per_month or ZERO, default=None)


def what_if(
    bill: Bill, hours: dict[str, Decimal] | None = None, book: PriceBook | None = None
) -> tuple[WhatIf, ...]:
    """Price each pool's machines under every kind of purchase; commitments bill around the clock.

    ``hours`` are the planned hours of pools whose present purchase bills all month whatever they run.
    """
    prices = book or PriceBook()
    groups: dict[tuple[str, ...], list[Charge]] = {}
    for charge in bill.charges:
        if charge.purchase not in OWN and _replaceable(charge):
            groups.setdefault(_key(charge), []).append(charge)
    found = [_row(charges, hours or {}, prices) for _, charges in sorted(groups.items())]
    return tuple(row for row in found if row.count > 0)


def _replaceable(charge: Charge) -> bool:
    return charge.component.startswith(("machine", "accelerators"))


def _key(charge: Charge) -> tuple[str, ...]:
    return (charge.pool, charge.cloud, charge.region, charge.item, charge.purchase)


def _row(charges: list[Charge], hours: dict[str, Decimal], book: PriceBook) -> WhatIf:
    first = charges[0]
    count = sum((charge.quantity.expected for charge in charges), ZERO)
    planned = hours.get(first.pool, first.hours_per_month)
    options = tuple(_option(first, kind, count, planned, book) for kind in KINDS)
    now = sum((charge.usd_per_month.expected for charge in charges), ZERO)
    component = first.component.partition(":")[0]
    return WhatIf(
        first.pool, first.cloud, first.region, first.item, component, first.purchase, count, planned, now, options
    )  # fmt: skip


def _option(charge: Charge, kind: str, count: Decimal, planned: Decimal, book: PriceBook) -> Option:
    lookup = book.part if charge.component.startswith("accelerators") else book.machine
    price = lookup(charge.cloud, charge.region, charge.item, kind)
    billed = HOURS_PER_MONTH if kind in TERMS else planned
    return Option(kind, price, None if price is None else exact(price.usd_per_hour) * count * billed)
