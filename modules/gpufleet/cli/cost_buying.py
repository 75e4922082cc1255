"""``gpufleet cost breakeven`` and ``whatif``: other ways to buy the same."""

from __future__ import annotations

from pathlib import Path

import click

from gpufleet import catalog, cost, paths
from gpufleet.catalog import Price
from gpufleet.cli import output
from gpufleet.errors import InputError

JSON = click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")


@click.command()
@click.option("--machine", required=True, help="As its cloud names it: g5.2xlarge.")
@click.option("--region", required=True)
@click.option(
    "--committed",
    "own",
    type=click.FloatRange(min=0, min_open=True),
    metavar="USD",
    help="A commitment price per hour of your own, where the catalogue has none.",
)
@JSON
def breakeven(*, machine: str, region: str, own: float | None, as_json: bool) -> None:
    """Show above how many hours a month a commitment is cheaper than on-demand and spot."""
    known = catalog.get_machine(machine)
    offer = Price(own, "machine", None, "--committed", "low", region, "own") if own else None
    result = cost.break_even(known.cloud, region, machine, committed={"own": offer} if offer else None)
    if all(each.hourly is None for each in result):
        there = ", ".join(catalog.list_machine_regions(known.cloud, machine)) or "none"
        raise InputError(
            f"no price of {machine} in {region}", where="--region", remedy=f"regions with one: {there}"
        )
    output.print_result(as_json, result, cost.break_even_document, cost.break_even_table)


@click.command()
@click.option("-s", "--stack", required=True, help="The stack, as in stacks/Pulumi.STACK.yaml.")
@click.option("--config-file", type=click.Path(path_type=Path), help="Use this file as the stack's.")
@JSON
def whatif(*, stack: str, config_file: Path | None, as_json: bool) -> None:
    """Price each pool of a stack under every kind of purchase that has a price."""
    rows = cost.what_if(cost.estimate_stack(paths.project_root(), stack, config_file).bill)
    output.print_result(as_json, rows, cost.what_if_document, cost.what_if_table)
