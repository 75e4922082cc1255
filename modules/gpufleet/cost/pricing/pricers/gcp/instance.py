"""Compute Engine instances: the machine, the cards attached to it, disks, addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    read_input,
    read_input_list,
    read_input_text,
    text_if_known,
)
from gpufleet.cost.pricing.component import (
    Components,
    MachinePartContext,
    ReservationClaim,
    UnpricedComponent,
)
from gpufleet.cost.pricing.pricers.gcp.disk import (
    AttachedDisks,
    attached_disk_components,
    parse_instance_disks,
    parse_template_disks,
)
from gpufleet.cost.pricing.pricers.gcp.location import find_region, last_url_segment
from gpufleet.cost.pricing.pricers.gcp.machine_inputs import (
    OUTSIDE_STACK,
    RESERVATION,
    MachineInputs,
    external_address_components,
    image_licence_components,
    machine_components,
    parse_machine_inputs,
    reservation_attributes,
    with_reservation_claim,
)
from gpufleet.cost.pricing.pricers.licence import system_licence_components
from gpufleet.engine import StateResource, UnreadableValue

TEMPLATES = (
    "gcp:compute/instanceTemplate:InstanceTemplate",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
)
DISK = "gcp:compute/disk:Disk"
RESERVATION_PATH: tuple[str | int, ...] = ("reservationAffinity", "specificReservation", "values", 0)
STOPPED = ("TERMINATED", "SUSPENDED")


@dataclass(frozen=True)
class ReservationAffinityInputs:
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
    affinity: ReservationAffinityInputs
    is_stopped: bool
    has_boot_disk: bool


@dataclass(frozen=True)
class InstanceTemplateInputs:
    """The inputs of an instance template; ``affinity`` has the zones of what it is used in."""

    machine: MachineInputs
    disks: AttachedDisks
    affinity: ReservationAffinityInputs


def parse_instance_inputs(inputs: Any) -> InstanceInputs:
    """Parse an instance."""
    return InstanceInputs(
        machine=parse_machine_inputs(inputs),
        disks=parse_instance_disks(inputs),
        affinity=parse_reservation_affinity_inputs(inputs),
        is_stopped=read_input_text(inputs, "desiredStatus") in STOPPED,
        has_boot_disk=read_input(inputs, "bootDisk") is not None,
    )


def parse_instance_template_inputs(inputs: Any, user_inputs: Any) -> InstanceTemplateInputs:
    """Parse an instance template that an instance or a group with ``user_inputs`` uses."""
    return InstanceTemplateInputs(
        machine=parse_machine_inputs(inputs),
        disks=parse_template_disks(inputs),
        affinity=parse_reservation_affinity_inputs(inputs, {**inputs, **user_inputs}),
    )


def parse_reservation_affinity_inputs(inputs: Any, placement: Any = None) -> ReservationAffinityInputs:
    """Parse the affinity of an instance or template; ``placement`` has the inputs of its zones if others do."""
    zones_of = inputs if placement is None else placement
    zone = text_if_known(read_input_text(zones_of, "zone"))
    zones = read_input_list(zones_of, "distributionPolicyZones")
    return ReservationAffinityInputs(
        is_set=read_input(inputs, "reservationAffinity") is not None,
        refuses_reservations=read_input_text(inputs, "reservationAffinity", "type") == "NO_RESERVATION",
        targets_reservation=read_input(inputs, *RESERVATION_PATH) is not None,
        zone=None if zone is None else last_url_segment(zone),
        possible_zones=frozenset(zones) if all(isinstance(each, str) for each in zones) else frozenset(),
    )


def price_compute_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return one instance; a stopped one bills only its disks and addresses."""
    instance = parse_instance_inputs(resource.inputs)
    machine = instance.machine
    region = find_region(resource, graph)
    terms = graph.purchase_terms_of(resource, spot=machine.is_spot)
    is_spot = terms.purchase == "spot"
    context = MachinePartContext("gcp", region, terms.pool)
    components = [
        *([] if instance.is_stopped else machine_components(machine, region, terms)),
        *attached_disk_components(instance.disks, machine.machine_type, context),
        *(image_licence_components(machine) or _boot_disk_licence_components(resource, graph)),
    ]
    if not is_spot and not instance.is_stopped:
        claim = make_reservation_claim(resource, instance.affinity, reservation_attributes(machine), graph)
        components = with_reservation_claim(components, claim)
    addresses = external_address_components(machine, context.with_billed_hours(terms.hours), is_spot=is_spot)
    return [*components, *addresses]


def _boot_disk_licence_components(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the licence of the image of a boot disk that is a resource of its own."""
    disk = graph.find_referenced_resource(resource, ("bootDisk", "source"), DISK)
    image = read_input_text(disk.inputs, "image") if disk else None
    return [*system_licence_components(None if isinstance(image, UnreadableValue) else image or "")]


def price_instance_from_template(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an instance that takes from a template the inputs that it leaves out."""
    template = graph.find_referenced_resource(resource, ("sourceInstanceTemplate",), *TEMPLATES)
    if template is None:
        return [UnpricedComponent("its instance template is not in this stack", "machine")]
    instance_inputs = parse_instance_inputs(resource.inputs)
    inherited = parse_instance_template_inputs(template.inputs, resource.inputs)
    merged = parse_instance_inputs({**template.inputs, **resource.inputs})
    machine = merged.machine
    region = find_region(resource, graph)
    terms = graph.purchase_terms_of(resource, template, spot=machine.is_spot)
    is_spot = terms.purchase == "spot"
    context = MachinePartContext("gcp", region, terms.pool)
    if instance_inputs.has_boot_disk:
        disks = attached_disk_components(merged.disks, machine.machine_type, context)
    else:
        disks = attached_disk_components(inherited.disks, inherited.machine.machine_type, context)
    components = [
        *machine_components(machine, region, terms),
        *image_licence_components(machine),
        *disks,
    ]
    if not is_spot:
        has_affinity = instance_inputs.affinity.is_set
        source, affinity = (
            (resource, instance_inputs.affinity) if has_affinity else (template, inherited.affinity)
        )
        claim = make_reservation_claim(source, affinity, reservation_attributes(machine), graph)
        components = with_reservation_claim(components, claim)
    addresses = external_address_components(machine, context.with_billed_hours(terms.hours), is_spot=is_spot)
    return [*components, *addresses]


def make_reservation_claim(
    source: StateResource,
    affinity: ReservationAffinityInputs,
    attributes: tuple[str, ...],
    graph: ResourceGraph,
) -> ReservationClaim | None:
    """Return the reservation that an instance or template targets, else any open one that matches."""
    if affinity.refuses_reservations:
        return None
    if affinity.targets_reservation:
        target = graph.find_referenced_resource(source, RESERVATION_PATH, RESERVATION)
        return ReservationClaim(target_urn=target.urn if target else OUTSIDE_STACK, attributes=attributes)
    return ReservationClaim(
        accepts_open=True,
        zone=affinity.zone,
        attributes=attributes,
        possible_zones=affinity.possible_zones,
    )
