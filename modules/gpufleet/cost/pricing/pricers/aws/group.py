"""Auto Scaling groups: machines of their launch template, split between on-demand and spot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.terms import read_pool_tags
from gpufleet.cost.inputs.values import (
    Number,
    read_input,
    read_input_list,
    read_input_number,
    read_input_text,
    read_list_marker,
    text_if_known,
)
from gpufleet.cost.money import ZERO_RANGE
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.instance import make_reservation_claim
from gpufleet.cost.pricing.pricers.aws.launch import (
    LaunchOverride,
    convert_capacity_units_to_machines,
    find_launch_source,
    launched_part_components,
    parse_launch_override,
    resolve_machine_types,
    with_max_spot_price,
)
from gpufleet.cost.pricing.pricers.aws.launch_inputs import unbilled_machine_components
from gpufleet.cost.pricing.pricers.aws.location import (
    PlacementInputs,
    find_possible_zones,
    find_region,
    parse_placement_inputs,
)
from gpufleet.cost.pricing.pricers.aws.schedule import apply_scheduled_scaling_actions
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.purchase_mix import PurchaseMix, split_machine_by_purchase
from gpufleet.cost.pricing.pricers.required_input import unpriced_if_unreadable
from gpufleet.engine import StateResource, UnreadableValue

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
class AutoScalingGroupInputs:
    """The inputs of an Auto Scaling group."""

    counts_machines: bool
    min_size: Number
    desired_capacity: Number
    max_size: Number
    overrides: tuple[LaunchOverride, ...]
    hidden_overrides: UnreadableValue | None
    purchase_mix: PurchaseMix | None
    max_spot_price: Number
    warm_pool_state: str | None
    placement: PlacementInputs


def parse_auto_scaling_group_inputs(inputs: Any) -> AutoScalingGroupInputs:
    """Parse an Auto Scaling group."""
    distribution = read_input(inputs, *DISTRIBUTION)
    warm_pool = read_input(inputs, "warmPool")
    return AutoScalingGroupInputs(
        counts_machines=read_input(inputs, "desiredCapacityType") in (None, "units"),
        min_size=read_input_number(inputs, "minSize"),
        desired_capacity=read_input_number(inputs, "desiredCapacity"),
        max_size=read_input_number(inputs, "maxSize"),
        overrides=tuple(map(parse_launch_override, read_input_list(inputs, *MIXED, "overrides"))),
        hidden_overrides=read_list_marker(inputs, *MIXED, "overrides"),
        purchase_mix=None
        if distribution is None
        else PurchaseMix(
            read_input_number(distribution, "onDemandBaseCapacity"),
            read_input_number(distribution, "onDemandPercentageAboveBaseCapacity"),
        ),
        max_spot_price=read_input_number(distribution, "spotMaxPrice"),
        warm_pool_state=None
        if warm_pool is None
        else text_if_known(read_input_text(warm_pool, "poolState")) or "Stopped",
        placement=parse_placement_inputs(inputs),
    )


def price_auto_scaling_group(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a group's machines and their parts, between its minimum and maximum size."""
    group = parse_auto_scaling_group_inputs(resource.inputs)
    if not group.counts_machines:
        return [UnpricedComponent("its size counts vCPUs or memory, not machines", "machine")]
    source = find_launch_source(resource, graph, *TEMPLATE_PATHS)
    declared_size = group_size_range(group.min_size, group.desired_capacity, group.max_size)
    scheduled_size, note = apply_scheduled_scaling_actions(resource, graph, declared_size)
    size = graph.resolve_group_size(resource, scheduled_size)
    if size is None:
        return [UnpricedComponent("group size is not known until deployment", "machine")]
    if hidden := unpriced_if_unreadable(group.hidden_overrides, "its types are", "machine"):
        return [*hidden]
    types = resolve_machine_types(group.overrides, source)
    if isinstance(types, UnpricedComponent):
        return [types]
    launch = source.inputs if source else None
    terms = graph.purchase_terms_of(
        resource, source.resource if source else None, spot=launch.is_spot if launch else None
    )
    terms = with_max_spot_price(terms, group.max_spot_price, launch.max_spot_price if launch else None)
    region = find_region(resource, graph)
    machine = CostComponent(
        "machine",
        types.names,
        "aws",
        region,
        size,
        terms=terms,
        hours_per_month=terms.billed_hours_per_month,
        note=note,
    )
    if source and terms.purchase != "spot" and not types.is_capacity_weighted:
        group_zones = find_possible_zones(resource, group.placement, graph)
        claim = make_reservation_claim(source.resource, source.inputs, graph, group_zones)
        machine = replace(machine, claim=claim)
    if (spot_group := _find_spot_group(resource, graph)) is not None:
        note = f"in the range of {spot_group.name}"
        return [replace(machine, count=ZERO_RANGE, claim=None, note=note)]
    machine_count = types.machine_count_range_for_units(size)
    context = MachinePartContext("aws", region, terms.pool, machine_count, terms.billed_hours_per_month)
    machines = convert_capacity_units_to_machines(
        split_machine_by_purchase(machine, group.purchase_mix), types
    )
    if launch and source:
        unbilled = unbilled_machine_components(launch, graph, source.resource)
        machines = machines if unbilled is None else unbilled
    parts = launched_part_components(source, context, resource, group.placement, graph)
    return [*machines, *parts, *_warm_pool_components(group)]


def _find_spot_group(resource: StateResource, graph: ResourceGraph) -> StateResource | None:
    """Return the spot group that this one replaces missing machines of: its range includes on-demand."""
    own_tags = read_pool_tags(resource)
    if own_tags.get("gpufleet-fallback") != STANDBY:
        return None
    for other in graph.resources_of_types(resource.type):
        other_tags = read_pool_tags(other)
        is_same_pool = other_tags.get("gpufleet-pool") == own_tags.get("gpufleet-pool")
        if is_same_pool and other_tags.get("gpufleet-fallback") == "on_demand":
            return other
    return None


def _warm_pool_components(group: AutoScalingGroupInputs) -> Components:
    """Return the warm pool without a price: stopped machines bill their disks, running ones everything."""
    if group.warm_pool_state is None:
        return []
    return [UnpricedComponent(f"its warm pool ({group.warm_pool_state}) is not priced", "warm_pool")]
