"""Exact money: decimals inside, rounded only for output.

Prices enter as the decimal that a person would read (``21.957642``). They are multiplied and summed exactly,
and rounded once, half up, for output: months to cents, hours to millionths. A change is the difference of the
two rounded months, so that the printed figures add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal

from gpufleet.catalog import HOURS_PER_MONTH as CATALOG_HOURS

HOURS_PER_MONTH = Decimal(CATALOG_HOURS)
ZERO = Decimal(0)
_CENT = Decimal("0.01")
_MILLIONTH = Decimal("0.000001")


def to_decimal(value: float | str | Decimal) -> Decimal:
    """Return the decimal that ``value`` is written as, without binary rounding."""
    return value if isinstance(value, Decimal) else Decimal(str(value))


def round_to_cents(amount: Decimal) -> Decimal:
    """Round to cents, half up."""
    return amount.quantize(_CENT, ROUND_HALF_UP)


def round_hourly_rate(amount: Decimal) -> Decimal:
    """Round an hourly rate to millionths, half up: the precision that price lists use."""
    return amount.quantize(_MILLIONTH, ROUND_HALF_UP)


def round_parts_to_total(parts: Sequence[Decimal], total: Decimal) -> list[Decimal]:
    """Round amounts to cents so that they add up to ``total`` exactly: the largest remainders get the odd cents."""
    floors = [part.quantize(_CENT, ROUND_FLOOR) for part in parts]
    odd_cents = int((total - sum(floors, ZERO)) / _CENT)
    by_remainder = sorted(range(len(parts)), key=lambda at: floors[at] - parts[at])
    for number in range(abs(odd_cents) if parts else 0):
        floors[by_remainder[number % len(parts)]] += _CENT.copy_sign(odd_cents)
    return floors


@dataclass(frozen=True)
class Range:
    """An expected value and its bounds. No value is negative."""

    low: Decimal
    expected: Decimal
    high: Decimal

    def __post_init__(self) -> None:
        if not ZERO <= self.low <= self.expected <= self.high:
            raise ValueError(f"not a range: {self.low} .. {self.expected} .. {self.high}")

    @classmethod
    def from_exact_value(cls, value: float | str | Decimal) -> Range:
        """Return the range that is one value."""
        amount = to_decimal(value)
        return cls(amount, amount, amount)

    @classmethod
    def spanning(cls, low: Decimal, expected: Decimal, high: Decimal) -> Range:
        """Return a range from values that may be out of order: it always includes ``expected``."""
        return cls(min(low, expected), expected, max(high, expected))

    @classmethod
    def sum_ranges(cls, parts: Iterable[Range]) -> Range:
        """Sum ranges; of none the sum is zero."""
        result = ZERO_RANGE
        for part in parts:
            result += part
        return result

    @property
    def is_exact(self) -> bool:
        """True if low and high are the same."""
        return self.low == self.high

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def __mul__(self, other: Range | Decimal | int) -> Range:
        by = other if isinstance(other, Range) else Range.from_exact_value(other)
        return Range(self.low * by.low, self.expected * by.expected, self.high * by.high)

    def subtract_down_to_zero(self, other: Range) -> Range:
        """Return the difference per scenario, never below zero."""
        low, expected, high = (
            max(ZERO, left - right)
            for left, right in (
                (self.low, other.low),
                (self.expected, other.expected),
                (self.high, other.high),
            )
        )
        return Range(min(low, expected, high), expected, max(low, expected, high))


ZERO_RANGE = Range(ZERO, ZERO, ZERO)
ONE = Range.from_exact_value(1)
