"""Compute Engine instances: the machine, the cards attached to it, disks, addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import known_text, read_list, read_text, read_value
from gpufleet.cost.pricing.component import Components, PartContext, ReservationClaim, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.disk import (
    attached_disk_components,
    parse_instance_disks,
    parse_template_disks,
)
from gpufleet.cost.pricing.pricers.gcp.location import find_region, last_segment
from gpufleet.cost.pricing.pricers.gcp.machine_inputs import (
    OUTSIDE_STACK,
    RESERVATION,
    address_components,
    machine_components,
    machine_licence_components,
    parse_machine,
    reservation_attributes,
    with_claim,
)
from gpufleet.engine import Resource

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


def price_instance(resource: Resource, graph: Graph) -> Components:
    """Return one instance; a stopped one bills only its disks and addresses."""
    machine = parse_machine(resource.inputs)
    region = find_region(resource, graph)
    terms = graph.terms_of(resource, spot=machine.is_spot)
    is_spot = terms.purchase == "spot"
    is_stopped = read_text(resource.inputs, "desiredStatus") in STOPPED
    context = PartContext("gcp", region, terms.pool)
    disks = parse_instance_disks(resource.inputs)
    components = [
        *([] if is_stopped else machine_components(machine, region, terms)),
        *attached_disk_components(disks, machine.machine_type, context),
        *machine_licence_components(machine),
    ]
    if not is_spot and not is_stopped:
        affinity = parse_affinity(resource.inputs)
        claim = reservation_claim(resource, affinity, reservation_attributes(machine), graph)
        components = with_claim(components, claim)
    addresses = address_components(machine, context.with_hours(terms.hours), is_spot=is_spot)
    return [*components, *addresses]


def price_instance_from_template(resource: Resource, graph: Graph) -> Components:
    """Return an instance that takes from a template the inputs that it leaves out."""
    template = graph.find_target(resource, ("sourceInstanceTemplate",), *TEMPLATES)
    if template is None:
        return [UnpricedComponent("its instance template is not in this stack", "machine")]
    inputs = {**template.inputs, **resource.inputs}
    machine = parse_machine(inputs)
    region = find_region(resource, graph)
    terms = graph.terms_of(resource, template, spot=machine.is_spot)
    is_spot = terms.purchase == "spot"
    context = PartContext("gcp", region, terms.pool)
    if read_value(resource.inputs, "bootDisk") is not None:
        disks = attached_disk_components(parse_instance_disks(inputs), machine.machine_type, context)
    else:
        template_disks = parse_template_disks(template.inputs)
        template_type = read_text(template.inputs, "machineType")
        disks = attached_disk_components(template_disks, template_type, context)
    components = [
        *machine_components(machine, region, terms),
        *machine_licence_components(machine),
        *disks,
    ]
    if not is_spot:
        own_affinity = parse_affinity(resource.inputs)
        source = resource if own_affinity.is_set else template
        affinity = own_affinity if own_affinity.is_set else parse_affinity(template.inputs, inputs)
        claim = reservation_claim(source, affinity, reservation_attributes(machine), graph)
        components = with_claim(components, claim)
    addresses = address_components(machine, context.with_hours(terms.hours), is_spot=is_spot)
    return [*components, *addresses]


def reservation_claim(
    source: Resource, affinity: AffinityInputs, attributes: tuple[str, ...], graph: Graph
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
