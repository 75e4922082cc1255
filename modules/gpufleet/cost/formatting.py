"""Format money and counts, the same in every report."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from gpufleet.cost.money import Range, round_hourly_rate, round_to_cents

_AMOUNT_DECIMALS = 3
_THOUSANDTH = Decimal(1).scaleb(-_AMOUNT_DECIMALS)


def format_usd(amount: Decimal, *, show_sign: bool = False) -> str:
    """Return dollars and cents: $1,234.50; with ``show_sign`` +$1,234.50 or -$1,234.50."""
    rounded = round_to_cents(amount)
    mark = "-" if rounded < 0 else "+" if show_sign and rounded > 0 else ""
    return f"{mark}${abs(rounded):,.2f}"


def round_for_json(amount: Decimal) -> float:
    """Return dollars and cents as JSON has them."""
    return float(round_to_cents(amount))


def format_hourly_rate(amount: Decimal) -> str:
    """Return an hourly rate with up to six decimals: $0.43632."""
    digits = f"{round_hourly_rate(amount):f}".rstrip("0")
    integer_part, _, fraction = digits.partition(".")
    return f"${int(integer_part):,}.{fraction.ljust(2, '0')}"


def format_hourly_rate_range(amounts: Range) -> str:
    """Return a range of hourly rates, the expected one first: $0.45 ($0.44 to $0.47)."""
    if amounts.is_exact:
        return format_hourly_rate(amounts.expected)
    low, expected, high = map(format_hourly_rate, (amounts.low, amounts.expected, amounts.high))
    return f"{expected} ({low} to {high})"


def format_usd_range(amounts: Range, separator: str = " to ") -> str:
    """Return a range of dollars, or one amount if it is exact."""
    if amounts.is_exact:
        return format_usd(amounts.expected)
    return f"{format_usd(amounts.low)}{separator}{format_usd(amounts.high)}"


def format_quantity_range(amounts: Range) -> str:
    """Return a quantity: 4, or 1 (0-4) if it may vary."""
    if amounts.is_exact:
        return format_number(amounts.expected)
    return f"{format_number(amounts.expected)} ({format_number(amounts.low)}-{format_number(amounts.high)})"


def format_number(value: Decimal) -> str:
    """Return a number without trailing zeros or an exponent."""
    return f"{value.normalize():f}"


def format_amount(value: Decimal) -> str:
    """Return an amount with thousands separators and at most three decimals: 600,000."""
    exponent = value.as_tuple().exponent
    is_fine = isinstance(exponent, int) and exponent < -_AMOUNT_DECIMALS
    return f"{(value.quantize(_THOUSANDTH, ROUND_HALF_UP) if is_fine else value).normalize():,f}"


def replace_control_characters(text: str) -> str:
    """Return text with control characters replaced: they break terminals and plots."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else " " if character.isspace() else "\ufffd"
        for character in text
    )


def format_percent_change(value: Decimal | None) -> str:
    """Return a percentage with its sign, "from nothing" for None."""
    return "from nothing" if value is None else f"{value:+}%"
