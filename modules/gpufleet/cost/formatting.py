"""Money and counts in words, the same in every report."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.money import Range, round_hourly_rate, round_to_cents


def usd(amount: Decimal, *, sign: bool = False) -> str:
    """Write dollars and cents: $1,234.50; with ``sign`` +$1,234.50 or -$1,234.50."""
    rounded = round_to_cents(amount)
    mark = "-" if rounded < 0 else "+" if sign and rounded > 0 else ""
    return f"{mark}${abs(rounded):,.2f}"


def rate(amount: Decimal) -> str:
    """Write an hourly rate as price lists do, with up to six digits after the point: $0.43632."""
    digits = f"{round_hourly_rate(amount):f}".rstrip("0")
    whole, _, fraction = digits.partition(".")
    return f"${int(whole):,}.{fraction.ljust(2, '0')}"


def rates(amounts: Range) -> str:
    """Write a range of hourly rates, the expected one first: $0.45 ($0.44 to $0.47)."""
    if amounts.is_exact:
        return rate(amounts.expected)
    return f"{rate(amounts.expected)} ({rate(amounts.low)} to {rate(amounts.high)})"


def span(amounts: Range, joined: str = " to ") -> str:
    """Write a range of dollars, or the one value that it is; ``joined`` " and " goes with between."""
    if amounts.is_exact:
        return usd(amounts.expected)
    return f"{usd(amounts.low)}{joined}{usd(amounts.high)}"


def count(amounts: Range) -> str:
    """Write a quantity: 4, or 1 (0-4) where it may vary."""
    if amounts.is_exact:
        return number(amounts.expected)
    return f"{number(amounts.expected)} ({number(amounts.low)}-{number(amounts.high)})"


def number(value: Decimal) -> str:
    """Write a number without trailing zeros or an exponent."""
    return f"{value.normalize():f}"


def printable(text: str) -> str:
    """Return what a program named as a reader may see it: escapes and the like ruin terminals and plots."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " if each.isspace() else "\ufffd" for each in text)


def percent(value: Decimal | None) -> str:
    """Write a percentage with its sign; where there was nothing before, say so."""
    return "from nothing" if value is None else f"{value:+}%"
