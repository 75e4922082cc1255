"""EC2 fleets and spot fleets: a target capacity, split between on-demand and spot, of any of several types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import (
    Number,
    is_true,
    known_number,
    read_list,
    read_number,
    read_text,
    read_value,
)
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.instance import reservation_claim
from gpufleet.cost.pricing.pricers.aws.launch import (
    LaunchOverride,
    LaunchSource,
    MachineTypes,
    find_launch_source,
    launched_part_components,
    parse_override,
    resolve_machine_types,
    with_max_price,
)
from gpufleet.cost.pricing.pricers.aws.launch_inputs import unbilled_machine
from gpufleet.cost.pricing.pricers.aws.location import PlacementInputs, find_region, parse_placement
from gpufleet.cost.pricing.pricers.aws.volume import (
    AttachedVolumes,
    attached_volume_components,
    parse_attached_volumes,
)
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.engine import StateResource, ValueMarker

COUNTS_UNITS = "its capacity counts vCPUs or memory, not machines"
UNKNOWN_CAPACITY = "its target capacity is not known until deployment"
SPECIFICATION = "launchTemplateSpecification"
FLEET_TEMPLATE_KEYS = ("launchTemplateId", "launchTemplateName")
SPOT_FLEET_TEMPLATE_KEYS = ("id", "name")


@dataclass(frozen=True)
class LaunchSpecification:
    """The parts of a machine that a spot fleet describes without a launch template."""

    volumes: AttachedVolumes
    has_public_address: bool


@dataclass(frozen=True)
class FleetInputs:
    """The inputs of an EC2 fleet or of a spot fleet request.

    ``configurations`` are the overrides of each launch template. ``template_keys`` are the inputs that refer
    to a template.
    """

    counts_machines: bool
    total: Number
    on_demand: Number
    spot: Number
    fills_with_spot: bool
    configurations: tuple[tuple[LaunchOverride, ...], ...]
    template_keys: tuple[str, str]
    max_prices: tuple[Number, ...]
    placement: PlacementInputs
    specified_types: tuple[LaunchOverride, ...] = ()
    specification: LaunchSpecification | None = None


@dataclass(frozen=True)
class _TargetCapacity:
    """How many capacity units a fleet runs on demand and on spot."""

    on_demand: Decimal
    spot: Decimal


def parse_fleet(inputs: Any) -> FleetInputs:
    """Parse an EC2 fleet."""
    target = read_value(inputs, "targetCapacitySpecification")
    configurations = _parse_configurations(inputs)
    return FleetInputs(
        counts_machines=read_text(target, "targetCapacityUnitType") in (None, "units"),
        total=read_number(target, "totalTargetCapacity"),
        on_demand=read_number(target, "onDemandTargetCapacity"),
        spot=read_number(target, "spotTargetCapacity"),
        fills_with_spot=read_text(target, "defaultTargetCapacityType") == "spot",
        configurations=configurations,
        template_keys=FLEET_TEMPLATE_KEYS,
        max_prices=(_common_max_price([each.max_price for row in configurations for each in row]),),
        placement=parse_placement(inputs),
    )


def parse_spot_fleet(inputs: Any) -> FleetInputs:
    """Parse a spot fleet request, of which a part may be on demand."""
    configurations = _parse_configurations(inputs)
    specifications = read_list(inputs, "launchSpecifications")
    return FleetInputs(
        counts_machines=read_text(inputs, "targetCapacityUnitType") in (None, "units"),
        total=read_number(inputs, "targetCapacity"),
        on_demand=read_number(inputs, "onDemandTargetCapacity"),
        spot=None,
        fills_with_spot=True,
        configurations=configurations,
        template_keys=SPOT_FLEET_TEMPLATE_KEYS,
        max_prices=(
            read_number(inputs, "spotPrice"),
            _common_max_price([each.spot_price for row in configurations for each in row]),
        ),
        placement=parse_placement(inputs),
        specified_types=tuple(map(parse_override, specifications)),
        specification=_parse_specification(specifications[0]) if specifications else None,
    )


def price_fleet(resource: StateResource, graph: Graph) -> Components:
    """Return the machines of an EC2 fleet at its target capacity, and their parts."""
    fleet = parse_fleet(resource.inputs)
    if not fleet.counts_machines:
        return [UnpricedComponent(COUNTS_UNITS, "machine")]
    if (
        not isinstance(fleet.total, Decimal)
        or isinstance(fleet.on_demand, ValueMarker)
        or isinstance(fleet.spot, ValueMarker)
    ):
        return [UnpricedComponent(UNKNOWN_CAPACITY, "machine")]
    on_demand, spot = fleet.on_demand or ZERO, fleet.spot or ZERO
    rest = max(ZERO, fleet.total - on_demand - spot)
    if fleet.fills_with_spot:
        capacity = _TargetCapacity(on_demand, spot + rest)
    else:
        capacity = _TargetCapacity(on_demand + rest, spot)
    return _launched_components(resource, fleet, capacity, graph)


def price_spot_fleet(resource: StateResource, graph: Graph) -> Components:
    """Return the machines of a spot fleet at its target capacity, and their parts."""
    fleet = parse_spot_fleet(resource.inputs)
    if not fleet.counts_machines:
        return [UnpricedComponent(COUNTS_UNITS, "machine")]
    if not isinstance(fleet.total, Decimal) or isinstance(fleet.on_demand, ValueMarker):
        return [UnpricedComponent(UNKNOWN_CAPACITY, "machine")]
    on_demand = min(fleet.total, fleet.on_demand or ZERO)
    capacity = _TargetCapacity(on_demand, fleet.total - on_demand)
    if fleet.specification is None:
        return _launched_components(resource, fleet, capacity, graph)
    types = resolve_machine_types(fleet.specified_types, None)
    machines = _machine_components(resource, fleet, capacity, types, source=None, graph=graph)
    context = _part_context(machines, types)
    return [*machines, *_specified_components(fleet.specification, context)] if context else machines


def _parse_configurations(inputs: Any) -> tuple[tuple[LaunchOverride, ...], ...]:
    configurations = read_list(inputs, "launchTemplateConfigs")
    return tuple(
        tuple(map(parse_override, read_list(configuration, "overrides")))
        for configuration in configurations
        if isinstance(configuration, Mapping)
    )


def _parse_specification(specification: Any) -> LaunchSpecification:
    """Parse a launch specification, which lists its root device."""
    root_device: Any = next(iter(read_list(specification, "rootBlockDevices")), {})
    return LaunchSpecification(
        parse_attached_volumes(specification, root_device),
        is_true(specification, "associatePublicIpAddress"),
    )


def _common_max_price(prices: list[Number]) -> Decimal | None:
    """Return the highest offer if each override has one; else the market's price is paid."""
    known_prices = [price for price in map(known_number, prices) if price is not None]
    return max(known_prices) if known_prices and len(known_prices) == len(prices) else None


