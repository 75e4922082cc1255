"""``gpufleet cost tco``: the total cost of a rack, compared with a cloud."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from gpufleet import paths
from gpufleet.boundary import make_values_printable
from gpufleet.cli import output
from gpufleet.cli.number import FiniteFloatRange
from gpufleet.errors import InputError

KINDS = ("on_demand", "spot", "reserved_1y", "reserved_3y")


@click.command("tco")
@click.argument("rack")
@click.option("--against", "machine", help="The cloud machine; default: the cheapest equivalent one.")
@click.option("--region", default="us-east-1", show_default=True)
@click.option("--purchase", type=click.Choice(KINDS), default="on_demand", show_default=True)
@click.option(
    "--utilisation",
    type=FiniteFloatRange(min=0, max=1, min_open=True),
    default=1.0,
    show_default=True,
    help="Share of the month in which the cloud machines would run.",
)
@click.option(
    "--years", type=FiniteFloatRange(min=0.1, max=100), help="Years of use, instead of the file's value."
)
@click.option(
    "--cloud-usd-per-hour", type=FiniteFloatRange(min=0, max=1e6, min_open=True), help="Your own cloud price."
)
@click.option(
    "--cloud-count",
    type=click.IntRange(min=1, max=1_000_000),
    help="Number of equivalent cloud machines, instead of the computed one.",
)
@click.option(
    "--storage/--no-storage", default=True, help="Include cloud disks for the rack's own disks, or not."
)
@output.report_options("table", "json", "html", "svg", former_names=("--svg", "--html"))
def tco_command(
    *,
    rack: str,
    utilisation: float,
    years: float | None,
    report: output.ReportOutput,
    **options: Any,
) -> None:
    """Compare the total cost of RACK (a name in inventory/, or a file) with a cloud: break-even and utilisation."""
    from gpufleet import fleet
    from gpufleet.cost.analysis import tco

    rack_cost = tco.compute_rack_cost(fleet.load_rack(_find_rack_file(rack)))
    rack_cost = rack_cost.with_changed_figures(life_years=years) if years else rack_cost
    request = tco.CloudMachineRequest(
        options["machine"],
        options["region"],
        options["purchase"],
        options["cloud_count"],
        options["cloud_usd_per_hour"],
        options["storage"],
    )
    comparison = tco.RackCloudComparison(
        rack_cost, tco.choose_cloud_alternative(rack_cost, request), utilisation
    )
    alternatives = tco.find_cloud_alternatives(rack_cost, replace(request, usd_per_hour=None, count=None))
    renderers: dict[str, Callable[[], str]] = {
        "svg": lambda: tco.draw_cumulative_cost_svg(comparison),
        "html": lambda: tco.render_tco_html(comparison, alternatives),
        "json": lambda: json.dumps(tco.build_tco_document(comparison, alternatives), indent=2),
        "table": lambda: tco.format_tco_table(*make_values_printable((comparison, alternatives))),
    }
    report.write(lambda name: renderers[name]())


def _find_rack_file(rack: str) -> Path:
    if rack.endswith((".yaml", ".yml")):
        return _check_rack_file(Path(rack))
    return _check_rack_file(paths.find_project_root() / "inventory" / f"{rack}.yaml")


def _check_rack_file(path: Path) -> Path:
    if not path.is_file():
        from difflib import get_close_matches

        close = get_close_matches(path.stem, [file.stem for file in path.parent.glob("*.yaml")], n=1)
        remedy = f"did you mean {close[0]}?" if close else "give the name of a rack in inventory/, or a file"
        raise InputError("no such rack file", where=str(path), remedy=remedy)
    return path
