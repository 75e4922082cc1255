"""Recurring actions (five-field cron), and a group's average size over a week.

Fields hold numbers, weekday names, lists, ranges and steps. An expression with a day of the month or a month does
not recur weekly: it raises ValueError, and the group's size becomes a range.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

MINUTES = 7 * 24 * 60
WEEKDAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
FIELDS = 5
_FINE = Decimal("0.0001")


@dataclass(frozen=True)
class WeeklyCronSchedule:
    """The minutes of a week, from Sunday 00:00, at which an action starts."""

    minutes: frozenset[int]


def parse_weekly_cron(text: str) -> WeeklyCronSchedule:
    """Parse a cron expression that recurs weekly; raise ValueError for others."""
    fields = text.lower().split()
    if len(fields) != FIELDS:
        raise ValueError(f"{text!r} is not a cron expression of five fields")
    minute, hour, day, month, weekday = fields
    if day not in ("*", "?") or month != "*":
        raise ValueError(f"{text!r} does not recur weekly")
    days = {at % 7 for at in _parse_field(weekday, 0, 7)}
    hours, minutes = _parse_field(hour, 0, 23), _parse_field(minute, 0, 59)
    return WeeklyCronSchedule(
        frozenset(
            (day_number * 24 + hour_number) * 60 + minute_number
            for day_number in days
            for hour_number in hours
            for minute_number in minutes
        )
    )


def _parse_field(text: str, low: int, high: int) -> set[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\*|\?|\w+)(?:-(\w+))?(?:/(\d+))?", part)
        if not match:
            raise ValueError(f"{part!r} in a cron expression is not valid")
        first, last, step = match.groups()
        start = low if first in ("*", "?") else _parse_number(first)
        end = high if first in ("*", "?") or (step and not last) else _parse_number(last or first)
        if not (low <= start <= end <= high) or step == "0":
            raise ValueError(f"{part!r} in a cron expression is out of range")
        numbers |= set(range(start, end + 1, int(step or 1)))
    return numbers


def _parse_number(text: str) -> int:
    if text in WEEKDAYS:
        return WEEKDAYS[text]
    if not text.isdecimal():
        raise ValueError(f"{text!r} in a cron expression is not valid")
    return int(text)


def weekly_average_group_size(actions: Iterable[tuple[WeeklyCronSchedule, Decimal]]) -> Decimal | None:
    """Return a group's average size if each action sets it; None without actions."""
    changes = sorted((minute, size) for cron, size in actions for minute in cron.minutes)
    if not changes:
        return None
    total = Decimal(0)
    for index, (minute, size) in enumerate(changes):
        next_minute = changes[index + 1][0] if index + 1 < len(changes) else changes[0][0] + MINUTES
        total += size * (next_minute - minute)
    return (total / MINUTES).quantize(_FINE)


def weekly_average_group_size_with_minimums(
    windows: Iterable[tuple[WeeklyCronSchedule, int, Decimal]], base_size: Decimal
) -> Decimal:
    """Return the average size if each window (start, minutes, size) sets a minimum size."""
    sizes = [base_size] * MINUTES
    for cron, minutes, size in windows:
        for start in cron.minutes:
            for minute in range(start, start + min(minutes, MINUTES)):
                sizes[minute % MINUTES] = max(sizes[minute % MINUTES], size)
    return (sum(sizes, Decimal(0)) / MINUTES).quantize(_FINE)
