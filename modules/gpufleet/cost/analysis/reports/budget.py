"""What a budget buys, as a table."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.catalog import MachineOffer
from gpufleet.cost.analysis.budget import BudgetOption
from gpufleet.cost.analysis.reports.table import align_columns
from gpufleet.cost.formatting import format_number, format_usd

HEADER = ("MACHINE", "ACCELERATORS", "PURCHASE", "REGION", "USD/HOUR", "HOURS A MONTH", "ALL MONTH", "PRICED")


def format_budget_table(budgets: list[Decimal], options_by_budget: list[list[BudgetOption]]) -> str:
    """Return a table for each budget."""
    parts = []
    for budget, options in zip(budgets, options_by_budget, strict=True):
        table = (
            align_columns(HEADER, [_option_row(option) for option in options])
            if options
            else ["nothing in the catalogue"]
        )
        parts += [f"{format_usd(budget)} a month buys, one of:", *table, ""]
    return "\n".join([*parts, "Machines only: disks, addresses and traffic come on top."])


def _option_row(option: BudgetOption) -> tuple[str, ...]:
    offer = option.offer
    return (
        offer.machine.name,
        _accelerators_text(offer),
        offer.purchase.replace("_", " "),
        offer.region,
        f"{option.machine_usd_per_hour:.4f}",
        format_number(option.hours),
        f"{option.machines_all_month} x" if option.machines_all_month else "-",
        offer.price.as_of or "undated",
    )


def _accelerators_text(offer: MachineOffer) -> str:
    return ", ".join(f"{card.count * card.share:g} x {card.model}" for card in offer.machine.accelerators)
