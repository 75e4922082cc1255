"""How many machines a group may have."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.inputs.values import Number
from gpufleet.cost.money import ZERO, Range
from gpufleet.engine import UnreadableValue


def group_size_range(minimum: Number, desired: Number, maximum: Number) -> Range | None:
    """Return a group's size: desired between its bounds.

    A missing size is the lower bound, as in the clouds. An unknown one is expected at the upper bound, so
    that a budget errs on the safe side. Return None if that is not known either.
    """
    known_sizes = [size for size in (minimum, desired, maximum) if isinstance(size, Decimal)]
    if isinstance(desired, Decimal):
        expected = desired
    elif desired is None and isinstance(minimum, Decimal):
        expected = minimum
    elif isinstance(maximum, Decimal):
        expected = maximum
    else:
        return None
    if isinstance(maximum, UnreadableValue):
        return None
    low = ZERO if isinstance(minimum, UnreadableValue) else min(known_sizes)
    return Range.spanning(low, expected, max(known_sizes))
