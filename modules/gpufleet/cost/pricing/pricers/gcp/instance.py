"""Compute Engine instances: the machine, the cards attached to it, disks, addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import known_text, read_list, read_text, read_value
from gpufleet.cost.pricing.component import Components, PartContext, ReservationClaim, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.disk import (
    AttachedDisks,
    attached_disk_components,
    parse_instance_disks,
    parse_template_disks,
)
from gpufleet.cost.pricing.pricers.gcp.location import find_region, last_segment
from gpufleet.cost.pricing.pricers.gcp.machine_inputs import (
    OUTSIDE_STACK,
    RESERVATION,
    MachineInputs,
    address_components,
    machine_components,
    machine_licence_components,
    parse_machine,
    reservation_attributes,
    with_reservation_claim,
)
from gpufleet.engine import StateResource

TEMPLATES = (
    "gcp:compute/instanceTemplate:InstanceTemplate",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
)
RESERVATION_PATH: tuple[str | int, ...] = ("reservationAffinity", "specificReservation", "values", 0)
STOPPED = ("TERMINATED", "SUSPENDED")


@dataclass(frozen=True)
class AffinityInputs:
    """Which reservation an instance or template asks for, and the zones that are possible."""

    is_set: bool
    refuses_reservations: bool
    targets_reservation: bool
    zone: str | None
    possible_zones: frozenset[str]


@dataclass(frozen=True)
class InstanceInputs:
    """The inputs of an instance. ``has_boot_disk`` is whether it has one itself, not only in a template."""

    machine: MachineInputs
    disks: AttachedDisks
    affinity: AffinityInputs
    is_stopped: bool
    has_boot_disk: bool


@dataclass(frozen=True)
class TemplateInputs:
    """The inputs of an instance template; ``affinity`` has the zones of what it is used in."""

    machine: MachineInputs
    disks: AttachedDisks
    affinity: AffinityInputs


def parse_instance(inputs: Any) -> InstanceInputs:
    """Parse an instance."""
    return InstanceInputs(
        machine=parse_machine(inputs),
        disks=parse_instance_disks(inputs),
        affinity=parse_affinity(inputs),
        is_stopped=read_text(inputs, "desiredStatus") in STOPPED,
        has_boot_disk=read_value(inputs, "bootDisk") is not None,
    )


def parse_template(inputs: Any, user_inputs: Any) -> TemplateInputs:
    """Parse an instance template that an instance or a group with ``user_inputs`` uses."""
    return TemplateInputs(
        machine=parse_machine(inputs),
        disks=parse_template_disks(inputs),
        affinity=parse_affinity(inputs, {**inputs, **user_inputs}),
    )


def parse_affinity(inputs: Any, placement: Any = None) -> AffinityInputs:
    """Parse the affinity of an instance or template; ``placement`` has the inputs of its zones if others do."""
    zones_of = inputs if placement is None else placement
    zone = known_text(read_text(zones_of, "zone"))
    zones = read_list(zones_of, "distributionPolicyZones")
    return AffinityInputs(
        is_set=read_value(inputs, "reservationAffinity") is not None,
        refuses_reservations=read_text(inputs, "reservationAffinity", "type") == "NO_RESERVATION",
        targets_reservation=read_value(inputs, *RESERVATION_PATH) is not None,
        zone=None if zone is None else last_segment(zone),
        possible_zones=frozenset(zones) if all(isinstance(each, str) for each in zones) else frozenset(),
    )


def price_instance(resource: StateResource, graph: Graph) -> Components:
    """Return one instance; a stopped one bills only its disks and addresses."""
    instance = parse_instance(resource.inputs)
    machine = instance.machine
    region = find_region(resource, graph)
    terms = graph.terms_of(resource, spot=machine.is_spot)
    is_spot = terms.purchase == "spot"
    context = PartContext("gcp", region, terms.pool)
    components = [
        *([] if instance.is_stopped else machine_components(machine, region, terms)),
        *attached_disk_components(instance.disks, machine.machine_type, context),
        *machine_licence_components(machine),
    ]
    if not is_spot and not instance.is_stopped:
        claim = reservation_claim(resource, instance.affinity, reservation_attributes(machine), graph)
        components = with_reservation_claim(components, claim)
    addresses = address_components(machine, context.with_hours(terms.hours), is_spot=is_spot)
    return [*components, *addresses]


def price_instance_from_template(resource: StateResource, graph: Graph) -> Components:
    """Return an instance that takes from a template the inputs that it leaves out."""
    template = graph.find_target(resource, ("sourceInstanceTemplate",), *TEMPLATES)
    if template is None:
        return [UnpricedComponent("its instance template is not in this stack", "machine")]
    own = parse_instance(resource.inputs)
    inherited = parse_template(template.inputs, resource.inputs)
    merged = parse_instance({**template.inputs, **resource.inputs})
    machine = merged.machine
    region = find_region(resource, graph)
    terms = graph.terms_of(resource, template, spot=machine.is_spot)
    is_spot = terms.purchase == "spot"
    context = PartContext("gcp", region, terms.pool)
    if own.has_boot_disk:
        disks = attached_disk_components(merged.disks, machine.machine_type, context)
    else:
        disks = attached_disk_components(inherited.disks, inherited.machine.machine_type, context)
    components = [
        *machine_components(machine, region, terms),
        *machine_licence_components(machine),
        *disks,
    ]
    if not is_spot:
        has_affinity = own.affinity.is_set
        source, affinity = (resource, own.affinity) if has_affinity else (template, inherited.affinity)
        claim = reservation_claim(source, affinity, reservation_attributes(machine), graph)
        components = with_reservation_claim(components, claim)
    addresses = address_components(machine, context.with_hours(terms.hours), is_spot=is_spot)
    return [*components, *addresses]


def reservation_claim(
    source: StateResource, affinity: AffinityInputs, attributes: tuple[str, ...], graph: Graph
) -> ReservationClaim | None:
    """Return the reservation that an instance or template targets, else any open one that matches."""
    if affinity.refuses_reservations:
        return None
    if affinity.targets_reservation:
        target = graph.find_target(source, RESERVATION_PATH, RESERVATION)
        return ReservationClaim(target_urn=target.urn if target else OUTSIDE_STACK, attributes=attributes)
    return ReservationClaim(
        accepts_open=True,
        zone=affinity.zone,
        attributes=attributes,
        possible_zones=affinity.possible_zones,
    )
