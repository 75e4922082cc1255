"""Options of ``gpufleet cost diff`` for output files, formats and price dates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpufleet import boundary
from gpufleet.cli import output
from gpufleet.cli.day import check_not_in_future
from gpufleet.cost import render_diff
from gpufleet.cost.analysis.reports import DIFF_FORMATS
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from gpufleet.cost import CostDiff
    from gpufleet.cost.analysis.price_date import PriceDates

Verb = TypeVar("Verb", bound=Callable[..., Any])
EXTENSIONS = {".md": "markdown", ".json": "json", ".html": "html", ".xml": "junit", ".txt": "table"}
DAY = click.DateTime(["%Y-%m-%d"])
json_format_option = click.option("--json", "as_json", is_flag=True, help="Short for --format json.")


def add_diff_output_options(command: Verb) -> Verb:
    """Add the options for the format, the output files and the price dates."""
    options = (
        click.option(
            "--format", "output_format", type=click.Choice(list(DIFF_FORMATS)), help="Default: table."
        ),
        json_format_option,
        click.option(
            "--output",
            "outputs",
            type=click.Path(path_type=Path),
            multiple=True,
            metavar="FILE",
            help=f"Write a file in the format of its extension ({', '.join(EXTENSIONS)}) or of --format; repeatable.",
        ),
        click.option(
            "--prices-before",
            type=DAY,
            metavar="DATE",
            help="Use the prices of this day for the resources before the change (2026-07-01).",
        ),
        click.option(
            "--prices-after",
            type=DAY,
            metavar="DATE",
            help="Use the prices of this day for the resources after the change.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def parse_price_dates(before: datetime | None, after: datetime | None) -> PriceDates | None:
    """Return the requested price dates; None without one."""
    if before is None and after is None:
        return None
    day_before, day_after = (day.date() if day else None for day in (before, after))
    for option, day in (("--prices-before", day_before), ("--prices-after", day_after)):
        if day:
            check_not_in_future(day, option)
    if _newest(day_before) == _newest(day_after):
        raise InputError(
            "both dates select the same prices",
            where="--prices-before, --prices-after",
            remedy="give two days",
        )
    from gpufleet.cost.analysis.price_date import PriceDates

    return PriceDates(day_before, day_after)


def _newest(day: date | None) -> date:
    """Return a day; the last possible one for None, which means the newest prices."""
    return day or date.max


def write_cost_diff(
    cost_diff: CostDiff,
    output_format: str | None,
    as_json: bool,
    outputs: Sequence[Path],
    *,
    show_skipped: bool = False,
) -> None:
    """Write a difference to every requested file, else to standard output."""
    selected_format = "json" if as_json else output_format
    write_report(
        lambda name: render_diff(cost_diff, name, show_skipped=show_skipped), selected_format, outputs
    )


def write_report(render: Callable[[str], str], selected_format: str | None, outputs: Sequence[Path]) -> None:
    """Write a report to every requested file in its format, else to standard output."""
    if not outputs:
        name = selected_format or "table"
        output.print_rendered(render(name), as_json=name == "json")
        return
    formats = [_output_format(path, selected_format, has_several_files=len(outputs) > 1) for path in outputs]
    for path, each in zip(outputs, formats, strict=True):
        boundary.write_text(path, render(each).rstrip("\n") + "\n")
        output.print_lines(f"wrote {path}", err=True)


def _output_format(path: Path, requested_format: str | None, *, has_several_files: bool) -> str:
    """Return the format of a file: that of its extension if there are several files, else the requested one."""
    by_extension = EXTENSIONS.get(path.suffix.lower())
    file_format = (
        (by_extension or requested_format) if has_several_files else (requested_format or by_extension)
    )
    if file_format is None:
        raise InputError(f"unknown file extension {path.suffix!r}", where="--output", remedy="add --format")
    return file_format
