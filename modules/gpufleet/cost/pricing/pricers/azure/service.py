"""What pricers share that are not on the reader yet: units, sizes, and inputs of the classic provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    read_input,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import (
    Components,
    CostComponent,
    MachinePartContext,
    UnpricedComponent,
)
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.engine import StateResource, UnreadableValue


def resolve_units(units: Number, maximum: Number, default: Decimal) -> Range | UnreadableValue:
    """Return how many units bill: those declared, up to the maximum if Azure adds some."""
    if isinstance(units, UnreadableValue) or isinstance(maximum, UnreadableValue):
        return UnreadableValue.UNKNOWN
    count = units or default  # 0 is how the classic provider writes a tier without units
    return Range.spanning(count, count, count if maximum is None else max(count, maximum))


def units_component(
    component: str, item: str, units: Range | UnreadableValue, context: MachinePartContext
) -> CostComponent | UnpricedComponent:
    """Return the component of so many units, or why their number is not known."""
    if isinstance(units, UnreadableValue):
        return UnpricedComponent(f"the number of its units is {MARKER_REASONS[units]}", component)
    return replace(context, count=units).make_part_component(component, item)


def sized_component(
    component: str, item: str, size: Number, context: MachinePartContext, description: str = "size"
) -> CostComponent | UnpricedComponent:
    """Return the component of so many GiB or other units, or why their number is not known."""
    if isinstance(size, Decimal):
        return context.make_part_component(component, item, size)
    reason = MARKER_REASONS[size] if isinstance(size, UnreadableValue) else "not set: Azure chooses it"
    return UnpricedComponent(f"its {description} is {reason}", component)


def translated(
    pricer: Pricer, moves: Mapping[str, str], constants: Mapping[str, Any] | None = None
) -> Pricer:
    """Return the pricer for inputs of other names: ``moves`` are dotted paths, from theirs to the pricer's own."""

    def translate(inputs: Any) -> Any:
        translation = {**inputs}
        for path, value in (constants or {}).items():
            _write(translation, path, value)
        for source, target in moves.items():
            value = read_input(inputs, *(int(step) if step.isdigit() else step for step in source.split(".")))
            if value is not None:
                _write(translation, target, value)
        return translation

    return with_inputs(pricer, translate)


def with_inputs(pricer: Pricer, translate: Callable[[Any], Any]) -> Pricer:
    """Return the pricer for inputs that ``translate`` turns into the pricer's own."""

    def price_translated(resource: StateResource, graph: ResourceGraph) -> Components:
        return pricer(replace(resource, inputs=translate(resource.inputs)), graph)

    return price_translated


def _write(inputs: dict[str, Any], path: str, value: Any) -> None:
    """Write a value at a dotted path, without changing what the inputs share with the resource's own."""
    *parents, name = path.split(".")
    for parent in parents:
        child = inputs.get(parent)
        inputs[parent] = {**child} if isinstance(child, dict) else {}
        inputs = inputs[parent]
    inputs[name] = value
