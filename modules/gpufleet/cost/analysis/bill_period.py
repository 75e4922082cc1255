"""The time that billing exports cover, and what a declared charge costs in that time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache

from gpufleet import catalog
from gpufleet.cost.money import HOURS_PER_MONTH, ZERO
from gpufleet.cost.pricing.bill import Charge

DECEMBER = 12
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class BillPeriod:
    """From the first to the last moment of the billed usage."""

    start: datetime
    end: datetime

    @property
    def hours(self) -> Decimal:
        """Return the hours of the period: 744 of October."""
        return count_hours(self.start, self.end)

    @property
    def months(self) -> Decimal:
        """Return how many calendar months the period has, each day as a share of its own month."""
        total, start = ZERO, self.start
        while start < self.end:
            first, next_month = _find_month(start)
            end = min(self.end, next_month)
            total += count_hours(start, end) / count_hours(first, next_month)
            start = end
        return total

    def count_usd(self, charge: Charge) -> Decimal:
        """Return a declared charge's cost in the period.

        What runs all the time bills each hour. Planned hours, and what has a price for a month, bill their share of the
        calendar month: a disk costs the same in February and in March.
        """
        if _is_hourly(charge):
            return charge.usd_per_hour.expected * self.hours
        return charge.usd_per_month.expected * self.months

    def count_machine_hours(self, charge: Charge) -> Decimal:
        """Return the hours of a declared charge's machines in the period."""
        hours = self.hours if _is_hourly(charge) else charge.hours_per_month * self.months
        return charge.quantity.expected * hours


def _is_hourly(charge: Charge) -> bool:
    """Return whether a charge bills each hour of a month, however many there are."""
    is_monthly = charge.monthly_use is not None or charge.item in catalog.list_parts_billed_by_month()
    return charge.hours_per_month == HOURS_PER_MONTH and not is_monthly


def _find_month(moment: datetime) -> tuple[datetime, datetime]:
    """Return the first moment of a moment's month and of the next."""
    year, month = (moment.year + 1, 1) if moment.month == DECEMBER else (moment.year, moment.month + 1)
    return datetime(moment.year, moment.month, 1, tzinfo=UTC), datetime(year, month, 1, tzinfo=UTC)


def count_hours(start: datetime, end: datetime) -> Decimal:
    """Return the hours between two moments."""
    return Decimal((end - start).total_seconds()) / SECONDS_PER_HOUR


@lru_cache(maxsize=4096)
def list_months(start: datetime, end: datetime) -> tuple[tuple[int, int], ...]:
    """Return the year and the month of each month from one moment to another, without one that begins at the end."""
    first = start.year * DECEMBER + start.month - 1
    last = end.year * DECEMBER + end.month - 1
    if end > start and end == end.replace(day=1, hour=0, minute=0, second=0, microsecond=0):
        last -= 1
    return tuple((number // DECEMBER, number % DECEMBER + 1) for number in range(first, last + 1))
