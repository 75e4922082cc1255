"""Auto Scaling groups: machines of their launch template, split between on-demand and spot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import (
    Number,
    known_text,
    read_list,
    read_marker,
    read_number,
    read_text,
    read_value,
)
from gpufleet.cost.money import ZERO_RANGE
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.instance import reservation_claim
from gpufleet.cost.pricing.pricers.aws.launch import (
    LaunchOverride,
    convert_units_to_machines,
    find_launch_source,
    launched_part_components,
    parse_override,
    resolve_machine_types,
    with_max_price,
)
from gpufleet.cost.pricing.pricers.aws.launch_inputs import unbilled_machine
from gpufleet.cost.pricing.pricers.aws.location import (
    PlacementInputs,
    find_region,
    find_zones,
    parse_placement,
)
from gpufleet.cost.pricing.pricers.aws.schedule import apply_schedules
from gpufleet.cost.pricing.pricers.group_size import size_range
from gpufleet.cost.pricing.pricers.purchase_mix import PurchaseMix, split_by_purchase
from gpufleet.cost.pricing.pricers.required_input import unreadable_components
from gpufleet.engine import StateResource, ValueMarker

STANDBY = "standby"  # the tag of a group that stays empty until spot machines are missing
MIXED = ("mixedInstancesPolicy", "launchTemplate")
SPECIFICATION = (*MIXED, "launchTemplateSpecification")
TEMPLATE_PATHS: tuple[tuple[str | int, ...], ...] = (
    (*SPECIFICATION, "launchTemplateId"),
    (*SPECIFICATION, "launchTemplateName"),
    ("launchTemplate", "id"),
    ("launchTemplate", "name"),
    ("launchConfiguration",),
)
DISTRIBUTION = ("mixedInstancesPolicy", "instancesDistribution")


@dataclass(frozen=True)
class GroupInputs:
    """The inputs of an Auto Scaling group."""

    counts_machines: bool
    min_size: Number
    desired_capacity: Number
    max_size: Number
    overrides: tuple[LaunchOverride, ...]
    hidden_overrides: ValueMarker | None
    purchase_mix: PurchaseMix | None
    max_spot_price: Number
    warm_pool_state: str | None
    placement: PlacementInputs


def parse_group(inputs: Any) -> GroupInputs:
    """Parse an Auto Scaling group."""
    distribution = read_value(inputs, *DISTRIBUTION)
    warm_pool = read_value(inputs, "warmPool")
    return GroupInputs(
        counts_machines=read_value(inputs, "desiredCapacityType") in (None, "units"),
        min_size=read_number(inputs, "minSize"),
        desired_capacity=read_number(inputs, "desiredCapacity"),
        max_size=read_number(inputs, "maxSize"),
        overrides=tuple(map(parse_override, read_list(inputs, *MIXED, "overrides"))),
        hidden_overrides=read_marker(inputs, *MIXED, "overrides"),
        purchase_mix=None
        if distribution is None
        else PurchaseMix(
            read_number(distribution, "onDemandBaseCapacity"),
            read_number(distribution, "onDemandPercentageAboveBaseCapacity"),
        ),
        max_spot_price=read_number(distribution, "spotMaxPrice"),
        warm_pool_state=None
        if warm_pool is None
        else known_text(read_text(warm_pool, "poolState")) or "Stopped",
        placement=parse_placement(inputs),
    )


def price_group(resource: StateResource, graph: Graph) -> Components:
    """Return a group's machines and their parts, between its minimum and maximum size."""
    group = parse_group(resource.inputs)
    if not group.counts_machines:
        return [UnpricedComponent("its size counts vCPUs or memory, not machines", "machine")]
    source = find_launch_source(resource, graph, *TEMPLATE_PATHS)
    declared_size = size_range(group.min_size, group.desired_capacity, group.max_size)
    scheduled_size, note = apply_schedules(resource, graph, declared_size)
    size = graph.resolve_size(resource, scheduled_size)
    if size is None:
        return [UnpricedComponent("group size is not known until deployment", "machine")]
    if hidden := unreadable_components(group.hidden_overrides, "its types are", "machine"):
        return [*hidden]
    types = resolve_machine_types(group.overrides, source)
    if isinstance(types, UnpricedComponent):
        return [types]
    launch = source.inputs if source else None
    terms = graph.terms_of(
        resource, source.resource if source else None, spot=launch.is_spot if launch else None
    )
    terms = with_max_price(terms, group.max_spot_price, launch.max_spot_price if launch else None)
    region = find_region(resource, graph)
    machine = CostComponent(
        "machine",
        types.names,
        "aws",
        region,
        size,
        terms=terms,
        hours_per_month=terms.billed_hours,
        note=note,
    )
    if source and terms.purchase != "spot" and not types.is_weighted:
        group_zones = find_zones(resource, group.placement, graph)
        claim = reservation_claim(source.resource, source.inputs, graph, group_zones)
        machine = replace(machine, claim=claim)
    if (spot_group := _find_spot_group(resource, graph)) is not None:
        note = f"in the range of {spot_group.name}"
        return [replace(machine, count=ZERO_RANGE, claim=None, note=note)]
    machine_count = types.possible_machine_count(size)
    context = PartContext("aws", region, terms.pool, machine_count, terms.billed_hours)
    machines = convert_units_to_machines(split_by_purchase(machine, group.purchase_mix), types)
    if launch and (unbilled := unbilled_machine(launch)):
        machines = [unbilled]
    parts = launched_part_components(source, context, resource, group.placement, graph)
    return [*machines, *parts, *_warm_pool_components(group)]


def _find_spot_group(resource: StateResource, graph: Graph) -> StateResource | None:
    """Return the spot group that this one replaces missing machines of: its range includes on-demand."""
    own_tags = graph.tags_of(resource)
    if own_tags.get("gpufleet-fallback") != STANDBY:
        return None
    for other in graph.resources_of_type(resource.type):
        other_tags = graph.tags_of(other)
        is_same_pool = other_tags.get("gpufleet-pool") == own_tags.get("gpufleet-pool")
        if is_same_pool and other_tags.get("gpufleet-fallback") == "on_demand":
            return other
    return None


def _warm_pool_components(group: GroupInputs) -> Components:
    """Return the warm pool without a price: stopped machines bill their disks, running ones everything."""
    if group.warm_pool_state is None:
        return []
    return [UnpricedComponent(f"its warm pool ({group.warm_pool_state}) is not priced", "warm_pool")]
