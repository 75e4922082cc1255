"""What AWS groups and fleets launch: templates, overrides with weights, and the parts of each machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.reading import stand_in_for_absent
from gpufleet.cost.inputs.terms import PurchaseTerms
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    is_input_true,
    number_if_known,
    read_input,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.address import public_address_components
from gpufleet.cost.pricing.pricers.aws.launch_inputs import (
    CONFIGURATION,
    TEMPLATE,
    LaunchInputs,
    parse_launch_inputs,
    surcharge_components,
)
from gpufleet.cost.pricing.pricers.aws.location import PlacementInputs
from gpufleet.cost.pricing.pricers.aws.volume import attached_volume_components
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced, unpriced_if_unreadable
from gpufleet.engine import StateResource, UnreadableValue

ONE_MACHINE = Decimal(1)
BY_ATTRIBUTES = "its types are chosen by attributes: any that fits may be launched"
TEMPLATE_OUTSIDE = "its launch template is not in this stack"
DISKS_OUTSIDE = "disks are set by a launch template that is not in this stack"


@dataclass(frozen=True)
class LaunchSource:
    """A launch template or configuration of this stack, with its parsed inputs."""

    resource: StateResource
    inputs: LaunchInputs


@dataclass(frozen=True)
class LaunchOverride:
    """An entry of a group or fleet that names a type; ``names_types`` is false for one that changes others."""

    instance_type: Text
    weight: Number = None
    selects_by_attributes: bool = False
    names_types: bool = True
    max_price: Number = None
    spot_price: Number = None


@dataclass(frozen=True)
class LaunchableMachineTypes:
    """The types that may be launched, the expected one first, and how many capacity units each counts for."""

    names: tuple[str, ...]
    weights: tuple[Decimal, ...]

    @property
    def is_capacity_weighted(self) -> bool:
        """True if the group's size counts capacity units instead of machines."""
        return any(weight != ONE_MACHINE for weight in self.weights)

    @property
    def machine_count_ratios(self) -> tuple[Decimal, ...]:
        """Return how many machines of each type replace one of the first; empty if all count alike."""
        return tuple(self.weights[0] / weight for weight in self.weights) if self.is_capacity_weighted else ()

    def machine_count_for_units(self, capacity_units: Range) -> Range:
        """Return how many machines of the first type provide so many capacity units."""
        if not self.is_capacity_weighted:
            return capacity_units
        amounts = (capacity_units.low, capacity_units.expected, capacity_units.high)
        return Range(*(_round_up(amount / self.weights[0]) for amount in amounts))

    def machine_count_range_for_units(self, capacity_units: Range) -> Range:
        """Return how many machines there may be of any type: few large ones or many small ones."""
        machines = self.machine_count_for_units(capacity_units)
        if not self.is_capacity_weighted:
            return machines
        fewest = _round_up(capacity_units.low / max(self.weights))
        most = _round_up(capacity_units.high / min(self.weights))
        return Range.spanning(fewest, machines.expected, most)


def parse_launch_override(entry: Any) -> LaunchOverride:
    """Parse an override of a group or fleet, or a launch specification of a spot fleet."""
    instance_type, requirements = (
        read_input_text(entry, "instanceType"),
        read_input(entry, "instanceRequirements"),
    )
    hidden = requirements if instance_type is None and isinstance(requirements, UnreadableValue) else None
    return LaunchOverride(
        instance_type=hidden or instance_type,
        weight=read_input_number(entry, "weightedCapacity"),
        selects_by_attributes=requirements is not None and not isinstance(requirements, UnreadableValue),
        names_types=bool(read_input(entry, "instanceType") or read_input(entry, "instanceRequirements")),
        max_price=read_input_number(entry, "maxPrice"),
        spot_price=read_input_number(entry, "spotPrice"),
    )


def find_launch_source(
    resource: StateResource, graph: ResourceGraph, *paths: tuple[str | int, ...]
) -> LaunchSource | None:
    """Return the launch template or configuration that a resource refers to by id or name, if it is here.

    A template that the change updates is returned as it was if the resource keeps the earlier version.
    """
    for path in paths:
        if source := graph.find_referenced_resource(resource, path, TEMPLATE, CONFIGURATION):
            earlier = graph.find_earlier_resource(source)
            if earlier and keeps_template_version(resource, (*path[:-1], "version"), source, earlier, graph):
                source = earlier
            return LaunchSource(source, parse_launch_inputs(source.inputs, source.type))
    return None


