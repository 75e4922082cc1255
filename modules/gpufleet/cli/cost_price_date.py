"""Options of ``gpufleet cost diff`` for the dates of its prices."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpufleet.cli.day import check_not_in_future
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from gpufleet.cost.analysis.price_date import PriceDates

Verb = TypeVar("Verb", bound=Callable[..., Any])
DAY = click.DateTime(["%Y-%m-%d"])


def add_price_date_options(command: Verb) -> Verb:
    """Add the options for the dates of the prices."""
    options = (
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
