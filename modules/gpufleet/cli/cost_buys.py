"""``gpufleet cost buys``: what a monthly budget buys."""

from __future__ import annotations

import re
from decimal import Decimal

import click

from gpufleet.catalog import CLOUDS
from gpufleet.catalog.prices import PURCHASES
from gpufleet.cli import output
from gpufleet.errors import InputError


@click.command()
@click.option("--budget", required=True, metavar="USD", help="A month's money; LOW-HIGH shows both.")
@click.option("--accelerators", metavar="NAME", help="Only these: T4, A100, h100 …")
@click.option("--machine", help="Only this machine.")
@click.option("--cloud", type=click.Choice(tuple(CLOUDS)))
@click.option("--region", help="Only there; default: the cheapest region for each.")
@click.option("--purchase", type=click.Choice(PURCHASES))
@click.option(
    "--most", "limit", type=click.IntRange(min=1), default=20, show_default=True, help="Rows to show."
)
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
def buys(
    *,
    budget: str,
    accelerators: str | None,
    machine: str | None,
    cloud: str | None,
    region: str | None,
    purchase: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show how many hours of which machines a month's budget buys, and how many could run all month."""
    from gpufleet import cost

    budgets = _budgets(budget)
    found = [
        cost.budget_options(
            one,
            accelerator=accelerators,
            machine=machine,
            cloud=cloud,
            region=region,
            purchase=purchase,
            limit=limit,
        )
        for one in budgets
    ]
    if not any(found):
        raise InputError(
            "no priced machine fits", where="cost buys", remedy="leave an option out, or raise --budget"
        )
    output.print_result(
        as_json,
        found,
        lambda rows: cost.budget_document(budgets, rows),
        lambda rows: cost.budget_table(budgets, rows),
    )


def _budgets(text: str) -> list[Decimal]:
    """Read 500 or 200-500."""
    if not re.fullmatch(r"\d+(\.\d+)?(-\d+(\.\d+)?)?", text):
        raise InputError(f"{text!r} is not an amount", where="--budget", remedy="for example 500, or 200-500")
    found = [Decimal(part) for part in text.split("-")]
    if found[0] <= 0 or sorted(set(found)) != found:
        raise InputError(f"{text!r} buys nothing", where="--budget", remedy="the lower amount first, above 0")
    return found
