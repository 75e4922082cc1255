"""Azure scale sets: machines of their profile, between the autoscale setting's bounds."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    read_input,
    read_input_list,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.disk import attached_disk_components
from gpufleet.cost.pricing.pricers.azure.location import find_region
from gpufleet.cost.pricing.pricers.azure.machine_inputs import (
    RESERVATION_PATH,
    VirtualMachineInputs,
    licence_components,
    make_reservation_claim,
    parse_virtual_machine_inputs,
    profile_public_ip_components,
    with_max_spot_price,
)
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.purchase_mix import PurchaseMix, split_machine_by_purchase
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.engine import StateResource

AUTOSCALERS = ("azure-native:insights:AutoscaleSetting", "azure-native:monitor:AutoscaleSetting")
CLASSIC_AUTOSCALER = "azure:monitoring/autoscaleSetting:AutoscaleSetting"
PROFILE = "virtualMachineProfile"


@dataclass(frozen=True)
class ScaleSetInputs:
    """The inputs of a scale set. ``mixed_sizes`` are those of an instance mix, by rank."""

    size: Text
    mixed_sizes: tuple[str, ...]
    capacity: Number
    machine: VirtualMachineInputs
    purchase_mix: PurchaseMix | None
    only_groups_machines: bool  # a flexible set without a profile: its machines bill where they are declared


@dataclass(frozen=True)
class AutoscaleSettingInputs:
    """The capacity of each profile of an autoscale setting, None where it is not known."""

    capacities: tuple[Range | None, ...]


def parse_scale_set_inputs(inputs: Any) -> ScaleSetInputs:
    """Parse a scale set."""
    profile = read_input(inputs, PROFILE) or {}
    mix = read_input(inputs, "priorityMixPolicy")
    return ScaleSetInputs(
        size=read_input_text(inputs, "sku", "name"),
        mixed_sizes=_parse_mixed_sizes(inputs),
        capacity=read_input_number(inputs, "sku", "capacity"),
        machine=parse_virtual_machine_inputs(profile),
        purchase_mix=None
        if mix is None
        else PurchaseMix(
            read_input_number(mix, "baseRegularPriorityCount"),
            read_input_number(mix, "regularPriorityPercentageAboveBase"),
        ),
        only_groups_machines=not profile and read_input(inputs, "sku") is None,
    )


def parse_autoscale_setting_inputs(inputs: Any) -> AutoscaleSettingInputs:
    """Parse an autoscale setting."""
    return AutoscaleSettingInputs(tuple(map(_parse_capacity, read_input_list(inputs, "profiles"))))


def price_scale_set(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a scale set at its capacity, between the bounds of its autoscale setting if it has one."""
    scale_set = parse_scale_set_inputs(resource.inputs)
    machine = scale_set.machine
    if scale_set.only_groups_machines:
        return []
    sizes = _machine_sizes(scale_set)
    if isinstance(sizes, UnpricedComponent):
        return [sizes]
    count = graph.resolve_group_size(resource, _capacity_range(scale_set, resource, graph))
    if count is None:
        return [UnpricedComponent("scale set capacity is not known until deployment", "machine")]
    region = find_region(resource, graph)
    claim = None
    if machine.targets_reservation:
        claim = make_reservation_claim(resource, graph, (PROFILE, *RESERVATION_PATH))
    terms = with_max_spot_price(
        graph.purchase_terms_of(resource, spot=machine.is_spot), machine.max_spot_price
    )
    component = CostComponent(
        "machine",
        sizes,
        "azure",
        region,
        count,
        terms=terms,
        hours_per_month=terms.billed_hours_per_month,
        claim=claim,
    )
    context = MachinePartContext("azure", region, terms.pool, count, terms.billed_hours_per_month)
    return [
        *split_machine_by_purchase(component, scale_set.purchase_mix),
        *attached_disk_components(machine.disks, context),
        *profile_public_ip_components(machine, context),
        *licence_components(machine),
    ]


def _parse_mixed_sizes(inputs: Any) -> tuple[str, ...]:
    """Return the sizes of an instance mix by rank; empty if there is none, or one of them is not known."""
    entries = read_input_list(inputs, "skuProfile", "vmSizes")
    entries.sort(key=lambda entry: str(read_input(entry, "rank") or 0))
    names = [read_input_text(entry, "name") for entry in entries]
    known_names = tuple(name for name in names if isinstance(name, str))
    return known_names if len(known_names) == len(names) else ()


def _machine_sizes(scale_set: ScaleSetInputs) -> tuple[str, ...] | UnpricedComponent:
    if scale_set.mixed_sizes:
        return scale_set.mixed_sizes
    size = text_or_unpriced(scale_set.size, "machine size")
    return size if isinstance(size, UnpricedComponent) else (size,)


def _capacity_range(scale_set: ScaleSetInputs, resource: StateResource, graph: ResourceGraph) -> Range | None:
    capacity = scale_set.capacity
    autoscalers = graph.find_referring_resources(resource, ("targetResourceUri",), *AUTOSCALERS)
    autoscalers += graph.find_referring_resources(resource, ("targetResourceId",), CLASSIC_AUTOSCALER)
    autoscaler = next(iter(autoscalers), None)
    if autoscaler is None:
        return group_size_range(capacity, capacity, capacity)
    ranges = parse_autoscale_setting_inputs(autoscaler.inputs).capacities
    known_ranges = [each for each in ranges if each]
    if not known_ranges or len(known_ranges) < len(ranges):
        return None
    low, high = min(each.low for each in known_ranges), max(each.high for each in known_ranges)
    expected = capacity if isinstance(capacity, Decimal) else known_ranges[0].expected
    return group_size_range(low, expected, high)


def _parse_capacity(profile: Any) -> Range | None:
    return group_size_range(
        read_input_number(profile, "capacity", "minimum"),
        read_input_number(profile, "capacity", "default"),
        read_input_number(profile, "capacity", "maximum"),
    )
