"""Recurring actions (five-field cron), and what they make of a group's size over a week.

Fields hold numbers, names of weekdays, lists, ranges and steps. A day of the month or a month makes the week
no measure; such an action is a ValueError, and its group's size a range.
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
class Cron:
    """The minutes of a week, Sunday's first, at which something happens."""

    minutes: frozenset[int]


def load_cron(text: str) -> Cron:
    """Read a cron expression whose days recur weekly."""
    words = text.lower().split()
    if len(words) != FIELDS:
        raise ValueError(f"{text!r} is not a cron expression of five fields")
    minute, hour, day, month, weekday = words
    if day not in ("*", "?") or month != "*":
        raise ValueError(f"{text!r} does not recur weekly")
    days = {at % 7 for at in _field(weekday, 0, 7)}
    hours, minutes = _field(hour, 0, 23), _field(minute, 0, 59)
    return Cron(frozenset((d * 24 + h) * 60 + m for d in days for h in hours for m in minutes))


def _field(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\*|\?|\w+)(?:-(\w+))?(?:/(\d+))?", part)
        if not match:
            raise ValueError(f"{part!r} in a cron expression is not understood")
        first, last, step = match.groups()
        start = low if first in ("*", "?") else _number(first)
        end = high if first in ("*", "?") or (step and not last) else _number(last or first)
        if not (low <= start <= end <= high) or step == "0":
            raise ValueError(f"{part!r} in a cron expression is out of range")
        found |= set(range(start, end + 1, int(step or 1)))
    return found


def _number(text: str) -> int:
    if text in WEEKDAYS:
        return WEEKDAYS[text]
    if not text.isdecimal():
        raise ValueError(f"{text!r} in a cron expression is not understood")
    return int(text)


def average(actions: Iterable[tuple[Cron, Decimal]]) -> Decimal | None:
    """Return the size that a group has on average, when each action sets it; None where none ever does."""
    changes = sorted((minute, size) for cron, size in actions for minute in cron.minutes)
    if not changes:
        return None
    total = Decimal(0)
    for at, (minute, size) in enumerate(changes):
        until = changes[at + 1][0] if at + 1 < len(changes) else changes[0][0] + MINUTES
        total += size * (until - minute)
    return (total / MINUTES).quantize(_FINE)


def raised(windows: Iterable[tuple[Cron, int, Decimal]], usual: Decimal) -> Decimal:
    """Return the average size, where each window (start, minutes, size) asks for at least its size."""
    sizes = [usual] * MINUTES
    for cron, minutes, size in windows:
        for start in cron.minutes:
            for at in range(start, start + min(minutes, MINUTES)):
                sizes[at % MINUTES] = max(sizes[at % MINUTES], size)
    return (sum(sizes, Decimal(0)) / MINUTES).quantize(_FINE)
