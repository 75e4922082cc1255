"""Azure scale sets: machines of their profile, between the autoscale setting's bounds."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import Number, Text, read_list, read_number, read_text, read_value
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.disk import attached_disk_components
from gpufleet.cost.pricing.pricers.azure.location import find_region
from gpufleet.cost.pricing.pricers.azure.machine_inputs import (
    RESERVATION_PATH,
    MachineInputs,
    licence_components,
    parse_machine,
    profile_address_components,
    reservation_claim,
    with_max_price,
)
from gpufleet.cost.pricing.pricers.group_size import size_range
from gpufleet.cost.pricing.pricers.purchase_mix import PurchaseMix, split_by_purchase
from gpufleet.cost.pricing.pricers.required_input import require_text
from gpufleet.engine import StateResource

AUTOSCALERS = ("azure-native:insights:AutoscaleSetting", "azure-native:monitor:AutoscaleSetting")
PROFILE = "virtualMachineProfile"


@dataclass(frozen=True)
class ScaleSetInputs:
    """The inputs of a scale set. ``mixed_sizes`` are those of an instance mix, by rank."""

    size: Text
    mixed_sizes: tuple[str, ...]
    capacity: Number
    machine: MachineInputs
    purchase_mix: PurchaseMix | None
    only_groups_machines: bool  # a flexible set without a profile: its machines bill where they are declared


@dataclass(frozen=True)
class AutoscaleInputs:
    """The capacity of each profile of an autoscale setting, None where it is not known."""

    capacities: tuple[Range | None, ...]


def parse_scale_set(inputs: Any) -> ScaleSetInputs:
    """Parse a scale set."""
    profile = read_value(inputs, PROFILE) or {}
    mix = read_value(inputs, "priorityMixPolicy")
    return ScaleSetInputs(
        size=read_text(inputs, "sku", "name"),
        mixed_sizes=_parse_mixed_sizes(inputs),
        capacity=read_number(inputs, "sku", "capacity"),
        machine=parse_machine(profile),
        purchase_mix=None
        if mix is None
        else PurchaseMix(
            read_number(mix, "baseRegularPriorityCount"),
            read_number(mix, "regularPriorityPercentageAboveBase"),
        ),
        only_groups_machines=not profile and read_value(inputs, "sku") is None,
    )


def parse_autoscale_setting(inputs: Any) -> AutoscaleInputs:
    """Parse an autoscale setting."""
    return AutoscaleInputs(tuple(map(_parse_capacity, read_list(inputs, "profiles"))))


def price_scale_set(resource: StateResource, graph: Graph) -> Components:
    """Return a scale set at its capacity, between the bounds of its autoscale setting if it has one."""
    scale_set = parse_scale_set(resource.inputs)
    machine = scale_set.machine
    if scale_set.only_groups_machines:
        return []
    sizes = _machine_sizes(scale_set)
    if isinstance(sizes, UnpricedComponent):
        return [sizes]
    count = graph.resolve_size(resource, _capacity_range(scale_set, resource, graph))
    if count is None:
        return [UnpricedComponent("scale set capacity is not known until deployment", "machine")]
    region = find_region(resource, graph)
    claim = None
    if machine.targets_reservation:
        claim = reservation_claim(resource, graph, (PROFILE, *RESERVATION_PATH))
    terms = with_max_price(graph.terms_of(resource, spot=machine.is_spot), machine.max_spot_price)
    component = CostComponent(
        "machine",
        sizes,
        "azure",
        region,
        count,
        terms=terms,
        hours_per_month=terms.billed_hours,
        claim=claim,
    )
    context = PartContext("azure", region, terms.pool, count, terms.billed_hours)
    return [
        *split_by_purchase(component, scale_set.purchase_mix),
        *attached_disk_components(machine.disks, context),
        *profile_address_components(machine, context),
        *licence_components(machine),
    ]


def _parse_mixed_sizes(inputs: Any) -> tuple[str, ...]:
    """Return the sizes of an instance mix by rank; empty if there is none, or one of them is not known."""
    entries = read_list(inputs, "skuProfile", "vmSizes")
    entries.sort(key=lambda entry: str(read_value(entry, "rank") or 0))
    names = [read_text(entry, "name") for entry in entries]
    known_names = tuple(name for name in names if isinstance(name, str))
    return known_names if len(known_names) == len(names) else ()


def _machine_sizes(scale_set: ScaleSetInputs) -> tuple[str, ...] | UnpricedComponent:
    if scale_set.mixed_sizes:
        return scale_set.mixed_sizes
    size = require_text(scale_set.size, "machine size")
    return size if isinstance(size, UnpricedComponent) else (size,)


def _capacity_range(scale_set: ScaleSetInputs, resource: StateResource, graph: Graph) -> Range | None:
    capacity = scale_set.capacity
    autoscaler = next(iter(graph.find_referrers(resource, ("targetResourceUri",), *AUTOSCALERS)), None)
    if autoscaler is None:
        return size_range(capacity, capacity, capacity)
    ranges = parse_autoscale_setting(autoscaler.inputs).capacities
    known_ranges = [each for each in ranges if each]
    if not known_ranges or len(known_ranges) < len(ranges):
        return None
    low, high = min(each.low for each in known_ranges), max(each.high for each in known_ranges)
    expected = capacity if isinstance(capacity, Decimal) else known_ranges[0].expected
    return size_range(low, expected, high)


def _parse_capacity(profile: Any) -> Range | None:
    return size_range(
        read_number(profile, "capacity", "minimum"),
        read_number(profile, "capacity", "default"),
        read_number(profile, "capacity", "maximum"),
    )
