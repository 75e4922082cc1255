"""Compute Engine instances: the machine, the cards attached to it, disks, addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.terms import Terms
from gpufleet.cost.inputs.values import MARKER_REASONS, read_list, read_number, read_text, read_value
from gpufleet.cost.money import ONE, Range
from gpufleet.cost.pricing.component import (
    Components,
    CostComponent,
    PartContext,
    ReservationClaim,
    UnpricedComponent,
)
from gpufleet.cost.pricing.pricers import gcp_parts
from gpufleet.cost.pricing.pricers.common import named, unsaid
from gpufleet.engine import Marker, Resource

FLEX = "starts through the Dynamic Workload Scheduler, whose rates are not in the price list"
TEMPLATES = (
    "gcp:compute/instanceTemplate:InstanceTemplate",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
)
RESERVATION = "gcp:compute/reservation:Reservation"


def charges(resource: Resource, graph: Graph) -> Components:
    """Bill one instance."""
    where = gcp_parts.region(resource, graph)
    terms = graph.terms_of(resource, spot=is_spot(resource.inputs))
    stopped = read_text(resource.inputs, "desiredStatus") in ("TERMINATED", "SUSPENDED")
    found = [] if stopped else machine(resource.inputs, where, terms)
    around = PartContext("gcp", where, terms.pool)
    found += [*gcp_parts.attached(resource.inputs, around), *gcp_parts.licences(resource.inputs)]
    if terms.purchase != "spot" and not stopped:
        found = claimed(found, claim(resource, graph))
    spot = terms.purchase == "spot"
    return [*found, *gcp_parts.addresses(resource.inputs, around.with_hours(terms.hours), spot=spot)]


def from_template(resource: Resource, graph: Graph) -> Components:
    """Bill an instance that takes from a template what it does not say itself."""
    template = graph.find_target(resource, ("sourceInstanceTemplate",), *TEMPLATES)
    if template is None:
        return [UnpricedComponent("its instance template is not in this stack", "machine")]
    inputs = {**template.inputs, **resource.inputs}
    where = gcp_parts.region(resource, graph)
    terms = graph.terms_of(resource, template, spot=is_spot(inputs))
    spot, around = terms.purchase == "spot", PartContext("gcp", where, terms.pool)
    found = machine(inputs, where, terms)
    own = read_value(resource.inputs, "reservationAffinity") is not None
    found += gcp_parts.licences(inputs)
    asked = claim(resource, graph) if own else claim(template, graph, resource)
    booted = read_value(resource.inputs, "bootDisk") is not None
    found += gcp_parts.attached(inputs, around) if booted else gcp_parts.templated(template.inputs, around)
    found = found if spot else claimed(found, asked and replace(asked, attributes=make(inputs)))
    return [*found, *gcp_parts.addresses(inputs, around.with_hours(terms.hours), spot=spot)]


def machine(inputs: Any, where: str, terms: Terms, count: Range = ONE) -> Components:
    """Bill a machine type, and beside it the cards that the type does not imply."""
    name = named(inputs, "machine type", "machineType")
    if isinstance(name, UnpricedComponent):
        return [name]
    short = name.rsplit("/", 1)[-1]
    if read_text(inputs, "scheduling", "provisioningModel") == "FLEX_START":
        return [UnpricedComponent(f"{short} {FLEX}", "machine")]
    main = CostComponent(
        "machine", (short,), "gcp", where, count, terms=terms, hours_per_month=terms.billed_hours
    )
    hidden = unsaid(inputs, "its accelerators are", "accelerators", "guestAccelerators")
    hidden = [] if _implied(short) else hidden
    return [main, *_cards(main, read_list(inputs, "guestAccelerators")), *hidden]


def _cards(main: CostComponent, cards: list[Any]) -> Iterator[CostComponent | UnpricedComponent]:
    for at, card in enumerate(cards):
        component = f"accelerators:{at}" if at else "accelerators"
        model = read_text(card, "type") or read_text(card, "acceleratorType")
        each = read_number(card, "count" if read_value(card, "count") is not None else "acceleratorCount")
        if each == 0:
            continue
        if not isinstance(model, str) or not isinstance(each, Decimal):
            why = next(
                (MARKER_REASONS[value] for value in (model, each) if isinstance(value, Marker)), "not set"
            )
            yield UnpricedComponent(f"accelerator type or count is {why}", component)
        elif not _implied(main.items[0]):
            item = f"accelerator:{model.rsplit('/', 1)[-1]}"
            yield replace(main, component=component, items=(item,), size=each, is_part=True)


def _implied(machine_type: str) -> bool:
    """Tell whether a machine type's price already holds its cards: only N1 takes cards by the piece."""
    return not machine_type.startswith(("n1-", "custom-"))


def is_spot(inputs: Any) -> bool | Marker | None:
    """Tell what the scheduling says; None where it says nothing, a marker where nobody knows."""
    model = read_text(inputs, "scheduling", "provisioningModel")
    if isinstance(model, str):
        return model.upper() == "SPOT"
    preemptible = read_value(inputs, "scheduling", "preemptible")
    if isinstance(model, Marker) or preemptible is None:
        return model
    return preemptible if isinstance(preemptible, (bool, Marker)) else None


def claim(resource: Resource, graph: Graph, runs: Resource | None = None) -> ReservationClaim | None:
    """Return the reservation that an instance or template asks for; by default any open one of its make.

    ``runs`` is what is made from a template: it knows the zone.
    """
    affinity = read_value(resource.inputs, "reservationAffinity")
    if read_text(affinity, "type") == "NO_RESERVATION":
        return None
    said = {**resource.inputs, **(runs.inputs if runs else {})}
    path: tuple[str | int, ...] = ("reservationAffinity", "specificReservation", "values", 0)
    if read_value(resource.inputs, *path) is None:
        zone, several = read_text(said, "zone"), read_list(said, "distributionPolicyZones")
        where = zone.rsplit("/", 1)[-1] if isinstance(zone, str) else None
        among = frozenset(each for each in several if isinstance(each, str))
        among = among if len(among) == len(several) else frozenset()
        return ReservationClaim(accepts_open=True, zone=where, attributes=make(said), possible_zones=among)
    target = graph.find_target(resource, path, RESERVATION)
    return ReservationClaim(target_urn=target.urn if target else "outside this stack", attributes=make(said))


def make(inputs: Any) -> tuple[str, ...]:
    """Return what a reservation and a machine in it must have alike beside the type: cards and local disks."""
    kind = read_text(inputs, "machineType")
    short = kind.rsplit("/", 1)[-1] if isinstance(kind, str) else ""
    cards = [] if _implied(short) else read_list(inputs, "guestAccelerators")
    told = sorted(
        f"{read_value(each, 'type') or read_value(each, 'acceleratorType')}".rsplit("/", 1)[-1]
        + f" x {read_value(each, 'count') or read_value(each, 'acceleratorCount')}"
        for each in cards
    )
    return ("+".join(told), "+".join(sorted(gcp_parts.local_disks(short, inputs))))


def claimed(found: Components, wanted: ReservationClaim | None) -> Components:
    """Return the findings with machines, cards and local disks that ask for a reservation."""
    return [
        replace(each, claim=wanted) if isinstance(each, CostComponent) and _held(each) else each
        for each in found
    ]


def _held(demand: CostComponent) -> bool:
    """Tell whether a reservation holds such a thing: not the other disks, nor addresses."""
    return (
        not demand.is_part
        or demand.items[0].startswith("accelerator:")
        or demand.items[0] == gcp_parts.LOCAL_SSD
    )
