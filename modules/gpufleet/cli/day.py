"""Days as options of the command line."""

from __future__ import annotations

from datetime import UTC, date, datetime

from gpufleet.errors import InputError


def check_not_in_future(day: date, option: str) -> None:
    """Refuse a day that is in the future in every time zone."""
    from gpufleet.catalog.prices.name_check import is_future_day

    today = datetime.now(UTC).date()
    if is_future_day(day.isoformat(), today):
        raise InputError(f"{day} is in the future", where=option, remedy=f"give {today} or an earlier day")
