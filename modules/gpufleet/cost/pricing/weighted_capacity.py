"""What a group that counts weights may cost: whole machines that hold its units, and none of them too many.

A group of three units over a type of weight two and one of weight one may run one of each, three small ones
or two large ones. Machines come whole, so that a unit is never billed by the part of a machine; and no machine
of a group is one that it could do without.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

from gpufleet.cost.money import ZERO, Range

MOST_UNITS = 2000  # beyond these, whole machines hardly differ from their parts
Prices = list[tuple[int, Decimal]]  # of each type: what it counts for, and what one costs


def bills(units: Range, weights: tuple[Decimal, ...], prices: list[Range]) -> Range | None:
    """Return what so many units cost; None where weights are no whole numbers, or units too many to try."""
    whole = [int(weight) for weight in weights]
    if any(weight != asked or weight < 1 for weight, asked in zip(whole, weights, strict=True)):
        return None
    least, most = int(_up(units.low)), int(_up(units.high))
    if most > MOST_UNITS:
        return None
    low = cheapest([(weight, price.low) for weight, price in zip(whole, prices, strict=True)], least)
    high = dearest([(weight, price.high) for weight, price in zip(whole, prices, strict=True)], most)
    usual = _up(units.expected / weights[0]) * prices[0].expected
    return Range.spanning(low, usual, high)


def cheapest(prices: Prices, units: int) -> Decimal:
    """Return the least that machines holding so many units cost."""
    best = [ZERO]
    for held in range(1, units + 1):
        best.append(min(price + best[max(0, held - weight)] for weight, price in prices))
    return best[units]


def dearest(prices: Prices, units: int) -> Decimal:
    """Return the most that machines cost of which each is needed: without the smallest, units are missing."""
    if units <= 0:
        return ZERO
    ordered = sorted(prices, reverse=True)
    length = units + ordered[0][0]
    most: list[Decimal | None] = [ZERO, *[None] * length]  # by the exact sum of weights
    found = ZERO
    for weight, price in ordered:  # each in turn is the smallest of those that are there
        for held in range(weight, length):
            before = most[held - weight]
            if before is not None and (most[held] is None or before + price > (most[held] or ZERO)):
                most[held] = before + price
        for held in range(units, units + weight):
            rest = most[held - weight] if held >= weight else None
            found = max(found, ZERO if rest is None else rest + price)
    return found


def _up(amount: Decimal) -> Decimal:
    return amount.to_integral_value(ROUND_CEILING)
