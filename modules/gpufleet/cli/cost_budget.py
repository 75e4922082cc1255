"""``gpufleet cost budget``: what a monthly budget buys."""

from __future__ import annotations

import re
from decimal import Decimal

import click

from gpufleet.catalog import CLOUDS
from gpufleet.catalog.prices import PURCHASES
from gpufleet.cli import output
from gpufleet.errors import InputError


@click.command("budget")
@click.option("--budget", required=True, metavar="USD", help="Monthly budget; LOW-HIGH shows both.")
@click.option("--accelerators", metavar="NAME", help="Only these accelerators: T4, A100, h100 …")
@click.option("--machine", help="Only this machine.")
@click.option("--cloud", type=click.Choice(tuple(CLOUDS)))
@click.option("--region", help="Only this region; default: the cheapest region of each machine.")
@click.option("--purchase", type=click.Choice(PURCHASES))
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Maximum number of rows.",
)
@output.json_option
def budget_command(
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
    """Show how many hours of each machine a monthly budget buys, and how many machines could run all month."""
    from gpufleet.catalog.offer import check_accelerator_name
    from gpufleet.catalog.prices.name_suggestion import check_searched_names
    from gpufleet.cost.analysis.budget import build_budget_document, find_budget_options
    from gpufleet.cost.analysis.reports.budget import format_budget_table

    if accelerators:
        check_accelerator_name(accelerators)
    budgets = _parse_budgets(budget)
    options = [
        find_budget_options(
            usd,
            accelerator=accelerators,
            machine=machine,
            cloud=cloud,
            region=region,
            purchase=purchase,
            limit=limit,
        )
        for usd in budgets
    ]
    if not any(options):
        check_searched_names(cloud, region, machine)
        raise InputError(
            "no machine with a price matches",
            where="cost budget",
            remedy="remove an option, or increase --budget",
        )
    output.print_result(
        as_json,
        options,
        lambda rows: build_budget_document(budgets, rows),
        lambda rows: format_budget_table(budgets, rows),
    )


def _parse_budgets(text: str) -> list[Decimal]:
    """Return the amounts in 500 or 200-500."""
    if not re.fullmatch(r"\d+(\.\d+)?(-\d+(\.\d+)?)?", text):
        raise InputError(f"{text!r} is not an amount", where="--budget", remedy="for example 500, or 200-500")
    amounts = [Decimal(part) for part in text.split("-")]
    if amounts[0] <= 0 or sorted(set(amounts)) != amounts:
        raise InputError(
            f"{text!r} is not a budget", where="--budget", remedy="give the lower amount first, above 0"
        )
    return amounts
