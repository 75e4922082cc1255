"""Azure compute fleets: a target of regular and of spot machines, of any of several sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    known_number,
    read_list,
    read_number,
    read_text,
    read_value,
)
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.disk import attached_disk_components
from gpufleet.cost.pricing.pricers.azure.location import find_region
from gpufleet.cost.pricing.pricers.azure.machine_inputs import (
    MachineInputs,
    parse_machine,
    profile_address_components,
)
from gpufleet.engine import StateResource, ValueMarker

PROFILE_PATH = ("computeProfile", "baseVirtualMachineProfile")


@dataclass(frozen=True)
class PriorityInputs:
    """The target capacity of one priority; ``minimum`` and ``max_price`` are of spot only."""

    capacity: Number
    minimum: Number
    max_price: Number


@dataclass(frozen=True)
class FleetInputs:
    """The inputs of a compute fleet; ``sizes`` are by rank."""

    selects_by_attributes: bool
    sizes: tuple[Text, ...]
    regular: PriorityInputs | None
    spot: PriorityInputs | None
    machine: MachineInputs


def parse_fleet(inputs: Any) -> FleetInputs:
    """Parse a compute fleet."""
    entries = read_list(inputs, "vmSizesProfile")
    entries.sort(key=lambda entry: known_number(read_number(entry, "rank")) or ZERO)
    return FleetInputs(
        selects_by_attributes=read_value(inputs, "vmAttributes") is not None,
        sizes=tuple(read_text(entry, "name") for entry in entries),
        regular=_parse_priority(read_value(inputs, "regularPriorityProfile")),
        spot=_parse_priority(read_value(inputs, "spotPriorityProfile")),
        machine=parse_machine(read_value(inputs, *PROFILE_PATH)),
    )


def price_fleet(resource: StateResource, graph: Graph) -> Components:
    """Return a fleet at the capacity of each priority; spot may fall to its minimum."""
    fleet = parse_fleet(resource.inputs)
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
            max_price = known_number(priority.max_price)
            terms = replace(graph.terms_of(resource), purchase=purchase, max_price=max_price)
            machines.append(
                CostComponent(
                    name, sizes, "azure", region, count, terms=terms, hours_per_month=terms.billed_hours
                )
            )
    if not machines:
        return [*unpriced]
    total = Range.total(machine.count for machine in machines)
    first = machines[0]
    context = PartContext("azure", region, first.terms.pool, total, first.hours_per_month)
    disks = attached_disk_components(fleet.machine.disks, context)
    return [*machines, *unpriced, *disks, *profile_address_components(fleet.machine, context)]


def _parse_priority(profile: Any) -> PriorityInputs | None:
    if profile is None:
        return None
    return PriorityInputs(
        capacity=read_number(profile, "capacity"),
        minimum=read_number(profile, "minCapacity"),
        max_price=read_number(profile, "maxPricePerVM"),  # -1, up to on-demand, is not a number here
    )


def _machine_sizes(fleet: FleetInputs) -> tuple[str, ...] | UnpricedComponent:
    if fleet.selects_by_attributes:
        reason = "its sizes are chosen by attributes: any that fits may be launched"
        return UnpricedComponent(reason, "machine")
    names = tuple(size for size in fleet.sizes if isinstance(size, str))
    if not names or len(names) < len(fleet.sizes):
        return UnpricedComponent("machine size is not known until deployment", "machine")
    return names


def _capacity_range(priority: PriorityInputs, *, is_spot: bool) -> Range | None:
    if isinstance(priority.capacity, ValueMarker):
        return None
    capacity = priority.capacity or ZERO
    low = priority.minimum if isinstance(priority.minimum, Decimal) and is_spot else capacity
    return Range.spanning(low, capacity, capacity)
