"""Compute Engine instances: the machine, the cards attached to it, disks, addresses."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from gpufleet.cost.inputs.values import text_if_known
from gpufleet.cost.pricing.component import ReservationClaim
from gpufleet.cost.pricing.pricers.gcp.disk import list_instance_disks, list_template_disks
from gpufleet.cost.pricing.pricers.gcp.location import last_url_segment, pricer
from gpufleet.cost.pricing.pricers.gcp.machine import (
    OUTSIDE_STACK,
    RESERVATION,
    find_machine_type,
    find_reservation_attributes,
    find_spot,
    list_addresses,
    list_image_licence,
    list_machine,
    with_reservation_claim,
)
from gpufleet.cost.pricing.pricers.licence import list_licences
from gpufleet.cost.pricing.pricers.reader import Parts, Reader, Unpriced
from gpufleet.engine import StateResource, UnreadableValue

TEMPLATES = (
    "gcp:compute/instanceTemplate:InstanceTemplate",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
)
DISK = "gcp:compute/disk:Disk"
RESERVATION_PATH = "reservationAffinity.specificReservation.values.0"
STOPPED = ("TERMINATED", "SUSPENDED")


@pricer("gcp:compute/instance:Instance")
def price_compute_instance(instance: Reader) -> Parts:
    """Yield one instance; a stopped one bills only its disks and addresses."""
    machine = instance.bought(spot=find_spot(instance))
    disks = list_instance_disks(machine.all_month(), find_machine_type(machine))
    if instance.find_text("desiredStatus") in STOPPED:
        yield from disks
    else:
        claim = find_reservation_claim(machine, instance.resource)
        yield from with_reservation_claim(list_machine(machine), claim)
        yield from with_reservation_claim(disks, claim)
    yield from list_boot_image_licence(machine)
    yield from list_addresses(_while_running(machine))


def list_boot_image_licence(instance: Reader) -> Parts:
    """Yield the licence of the image of an instance, also of a boot disk that is a resource of its own."""
    licences = list(list_image_licence(instance))
    disk = instance.find_resource("bootDisk.source", DISK)
    if disk and not licences:
        image = instance.reading(disk).find_text("image")
        licences += list_licences(instance, None if isinstance(image, UnreadableValue) else image or "")
    yield from licences


@pricer("gcp:compute/instanceFromTemplate:InstanceFromTemplate")
def price_instance_from_template(instance: Reader) -> Parts:
    """Yield an instance that takes from a template the inputs that it leaves out."""
    template = instance.find_resource("sourceInstanceTemplate", *TEMPLATES)
    if template is None:
        raise instance.of("machine").refuse("its instance template is not in this stack")
    merged = replace(instance, inputs={**template.inputs, **instance.inputs})
    machine = merged.bought(template, spot=find_spot(merged))
    source = instance.resource if instance.has("reservationAffinity") else template
    claim = find_reservation_claim(machine, source)
    yield from with_reservation_claim(list_machine(machine), claim)
    disks = machine.all_month()
    if instance.has("bootDisk"):
        parts = list_instance_disks(disks, find_machine_type(machine))
    else:
        parts = list_template_disks(disks.reading(template), find_machine_type(machine))
    yield from with_reservation_claim(parts, claim)
    yield from list_image_licence(machine)
    yield from list_addresses(_while_running(machine))


def _while_running(instance: Reader) -> Reader:
    """Return the reader for what an instance has while it runs, also one whose reservation bills all month."""
    return replace(instance, hours=instance.terms.hours)


def find_reservation_claim(machine: Reader, source: StateResource) -> ReservationClaim | None:
    """Return the reservation that an instance or template targets, else any open one that matches.

    ``machine`` has the zones that are possible; ``source`` is the resource with the affinity. Spot uses no reservation.
    """
    affinity = machine.reading(source)
    refuses = affinity.find_text("reservationAffinity.type") == "NO_RESERVATION"
    if refuses or machine.terms.purchase == "spot":
        return None
    attributes = find_reservation_attributes(machine)
    if affinity.has(RESERVATION_PATH):
        target = affinity.find_resource(RESERVATION_PATH, RESERVATION)
        return ReservationClaim(target_urn=target.urn if target else OUTSIDE_STACK, attributes=attributes)
    zone = text_if_known(machine.find_text("zone"))
    return ReservationClaim(
        accepts_open=True,
        zone=None if zone is None else last_url_segment(zone),
        attributes=attributes,
        possible_zones=_find_possible_zones(machine),
    )


def _find_possible_zones(machine: Reader) -> frozenset[str]:
    """Return the zones that a group may choose from; empty if one is not known."""
    with suppress(Unpriced):
        return frozenset(zone.text("") for zone in machine.entries("distributionPolicyZones"))
    return frozenset()
