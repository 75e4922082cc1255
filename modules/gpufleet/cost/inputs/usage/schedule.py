"""Opening hours as text: ``weekdays 8-18``, ``mon,wed 9-17``, ``daily 22-6``."""

from __future__ import annotations

import re
from decimal import Decimal

from gpufleet.cost.money import HOURS_PER_MONTH

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
GROUPS = {"weekdays": set(range(5)), "weekends": {5, 6}, "daily": set(range(7)), "always": set(range(7))}
HOURS_PER_WEEK = Decimal(168)
SHAPE = "days and hours, such as weekdays 8-18 or mon,wed 9-17"
_CENT = Decimal("0.01")


def parse_schedule_hours_per_month(text: str) -> Decimal:
    """Return the hours a month that a schedule is open; raise ValueError for other text."""
    open_hours: set[int] = set()
    for part in text.lower().split(";"):
        open_hours |= _parse_week_hours(part.split())
    return (len(open_hours) * HOURS_PER_MONTH / HOURS_PER_WEEK).quantize(_CENT)


def _parse_week_hours(tokens: list[str]) -> set[int]:
    """Return the hours of the week, 0 to 167, of one part."""
    if tokens == ["always"]:
        return set(range(7 * 24))
    if len(tokens) != 2:  # noqa: PLR2004 - days, hours
        raise ValueError(SHAPE)
    days, hours_match = _parse_days(tokens[0]), re.fullmatch(r"(\d{1,2})-(\d{1,2})", tokens[1])
    if not hours_match:
        raise ValueError(SHAPE)
    start, end = int(hours_match.group(1)), int(hours_match.group(2))
    if not (start < 24 and 0 < end <= 24 and start != end):  # noqa: PLR2004 - hours of a day
        raise ValueError(SHAPE)
    length = (end - start) % 24 or 24
    return {(day * 24 + start + hour) % (7 * 24) for day in days for hour in range(length)}


def _parse_days(text: str) -> set[int]:
    if text in GROUPS:
        return GROUPS[text]
    day_numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last and last not in DAYS):
            raise ValueError(SHAPE)
        start = DAYS.index(first)
        day_numbers |= {(start + offset) % 7 for offset in range((DAYS.index(last or first) - start) % 7 + 1)}
    return day_numbers
