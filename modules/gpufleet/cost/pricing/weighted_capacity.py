"""What a group that counts weighted capacity units may cost, in whole machines and without a superfluous one.

A group of three units, of a type with weight two and one with weight one, may run one of each, three small
machines or two large ones. A machine is never billed in part, and a group never runs a machine that it could
do without.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

from gpufleet.cost.money import ZERO, Range

MAX_UNITS = 2000  # beyond these, rounding to whole machines hardly matters
WeightedPrices = list[tuple[int, Decimal]]  # of each type: its weight, and the price of one machine


def weighted_capacity_cost(units: Range, weights: tuple[Decimal, ...], prices: list[Range]) -> Range | None:
    """Return what so many units cost; None if weights are not whole numbers, or there are too many units."""
    whole_weights = [int(weight) for weight in weights]
    if any(whole != weight or whole < 1 for whole, weight in zip(whole_weights, weights, strict=True)):
        return None
    least, most = int(_round_up(units.low)), int(_round_up(units.high))
    if most > MAX_UNITS:
        return None
    low_prices = [(weight, price.low) for weight, price in zip(whole_weights, prices, strict=True)]
    high_prices = [(weight, price.high) for weight, price in zip(whole_weights, prices, strict=True)]
    expected = _round_up(units.expected / weights[0]) * prices[0].expected
    return Range.spanning(
        minimum_capacity_cost(low_prices, least), expected, maximum_capacity_cost(high_prices, most)
    )


def minimum_capacity_cost(prices: WeightedPrices, units: int) -> Decimal:
    """Return the lowest cost of machines with at least so many units."""
    cost_by_units = [ZERO]
    for total in range(1, units + 1):
        cost_by_units.append(min(price + cost_by_units[max(0, total - weight)] for weight, price in prices))
    return cost_by_units[units]


def maximum_capacity_cost(prices: WeightedPrices, units: int) -> Decimal:
    """Return the highest cost of machines that are all needed: without the smallest, units are missing."""
    if units <= 0:
        return ZERO
    ordered = sorted(prices, reverse=True)
    length = units + ordered[0][0]
    cost_by_units: list[Decimal | None] = [ZERO, *[None] * length]  # by the exact sum of weights
    highest = ZERO
    for weight, price in ordered:  # each in turn is the smallest type of the group
        for total in range(weight, length):
            cost = cost_by_units[total - weight]
            current = cost_by_units[total]
            if cost is not None and (current is None or cost + price > current):
                cost_by_units[total] = cost + price
        for total in range(units, units + weight):
            cost = cost_by_units[total - weight] if total >= weight else None
            highest = max(highest, ZERO if cost is None else cost + price)
    return highest


def _round_up(amount: Decimal) -> Decimal:
    return amount.to_integral_value(ROUND_CEILING)
