"""Where ``gpufleet cost diff`` writes its answer, and at which days' prices it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from gpufleet import boundary
from gpufleet.cli import output
from gpufleet.cost import DIFF_FORMATS, CostDiff, PriceDates, render_diff
from gpufleet.errors import InputError

Verb = TypeVar("Verb", bound=Callable[..., Any])
ENDINGS = {".md": "markdown", ".json": "json", ".html": "html", ".xml": "junit", ".txt": "table"}
DAY = click.DateTime(["%Y-%m-%d"])
json_format_option = click.option("--json", "as_json", is_flag=True, help="Short for --format json.")


def add_output_options(verb: Verb) -> Verb:
    """Add the form and place of the answer, and the days whose prices it takes."""
    options = (
        click.option("--format", "form", type=click.Choice(list(DIFF_FORMATS)), help="Default: table."),
        json_format_option,
        click.option(
            "--output",
            "outputs",
            type=click.Path(path_type=Path),
            multiple=True,
            metavar="FILE",
            help=f"Write a file in the format of its extension ({', '.join(ENDINGS)}) or of --format; repeatable.",
        ),
        click.option(
            "--prices-before",
            type=DAY,
            metavar="DATE",
            help="Price the old side with the prices of this day (2026-07-01).",
        ),
        click.option(
            "--prices-after", type=DAY, metavar="DATE", help="Price the new side with the prices of this day."
        ),
    )
    for option in reversed(options):
        verb = option(verb)
    return verb


def parse_price_dates(before: datetime | None, after: datetime | None) -> PriceDates | None:
    """Return the days that were asked for, None where none was."""
    if before is None and after is None:
        return None
    first, second = (day.date() if day else None for day in (before, after))
    if _newest(first) == _newest(second):
        raise InputError(
            "both sides at the same prices", where="--prices-before, --prices-after", remedy="give two days"
        )
    return PriceDates(first, second)


def _newest(day: date | None) -> date:
    """Return a day, the end of time for the newest prices."""
    return day or date.max


def write_diff(cost_diff: CostDiff, form: str | None, as_json: bool, outputs: Sequence[Path]) -> None:
    """Write the answer to every file asked for, else to standard output."""
    if not outputs:
        written = "json" if as_json else form or "table"
        output.print_rendered(render_diff(cost_diff, written), as_json=written == "json")
        return
    forms = [_output_format(path, "json" if as_json else form, is_page=len(outputs) > 1) for path in outputs]
    for path, each in zip(outputs, forms, strict=True):
        boundary.write_text(path, render_diff(cost_diff, each).rstrip("\n") + "\n")
        output.print_lines(f"wrote {path}", err=True)


def _output_format(path: Path, requested: str | None, *, is_page: bool) -> str:
    """Return the form of a file: the one asked for, unless several files with endings of their own are."""
    by_ending = ENDINGS.get(path.suffix.lower())
    form = (by_ending or requested) if is_page else (requested or by_ending)
    if form is None:
        raise InputError(f"no form ends in {path.suffix!r}", where="--output", remedy="add --format")
    return form
