"""Test the cost of weighted groups against every combination of complete machines."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.cost.money import Range
from gpufleet.cost.pricing.weighted_capacity import (
    maximum_capacity_cost,
    minimum_capacity_cost,
    weighted_capacity_cost,
)

TYPES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 30).map(Decimal)), min_size=1, max_size=3)


def combination_costs(prices, units):
    """Return the cost of each combination that has the units and needs each of its machines."""
    costs = []
    for counts in product(range(units + 1), repeat=len(prices)):
        total = sum(count * weight for count, (weight, _) in zip(counts, prices, strict=True))
        weights = [weight for count, (weight, _) in zip(counts, prices, strict=True) if count]
        if total >= units and (not weights or total - min(weights) < units):
            costs.append(sum(count * price for count, (_, price) in zip(counts, prices, strict=True)))
    return costs


@given(TYPES, st.integers(0, 6))
def test_bounds_match_those_of_every_combination(prices, units):
    costs = combination_costs(prices, units)
    assert (minimum_capacity_cost(prices, units), maximum_capacity_cost(prices, units)) == (
        min(costs),
        max(costs),
    )


@pytest.mark.parametrize("weights", [("1.5", "2"), ("0.5",)])
def test_fractional_weights_are_not_priced_as_complete_machines(weights):
    decimals = tuple(Decimal(weight) for weight in weights)
    assert (
        weighted_capacity_cost(
            Range.from_exact_value(3), decimals, [Range.from_exact_value(1)] * len(decimals)
        )
        is None
    )


def test_thousands_of_units_are_not_priced_as_complete_machines():
    assert (
        weighted_capacity_cost(Range.from_exact_value(2001), (Decimal(1),), [Range.from_exact_value(1)])
        is None
    )
