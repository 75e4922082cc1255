"""``gpufleet cost ownership``: what a rack costs, and when it has paid for itself against a cloud."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from gpufleet import boundary, paths
from gpufleet.cli import output
from gpufleet.errors import InputError

KINDS = ("on_demand", "spot", "reserved_1y", "reserved_3y")


@click.command()
@click.argument("rack")
@click.option(
    "--against", "machine", help="The cloud machine; default: the cheapest known that does the same."
)
@click.option("--region", default="us-east-1", show_default=True)
@click.option("--purchase", type=click.Choice(KINDS), default="on_demand", show_default=True)
@click.option(
    "--utilisation",
    type=click.FloatRange(min=0, max=1, min_open=True),
    default=1.0,
    show_default=True,
    help="Share of the month in which the cloud's machines would run.",
)
@click.option(
    "--years", type=click.FloatRange(min=0, min_open=True), help="Years of use, in place of the file's."
)
@click.option(
    "--cloud-usd-per-hour", type=click.FloatRange(min=0, min_open=True), help="A price of your own."
)
@click.option("--cloud-count", type=click.IntRange(min=1), help="How many do the same, in place of our rule.")
@click.option(
    "--storage/--no-storage", default=True, help="Rent disks for what the rack has on board, or none."
)
@click.option("--svg", "svg_file", type=click.Path(path_type=Path), metavar="FILE", help="Write the plot.")
@click.option("--html", "html_file", type=click.Path(path_type=Path), metavar="FILE", help="Write a page.")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
def ownership(
    *,
    rack: str,
    utilisation: float,
    years: float | None,
    svg_file: Path | None,
    html_file: Path | None,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Compare RACK (a name in inventory/, or a file) with renting the same: break-even month and utilisation."""
    from gpufleet import fleet
    from gpufleet.cost.analysis import tco as of

    own = of.own(fleet.load_rack(_file(rack)))
    own = own.with_figures(life_years=years) if years else own
    request = of.Request(
        wanted["machine"],
        wanted["region"],
        wanted["purchase"],
        wanted["cloud_count"],
        wanted["cloud_usd_per_hour"],
        wanted["storage"],
    )
    comparison = of.Comparison(own, of.chosen(own, request), utilisation)
    others = of.candidates(own, replace(request, usd_per_hour=None, count=None))
    if svg_file:
        _write(svg_file, of.svg(comparison))
    if html_file:
        _write(html_file, of.page(comparison, others))
    output.print_result(
        as_json, (comparison, others), lambda found: of.document(*found), lambda found: of.table(*found)
    )


def _file(rack: str) -> Path:
    if rack.endswith((".yaml", ".yml")):
        return _there(Path(rack))
    return _there(paths.project_root() / "inventory" / f"{rack}.yaml")


def _there(path: Path) -> Path:
    if not path.is_file():
        raise InputError(
            "no such rack file", where=str(path), remedy="name one of inventory/, or give a file"
        )
    return path


def _write(path: Path, text: str) -> None:
    boundary.write_text(path, text)
