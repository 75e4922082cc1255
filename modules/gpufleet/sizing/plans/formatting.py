"""Figures as people read them."""

from __future__ import annotations

SMALLEST = 1e-4  # below it, three digits would have an exponent


def format_three_digits(value: float | None) -> str:
    """Return a figure with three significant digits and never an exponent, "-" for None."""
    if value is None:
        return "-"
    if value >= 100:  # noqa: PLR2004 - three digits before the point
        return f"{float(f'{value:.3g}'):,.0f}"
    if 0 < value < SMALLEST:
        return f"{value:.10f}".rstrip("0")
    return f"{value:.3g}"


def format_two_digits(value: float) -> str:
    """Return a figure with two significant digits, and never an exponent."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 10 else f"{value:.2g}"  # noqa: PLR2004 - two digits


def format_usd(value: float | None) -> str:
    """Return an amount of money: whole dollars from ten on, cents below, "-" for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 10 else f"{value:,.2f}"  # noqa: PLR2004 - ten dollars


def format_usd_range(low: float | None, high: float | None) -> str:
    """Return the range of a price, or that no price is known."""
    if low is None or high is None:
        return "no price known"
    return format_usd(low) if low == high else f"{format_usd(low)}-{format_usd(high)}"


def format_seconds(seconds: float) -> str:
    """Return a duration: milliseconds with up to four digits below ten seconds, seconds from there on."""
    if seconds >= 10:  # noqa: PLR2004 - ten seconds
        return f"{format_three_digits(seconds)} s"
    return f"{seconds * 1000:.4g} ms"
