"""Services that bill units of a tier around the clock, as most managed ones of Azure do, and what they bill by use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from math import prod
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    read_input,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import (
    Components,
    CostComponent,
    MachinePartContext,
    UnpricedComponent,
)
from gpufleet.cost.pricing.pricers.azure.location import standalone_part_context
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.engine import StateResource, UnreadableValue

ONE_UNIT = Decimal(1)
GLOBAL = "global"  # the region of services that have none, such as DNS


@dataclass(frozen=True)
class UsageMeter:
    """What a service bills by use; ``usage_key`` is of ``data/usage_keys.csv``, ``tiers`` those that bill it."""

    component: str
    item: str
    usage_key: str
    is_stored: bool = False
    tiers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TieredService:
    """A service that bills a number of units of its tier around the clock.

    ``item`` is the name in the price list: ``{tier}`` is the tier in lower case; an empty item bills by use alone.
    ``tier_paths`` are dotted paths of inputs, joined by an underscore; ``default_tier`` is what Azure takes without
    them. ``free_tiers`` have no hourly price. ``units_path`` may be several paths, whose product counts, with ``*``
    between them. ``maximum_path`` is the upper bound of units if Azure adds them.
    """

    component: str
    item: str
    tier_paths: tuple[str, ...] = ()
    default_tier: str = ""
    free_tiers: frozenset[str] = frozenset()
    units_path: str = ""
    default_units: Decimal = ONE_UNIT
    maximum_path: str = ""
    meters: tuple[UsageMeter, ...] = ()
    is_global: bool = False


@dataclass(frozen=True)
class TieredServiceInputs:
    """The tier and the units that a program asks for."""

    tier: Text
    units: Number
    maximum: Number


def parse_tiered_service_inputs(inputs: Any, service: TieredService) -> TieredServiceInputs:
    """Parse the tier and the units of a service."""
    texts = [read_input_text(inputs, *path.split(".")) for path in service.tier_paths]
    return TieredServiceInputs(
        tier=_join_tier(texts, service.default_tier),
        units=_read_product(inputs, service.units_path),
        maximum=_read_product(inputs, service.maximum_path),
    )


def tiered_service_pricer(service: TieredService) -> Pricer:
    """Return the pricer of a service."""

    def price_tiered_service(resource: StateResource, graph: ResourceGraph) -> Components:
        context = standalone_part_context(resource, graph)
        if service.is_global:
            context = replace(context, region=GLOBAL)
        inputs = parse_tiered_service_inputs(resource.inputs, service)
        if service.tier_paths and not isinstance(inputs.tier, str):
            reason = MARKER_REASONS[inputs.tier] if isinstance(inputs.tier, UnreadableValue) else "not set"
            return [UnpricedComponent(f"its tier is {reason}", service.component)]
        tier = inputs.tier if isinstance(inputs.tier, str) else ""
        components: Components = []
        if service.item and tier not in service.free_tiers:
            units = resolve_units(inputs.units, inputs.maximum, service.default_units)
            item = service.item.format(tier=tier)
            components.append(units_component(service.component, item, units, context))
        usage = graph.usage_of_resource(resource)
        for meter in service.meters:
            if not meter.tiers or tier in meter.tiers:
                item, key = meter.item.format(tier=tier), meter.usage_key
                component = context.make_usage_component(
                    meter.component, item, key, usage, is_stored=meter.is_stored
                )
                components.append(component)
        return components

    return price_tiered_service


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


def _read_product(inputs: Any, paths: str) -> Number:
    """Return the product of the numbers at these paths; None if none of them is set."""
    numbers = [read_input_number(inputs, *path.split(".")) for path in paths.split("*") if path]
    if any(isinstance(number, UnreadableValue) for number in numbers):
        return UnreadableValue.UNKNOWN
    known = [number for number in numbers if isinstance(number, Decimal)]
    return prod(known, start=ONE_UNIT) if known else None


def _join_tier(texts: list[Text], default: str) -> Text:
    if marker := next((text for text in texts if isinstance(text, UnreadableValue)), None):
        return marker
    known = [text.lower() for text in texts if isinstance(text, str)]
    return "_".join(known) if texts and len(known) == len(texts) else default.lower() or None


def _write(inputs: dict[str, Any], path: str, value: Any) -> None:
    """Write a value at a dotted path, without changing what the inputs share with the resource's own."""
    *parents, name = path.split(".")
    for parent in parents:
        child = inputs.get(parent)
        inputs[parent] = {**child} if isinstance(child, dict) else {}
        inputs = inputs[parent]
    inputs[name] = value
