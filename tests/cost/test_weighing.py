"""Groups that count weights: against every combination of whole machines, tried one by one."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.cost.money import Range
from gpufleet.cost.pricing.weighted_capacity import bills, cheapest, dearest

TYPES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 30).map(Decimal)), min_size=1, max_size=3)


def tried(prices, units):
    """Return what each combination costs that holds the units and needs each of its machines."""
    found = []
    for counts in product(range(units + 1), repeat=len(prices)):
        held = sum(count * weight for count, (weight, _) in zip(counts, prices, strict=True))
        there = [weight for count, (weight, _) in zip(counts, prices, strict=True) if count]
        if held >= units and (not there or held - min(there) < units):
            found.append(sum(count * price for count, (_, price) in zip(counts, prices, strict=True)))
    return found


@given(TYPES, st.integers(0, 6))
def test_bounds_are_those_of_every_combination(prices, units):
    found = tried(prices, units)
    assert (cheapest(prices, units), dearest(prices, units)) == (min(found), max(found))


@pytest.mark.parametrize("weights", [("1.5", "2"), ("0.5",)])
def test_weights_that_are_no_whole_numbers_are_left_to_shares(weights):
    counted = tuple(Decimal(each) for each in weights)
    assert bills(Range.of(3), counted, [Range.of(1)] * len(counted)) is None


def test_thousands_of_units_are_left_to_shares():
    assert bills(Range.of(2001), (Decimal(1),), [Range.of(1)]) is None
