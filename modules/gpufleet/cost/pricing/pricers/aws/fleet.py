"""EC2 fleets and spot fleets: a target capacity, split between on-demand and spot, of any of several types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    is_input_true,
    number_if_known,
    read_input,
    read_input_list,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.instance import make_reservation_claim
from gpufleet.cost.pricing.pricers.aws.launch import (
    LaunchableMachineTypes,
    LaunchOverride,
    LaunchSource,
    find_launch_source,
    launched_part_components,
    parse_launch_override,
    resolve_machine_types,
    with_max_spot_price,
)
from gpufleet.cost.pricing.pricers.aws.launch_inputs import unbilled_machine_components
from gpufleet.cost.pricing.pricers.aws.location import PlacementInputs, find_region, parse_placement_inputs
from gpufleet.cost.pricing.pricers.aws.volume import (
    AttachedVolumes,
    attached_volume_components,
    parse_attached_volumes,
)
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.engine import StateResource, UnreadableValue

COUNTS_UNITS = "its capacity counts vCPUs or memory, not machines"
UNKNOWN_CAPACITY = "its target capacity is not known until deployment"
SPECIFICATION = "launchTemplateSpecification"
FLEET_TEMPLATE_KEYS = ("launchTemplateId", "launchTemplateName")
SPOT_FLEET_TEMPLATE_KEYS = ("id", "name")


@dataclass(frozen=True)
class SpotFleetLaunchSpecification:
    """The parts of a machine that a spot fleet describes without a launch template."""

    volumes: AttachedVolumes
    has_public_address: bool


@dataclass(frozen=True)
class Ec2FleetInputs:
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
    specification: SpotFleetLaunchSpecification | None = None


@dataclass(frozen=True)
class _TargetCapacity:
    """How many capacity units a fleet runs on demand and on spot."""

    on_demand: Decimal
    spot: Decimal


def parse_ec2_fleet_inputs(inputs: Any) -> Ec2FleetInputs:
    """Parse an EC2 fleet."""
    target = read_input(inputs, "targetCapacitySpecification")
    configurations = _parse_configurations(inputs)
    return Ec2FleetInputs(
        counts_machines=read_input_text(target, "targetCapacityUnitType") in (None, "units"),
        total=read_input_number(target, "totalTargetCapacity"),
        on_demand=read_input_number(target, "onDemandTargetCapacity"),
        spot=read_input_number(target, "spotTargetCapacity"),
        fills_with_spot=read_input_text(target, "defaultTargetCapacityType") == "spot",
        configurations=configurations,
        template_keys=FLEET_TEMPLATE_KEYS,
        max_prices=(_common_max_price([each.max_price for row in configurations for each in row]),),
        placement=parse_placement_inputs(inputs),
    )


def parse_spot_fleet_inputs(inputs: Any) -> Ec2FleetInputs:
    """Parse a spot fleet request, of which a part may be on demand."""
    configurations = _parse_configurations(inputs)
    specifications = read_input_list(inputs, "launchSpecifications")
    return Ec2FleetInputs(
        counts_machines=read_input_text(inputs, "targetCapacityUnitType") in (None, "units"),
        total=read_input_number(inputs, "targetCapacity"),
        on_demand=read_input_number(inputs, "onDemandTargetCapacity"),
        spot=None,
        fills_with_spot=True,
        configurations=configurations,
        template_keys=SPOT_FLEET_TEMPLATE_KEYS,
        max_prices=(
            read_input_number(inputs, "spotPrice"),
            _common_max_price([each.spot_price for row in configurations for each in row]),
        ),
        placement=parse_placement_inputs(inputs),
        specified_types=tuple(map(parse_launch_override, specifications)),
        specification=_parse_specification(specifications[0]) if specifications else None,
    )


def price_ec2_fleet(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines of an EC2 fleet at its target capacity, and their parts."""
    fleet = parse_ec2_fleet_inputs(resource.inputs)
    if not fleet.counts_machines:
        return [UnpricedComponent(COUNTS_UNITS, "machine")]
    if (
        not isinstance(fleet.total, Decimal)
        or isinstance(fleet.on_demand, UnreadableValue)
        or isinstance(fleet.spot, UnreadableValue)
    ):
        return [UnpricedComponent(UNKNOWN_CAPACITY, "machine")]
    on_demand, spot = fleet.on_demand or ZERO, fleet.spot or ZERO
    rest = max(ZERO, fleet.total - on_demand - spot)
    if fleet.fills_with_spot:
        capacity = _TargetCapacity(on_demand, spot + rest)
    else:
        capacity = _TargetCapacity(on_demand + rest, spot)
    return _launched_components(resource, fleet, capacity, graph)


