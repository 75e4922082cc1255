"""``gpufleet prices blocks`` and ``prices spot``: what AWS offers now, with your credentials. Nothing is bought."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from gpufleet.cli import output
from gpufleet.errors import CheckFailed

MOMENT = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M"])
LONGEST_HOURS = 182 * 24


@click.command("blocks")
@click.option("--machine", required=True, help="The machine type, such as p5.48xlarge.")
@click.option(
    "--count", type=click.IntRange(1, 512), default=1, show_default=True, help="Number of machines."
)
@click.option("--hours", type=click.IntRange(1, LONGEST_HOURS), required=True, help="Length of the block.")
@click.option("--region", required=True)
@click.option("--earliest", type=MOMENT, help="Earliest start (UTC).")
@click.option("--latest", type=MOMENT, help="Latest end (UTC).")
@output.json_option
def search_capacity_blocks(  # noqa: PLR0917 - click hands each option over by name
    machine: str,
    count: int,
    hours: int,
    region: str,
    earliest: datetime | None,
    latest: datetime | None,
    as_json: bool,
) -> None:
    """Search AWS's Capacity Block offerings and print the lines that pin one in a spec. Buys nothing.

    Exit code 1: there is no such offering now.
    """
    from gpufleet.operations import capacity_blocks as operation

    start, end = (moment.replace(tzinfo=UTC) if moment else None for moment in (earliest, latest))
    search = operation.BlockSearch(machine, count, hours, region, start, end)
    offerings = operation.search_block_offerings(search)
    if as_json:
        output.print_json([offering.as_json() for offering in offerings])
    else:
        for offering in offerings:
            output.print_lines(offering.format_line())
        if offerings:
            output.print_lines("", f"to buy {offerings[0].id}, the cheapest, in a pool of the spec:")
            output.print_lines(*(f"  {line}" for line in offerings[0].format_spec_lines()))
    if not offerings:
        raise CheckFailed(f"no Capacity Block of {count} x {machine} for {hours} hours in {region} now")


@click.command("spot")
@click.option("-s", "--stack", required=True, help="The stack of the pool.")
@click.option("--pool", required=True, help="The pool: its machine types, region and zones.")
@click.option(
    "--days", type=click.IntRange(1, 90), default=7, show_default=True, help="How far to look back."
)
@output.json_option
def summarise_spot_history(stack: str, pool: str, days: int, as_json: bool) -> None:
    """Summarise AWS's spot prices for a pool, zone by zone, cheapest first.

    Exit code 1: AWS has no spot price for these machines there.
    """
    from gpufleet.operations import spot_history as operation

    rows = operation.summarise_pool_spot_prices(stack, pool, days)
    output.print_data(as_json, [row.as_json() for row in rows], (row.format_line() for row in rows))
    if not rows:
        raise CheckFailed(f"AWS reports no spot price for pool {pool} in the last {days} days")