def _launched_components(
    resource: StateResource, fleet: FleetInputs, capacity: _TargetCapacity, graph: Graph
) -> Components:
    """Return the machines of a fleet and their parts; every configuration offers its types."""
    sources = [
        _find_source(resource, graph, index, fleet.template_keys)
        for index in range(len(fleet.configurations))
    ]
    overrides: list[LaunchOverride] = []
    for entries, source in zip(fleet.configurations, sources, strict=True):
        if source is None or any(entry.names_types for entry in entries):
            overrides += entries
        else:
            overrides.append(LaunchOverride(source.inputs.instance_type))
    first_source = sources[0] if sources else None
    types = resolve_machine_types(overrides, first_source)
    machines = _machine_components(resource, fleet, capacity, types, source=first_source, graph=graph)
    context = _part_context(machines, types)
    if context is None:
        return machines
    return [*machines, *launched_part_components(first_source, context, resource, fleet.placement, graph)]


def _find_source(
    resource: StateResource, graph: Graph, index: int, keys: tuple[str, str]
) -> LaunchSource | None:
    """Return the launch template of one configuration; a single one may be there without its list."""
    paths: list[tuple[str | int, ...]] = [
        ("launchTemplateConfigs", index, SPECIFICATION, key) for key in keys
    ]
    if index == 0:
        paths += [("launchTemplateConfigs", SPECIFICATION, key) for key in keys]
    return find_launch_source(resource, graph, *paths)


def _machine_components(
    resource: StateResource,
    fleet: FleetInputs,
    capacity: _TargetCapacity,
    types: MachineTypes | UnpricedComponent,
    *,
    source: LaunchSource | None,
    graph: Graph,
) -> Components:
    if isinstance(types, UnpricedComponent):
        return [types]
    if source and (unbilled := unbilled_machine(source.inputs)):
        return [unbilled]
    on_demand_terms = graph.terms_of(resource, source.resource if source else None, spot=False)
    spot_terms = replace(with_max_price(on_demand_terms, *fleet.max_prices), purchase="spot")
    claim = None
    if source and not types.is_weighted:
        claim = reservation_claim(source.resource, source.inputs, graph)
    on_demand_units, spot_units = _used_capacity(resource, capacity, graph)
    region = find_region(resource, graph)
    return [
        CostComponent(
            name,
            types.names,
            "aws",
            region,
            types.machine_count(units),
            terms=terms,
            hours_per_month=terms.billed_hours,
            claim=claim if terms is on_demand_terms else None,
            count_ratios=types.count_ratios,
            capacity_units=units if types.is_weighted else None,
            weights=types.weights,
        )
        for name, units, terms in (
            ("machine:on_demand", on_demand_units, on_demand_terms),
            ("machine:spot", spot_units, spot_terms),
        )
        if units.high > 0
    ]


def _used_capacity(resource: StateResource, capacity: _TargetCapacity, graph: Graph) -> tuple[Range, Range]:
    """Return the on-demand and the spot units in use: a size in the usage file changes the spot units."""
    on_demand, spot = Range.of(capacity.on_demand), Range.of(capacity.spot)
    total = graph.resolve_size(resource, on_demand + spot)
    return (on_demand, total.minus(on_demand)) if total else (on_demand, spot)


def _part_context(machines: Components, types: MachineTypes | UnpricedComponent) -> PartContext | None:
    """Return the context of the parts of all machines, None if none can be counted."""
    components = [component for component in machines if isinstance(component, CostComponent)]
    if not components or isinstance(types, UnpricedComponent):
        return None
    counts = (
        types.possible_machine_count(each.capacity_units) if each.capacity_units else each.count
        for each in components
    )
    first = components[0]
    return PartContext("aws", first.region, first.terms.pool, Range.total(counts), first.hours_per_month)


def _specified_components(specification: LaunchSpecification, context: PartContext) -> Components:
    volumes = attached_volume_components(specification.volumes, context)
    address = [context.part_component(ADDRESS, ADDRESS)] if specification.has_public_address else []
    return [*volumes, *address]