def price_spot_fleet(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines of a spot fleet at its target capacity, and their parts."""
    fleet = parse_spot_fleet_inputs(resource.inputs)
    if not fleet.counts_machines:
        return [UnpricedComponent(COUNTS_UNITS, "machine")]
    if not isinstance(fleet.total, Decimal) or isinstance(fleet.on_demand, UnreadableValue):
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
    configurations = read_input_list(inputs, "launchTemplateConfigs")
    return tuple(
        tuple(map(parse_launch_override, read_input_list(configuration, "overrides")))
        for configuration in configurations
        if isinstance(configuration, Mapping)
    )


def _parse_specification(specification: Any) -> SpotFleetLaunchSpecification:
    """Parse a launch specification, which lists its root device."""
    root_device: Any = next(iter(read_input_list(specification, "rootBlockDevices")), {})
    return SpotFleetLaunchSpecification(
        parse_attached_volumes(specification, root_device),
        is_input_true(specification, "associatePublicIpAddress"),
    )


def _common_max_price(prices: list[Number]) -> Decimal | None:
    """Return the highest offer if each override has one; else the market's price is paid."""
    known_prices = [price for price in map(number_if_known, prices) if price is not None]
    return max(known_prices) if known_prices and len(known_prices) == len(prices) else None


def _launched_components(
    resource: StateResource, fleet: Ec2FleetInputs, capacity: _TargetCapacity, graph: ResourceGraph
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
    resource: StateResource, graph: ResourceGraph, index: int, keys: tuple[str, str]
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
    fleet: Ec2FleetInputs,
    capacity: _TargetCapacity,
    types: LaunchableMachineTypes | UnpricedComponent,
    *,
    source: LaunchSource | None,
    graph: ResourceGraph,
) -> Components:
    if isinstance(types, UnpricedComponent):
        return [types]
    unbilled = unbilled_machine_components(source.inputs, graph, source.resource) if source else None
    if unbilled is not None:
        return unbilled
    on_demand_terms = graph.purchase_terms_of(resource, source.resource if source else None, spot=False)
    spot_terms = replace(with_max_spot_price(on_demand_terms, *fleet.max_prices), purchase="spot")
    claim = None
    if source and not types.is_capacity_weighted:
        claim = make_reservation_claim(source.resource, source.inputs, graph)
    on_demand_units, spot_units = _used_capacity(resource, capacity, graph)
    region = find_region(resource, graph)
    return [
        CostComponent(
            name,
            types.names,
            "aws",
            region,
            types.machine_count_for_units(units),
            terms=terms,
            hours_per_month=terms.billed_hours_per_month,
            claim=claim if terms is on_demand_terms else None,
            count_ratios=types.machine_count_ratios,
            capacity_units=units if types.is_capacity_weighted else None,
            weights=types.weights,
        )
        for name, units, terms in (
            ("machine:on_demand", on_demand_units, on_demand_terms),
            ("machine:spot", spot_units, spot_terms),
        )
        if units.high > 0
    ]


def _used_capacity(
    resource: StateResource, capacity: _TargetCapacity, graph: ResourceGraph
) -> tuple[Range, Range]:
    """Return the on-demand and the spot units in use: a size in the usage file changes the spot units."""
    on_demand, spot = Range.from_exact_value(capacity.on_demand), Range.from_exact_value(capacity.spot)
    total = graph.resolve_group_size(resource, on_demand + spot)
    return (on_demand, total.subtract_down_to_zero(on_demand)) if total else (on_demand, spot)


def _part_context(
    machines: Components, types: LaunchableMachineTypes | UnpricedComponent
) -> MachinePartContext | None:
    """Return the context of the parts of all machines, None if none can be counted."""
    components = [component for component in machines if isinstance(component, CostComponent)]
    if not components or isinstance(types, UnpricedComponent):
        return None
    counts = (
        types.machine_count_range_for_units(each.capacity_units) if each.capacity_units else each.count
        for each in components
    )
    first = components[0]
    return MachinePartContext(
        "aws", first.region, first.terms.pool, Range.sum_ranges(counts), first.hours_per_month
    )


def _specified_components(
    specification: SpotFleetLaunchSpecification, context: MachinePartContext
) -> Components:
    volumes = attached_volume_components(specification.volumes, context)
    address = [context.make_part_component(ADDRESS, ADDRESS)] if specification.has_public_address else []
    return [*volumes, *address]
