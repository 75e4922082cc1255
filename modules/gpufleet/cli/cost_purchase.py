"""``gpufleet cost breakeven`` and ``what-if``: the same machines with other purchase kinds."""

from __future__ import annotations

from pathlib import Path

import click

from gpufleet import catalog, cost, paths
from gpufleet.catalog import Price
from gpufleet.catalog.prices.name_suggestion import check_searched_names
from gpufleet.cli import output
from gpufleet.cli.number import FiniteFloatRange
from gpufleet.errors import InputError


@click.command("breakeven")
@click.option("--machine", required=True, help="The cloud's machine name: g5.2xlarge.")
@click.option("--region", required=True)
@click.option(
    "--committed",
    "committed_usd",
    type=FiniteFloatRange(min=0, max=1e6, min_open=True),
    metavar="USD",
    help="Your negotiated price per hour; compared in addition to the catalogue's.",
)
@output.json_option
def show_break_even_hours(*, machine: str, region: str, committed_usd: float | None, as_json: bool) -> None:
    """Show above how many hours a month a commitment is cheaper than on-demand and spot."""
    from gpufleet.cost.analysis.reports.purchase import format_break_even_table
    from gpufleet.cost.pricing.commitments import build_break_even_document, compute_break_evens

    check_searched_names(None, None, machine)
    cloud = (catalog.find_ordinary_machine(machine) or catalog.get_machine(machine)).cloud
    offer = (
        Price(committed_usd, "machine", None, "--committed", "low", region, "own") if committed_usd else None
    )
    result = compute_break_evens(cloud, region, machine, negotiated_prices={"own": offer} if offer else None)
    if all(each.hourly is None for each in result):
        regions = ", ".join(catalog.list_machine_regions(cloud, machine)) or "none"
        raise InputError(
            f"no price of {machine} in {region}", where="--region", remedy=f"regions with one: {regions}"
        )
    output.print_result(as_json, result, build_break_even_document, format_break_even_table)


@click.command("what-if")
@click.option("-s", "--stack", required=True, help="The stack, as in stacks/Pulumi.STACK.yaml.")
@click.option("--config-file", type=click.Path(path_type=Path), help="Use this file instead of the stack's.")
@click.option(
    "--allow-unconfined",
    "may_be_unconfined",
    is_flag=True,
    help="Run the program also where this machine cannot confine it.",
)
@output.json_option
def show_what_if_prices(
    *, stack: str, config_file: Path | None, may_be_unconfined: bool, as_json: bool
) -> None:
    """Price each pool of a stack with every purchase kind that has a price."""
    from gpufleet.cost.analysis.reports.purchase import format_what_if_table
    from gpufleet.cost.analysis.what_if import build_what_if_document, compare_purchase_kinds
    from gpufleet.cost.inputs.stack_name import parse_stack_name

    root, options = paths.find_project_root(), cost.CostOptions(may_be_unconfined=may_be_unconfined)
    estimate = cost.estimate_stack(root, parse_stack_name(stack), config_file, options)
    rows = compare_purchase_kinds(estimate.bill)
    output.print_result(as_json, rows, build_what_if_document, format_what_if_table)