def keeps_template_version(
    resource: StateResource,
    version_path: tuple[str | int, ...],
    template: StateResource,
    earlier_template: StateResource,
    graph: ResourceGraph,
) -> bool:
    """Return whether a resource launches from the version of a template before the change.

    It does with a version number that the change leaves as it was, and with ``$Default``, also EC2's choice without
    a version, unless the change moves the default version. ``$Latest`` and a version that is not known until
    deployment follow the template. Source: EC2 documentation of launch template versions; the inputs
    ``updateDefaultVersion`` and ``defaultVersion`` of the provider.
    """
    if template.type != TEMPLATE:
        return False
    version = read_input_text(resource.inputs, *version_path)
    if version in (None, "", "$Default"):
        moves = is_input_true(template.inputs, "updateDefaultVersion")
        versions = [read_input(each.inputs, "defaultVersion") for each in (earlier_template, template)]
        return not moves and versions[0] == versions[1]
    earlier = graph.find_earlier_resource(resource)
    is_number = isinstance(version, str) and version.isdecimal()
    return is_number and earlier is not None and read_input_text(earlier.inputs, *version_path) == version


def resolve_machine_types(
    overrides: Iterable[LaunchOverride], source: LaunchSource | None
) -> LaunchableMachineTypes | UnpricedComponent:
    """Return the types that overrides name, else the template's."""
    entries = list(overrides)
    if any(entry.selects_by_attributes for entry in entries):
        return UnpricedComponent(BY_ATTRIBUTES, "machine")
    if any(
        isinstance(value, UnreadableValue)
        for entry in entries
        for value in (entry.instance_type, entry.weight)
    ):
        return UnpricedComponent("instance type is not known until deployment", "machine")
    typed = [entry for entry in entries if isinstance(entry.instance_type, str)]
    if typed:
        weights = tuple(number_if_known(entry.weight) or ONE_MACHINE for entry in typed)
        return LaunchableMachineTypes(tuple(str(entry.instance_type) for entry in typed), weights)
    if source is None:
        stand_ins = stand_in_for_absent("a launch template")
        outside = UnpricedComponent(TEMPLATE_OUTSIDE, "machine")
        return LaunchableMachineTypes((stand_ins.text,), (ONE_MACHINE,)) if stand_ins else outside
    if source.inputs.selects_types_by_attributes:
        return UnpricedComponent(BY_ATTRIBUTES, "machine")
    name = text_or_unpriced(source.inputs.instance_type, "instance type")
    return name if isinstance(name, UnpricedComponent) else LaunchableMachineTypes((name,), (ONE_MACHINE,))


def convert_capacity_units_to_machines(components: Components, types: LaunchableMachineTypes) -> Components:
    """Convert components that count a group's capacity units into components that count machines."""
    if not types.is_capacity_weighted:
        return components
    return [
        replace(
            component,
            count=types.machine_count_for_units(component.count),
            capacity_units=component.count,
            weights=types.weights,
            count_ratios=types.machine_count_ratios,
        )
        if isinstance(component, CostComponent)
        else component
        for component in components
    ]


def launched_part_components(
    source: LaunchSource | None,
    context: MachinePartContext,
    group: StateResource,
    placement: PlacementInputs,
    graph: ResourceGraph,
) -> Components:
    """Return the volumes, addresses and surcharges of machines that a group launches from a template."""
    if source is None:
        return [UnpricedComponent(DISKS_OUTSIDE, "disk:root")]
    launch = source.inputs
    volumes = attached_volume_components(launch.volumes, context)
    addresses: Components = [
        *unpriced_if_unreadable(launch.hidden_interfaces, "its network cards are", ADDRESS)
    ] or public_address_components(
        group,
        placement,
        graph,
        launch.public_address,
        context,
        is_in_default_subnet=placement.names_no_subnet and launch.placement.names_no_subnet,
    )
    return [*volumes, *addresses, *surcharge_components(launch, context)]


def with_max_spot_price(terms: PurchaseTerms, *offers: Number) -> PurchaseTerms:
    """Return the terms with the first offer for spot that is a number above zero, if there is one."""
    max_price = next((price for price in map(number_if_known, offers) if price), None)
    return terms if max_price is None else replace(terms, max_price=max_price)


def _round_up(amount: Decimal) -> Decimal:
    return amount.to_integral_value(ROUND_CEILING)
