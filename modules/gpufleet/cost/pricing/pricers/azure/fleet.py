"""Azure compute fleets: a target of regular and of spot machines, of any of several sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    number_if_known,
    read_input,
    read_input_list,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.disk import attached_disk_components
from gpufleet.cost.pricing.pricers.azure.location import find_region
from gpufleet.cost.pricing.pricers.azure.machine_inputs import (
    VirtualMachineInputs,
    parse_virtual_machine_inputs,
    profile_public_ip_components,
    read_max_spot_price,
)
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

PROFILE_PATH = ("computeProfile", "baseVirtualMachineProfile")


@dataclass(frozen=True)
class PriorityProfileInputs:
    """The target capacity of one priority; ``minimum`` and ``max_price`` are of spot only."""

    capacity: Number
    minimum: Number
    max_price: Number


@dataclass(frozen=True)
class ComputeFleetInputs:
    """The inputs of a compute fleet; ``sizes`` are by rank."""

    selects_by_attributes: bool
    sizes: tuple[Text, ...]
    regular: PriorityProfileInputs | None
    spot: PriorityProfileInputs | None
    machine: VirtualMachineInputs


def parse_compute_fleet_inputs(inputs: Any) -> ComputeFleetInputs:
    """Parse a compute fleet."""
    entries = read_input_list(inputs, "vmSizesProfile")
    entries.sort(key=lambda entry: number_if_known(read_input_number(entry, "rank")) or ZERO)
    return ComputeFleetInputs(
        selects_by_attributes=read_input(inputs, "vmAttributes") is not None,
        sizes=tuple(read_input_text(entry, "name") for entry in entries),
        regular=_parse_priority(read_input(inputs, "regularPriorityProfile")),
        spot=_parse_priority(read_input(inputs, "spotPriorityProfile")),
        machine=parse_virtual_machine_inputs(read_input(inputs, *PROFILE_PATH)),
    )


def price_compute_fleet(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a fleet at the capacity of each priority; spot may fall to its minimum."""
    fleet = parse_compute_fleet_inputs(resource.inputs)
    sizes = _machine_sizes(fleet)
    if isinstance(sizes, UnpricedComponent):
        return [sizes]
    region = find_region(resource, graph)
    machines: list[CostComponent] = []
    unpriced: list[UnpricedComponent] = []
    for priority, name, purchase in (
        (fleet.regular, "machine:on_demand", "on_demand"),
        (fleet.spot, "machine:spot", "spot"),
    ):
        if priority is None:
            continue
        count = _capacity_range(priority, is_spot=purchase == "spot")
        if count is None:
            unpriced.append(UnpricedComponent("its capacity is not known until deployment", name))
        elif count.high > 0:
            max_price = number_if_known(priority.max_price)
            terms = replace(graph.purchase_terms_of(resource), purchase=purchase, max_price=max_price)
            machines.append(
                CostComponent(
                    name,
                    sizes,
                    "azure",
                    region,
                    count,
                    terms=terms,
                    hours_per_month=terms.billed_hours_per_month,
                )
            )
    if not machines:
        return [*unpriced]
    total = Range.sum_ranges(machine.count for machine in machines)
    first = machines[0]
    context = MachinePartContext("azure", region, first.terms.pool, total, first.hours_per_month)
    disks = attached_disk_components(fleet.machine.disks, context)
    return [*machines, *unpriced, *disks, *profile_public_ip_components(fleet.machine, context)]


def _parse_priority(profile: Any) -> PriorityProfileInputs | None:
    if profile is None:
        return None
    return PriorityProfileInputs(
        capacity=read_input_number(profile, "capacity"),
        minimum=read_input_number(profile, "minCapacity"),
        max_price=read_max_spot_price(profile, "maxPricePerVM"),
    )


def _machine_sizes(fleet: ComputeFleetInputs) -> tuple[str, ...] | UnpricedComponent:
    if fleet.selects_by_attributes:
        reason = "its sizes are chosen by attributes: any that fits may be launched"
        return UnpricedComponent(reason, "machine")
    names = [text_or_unpriced(size, "machine size") for size in fleet.sizes or (None,)]
    missing = next((name for name in names if isinstance(name, UnpricedComponent)), None)
    return missing or tuple(str(name) for name in names)


def _capacity_range(priority: PriorityProfileInputs, *, is_spot: bool) -> Range | None:
    if isinstance(priority.capacity, UnreadableValue):
        return None
    capacity = priority.capacity or ZERO
    low = priority.minimum if isinstance(priority.minimum, Decimal) and is_spot else capacity
    return Range.spanning(low, capacity, capacity)
