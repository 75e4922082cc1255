"""Application Auto Scaling: the bounds between which it changes how many a service runs."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.inputs.values import Number
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.reader import Reader

SCALING_TARGET = "aws:appautoscaling/target:Target"


def find_scaled_range(service: Reader, declared: Decimal | None) -> Range | None:
    """Return the declared number between the bounds of a service's autoscaling; at most that if it is not known."""
    for each in service.graph.find_referring_resources(service.resource, ("resourceId",), SCALING_TARGET):
        target = service.reading(each)
        return make_scaled_range(
            target.find_number("minCapacity"), target.find_number("maxCapacity"), declared
        )
    return None if declared is None else Range.from_exact_value(declared)


def make_scaled_range(low: Number, high: Number, declared: Decimal | None) -> Range | None:
    """Return the declared number between the bounds, at most that if it is not known; as declared without bounds."""
    if isinstance(low, Decimal) and isinstance(high, Decimal) and low <= high:
        return Range(low, high if declared is None else min(max(declared, low), high), high)
    return None if declared is None else Range.from_exact_value(declared)
