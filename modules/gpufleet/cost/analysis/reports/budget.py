"""What a budget buys, as a table."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.catalog import MachineOffer
from gpufleet.cost.analysis.budget import Buy
from gpufleet.cost.analysis.reports.table import grid
from gpufleet.cost.formatting import number, usd

HEADER = ("MACHINE", "CARRIES", "PURCHASE", "REGION", "USD/HOUR", "HOURS A MONTH", "ALL MONTH", "PRICED")


def buys_table(budgets: list[Decimal], found: list[list[Buy]]) -> str:
    """Write what each budget buys."""
    parts = []
    for budget, rows in zip(budgets, found, strict=True):
        table = grid(HEADER, [_row(each) for each in rows]) if rows else ["nothing in the catalogue"]
        parts += [f"{usd(budget)} a month buys, one of:", *table, ""]
    return "\n".join([*parts, "Machines only: disks, addresses and traffic come on top."])


def _row(of: Buy) -> tuple[str, ...]:
    offer = of.offer
    return (
        offer.machine.name,
        _carries(offer),
        offer.purchase.replace("_", " "),
        offer.region,
        f"{of.usd_per_hour:.4f}",
        number(of.hours),
        f"{of.always} x" if of.always else "-",
        offer.price.as_of or "undated",
    )


def _carries(offer: MachineOffer) -> str:
    return ", ".join(f"{card.count * card.share:g} x {card.model}" for card in offer.machine.accelerators)
