"""Azure scale sets: machines as their profile says, between the autoscale setting's bounds."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.demand import Around, Demand, Findings, Gap
from gpufleet.cost.graph import Graph, kind
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricers import azure_parts
from gpufleet.cost.pricers.azure_machine import claim, is_spot
from gpufleet.cost.pricers.common import HUNDRED, bounds, mixed, named
from gpufleet.cost.values import dig, number
from gpufleet.engine import Marker, Resource

AUTOSCALERS = ("azure-native:insights:AutoscaleSetting", "azure-native:monitor:AutoscaleSetting")
RESERVED_IN = ("virtualMachineProfile", "capacityReservation", "capacityReservationGroup", "id")


def charges(resource: Resource, graph: Graph) -> Findings:
    """Bill a scale set at its capacity, between the bounds of its autoscale setting where it has one."""
    profile = dig(resource.inputs, "virtualMachineProfile") or {}
    machine = named(resource.inputs, "machine size", "sku", "name")
    count = graph.sized(resource, _count(resource, graph))
    if isinstance(machine, Gap):
        return [machine]
    if count is None:
        return [Gap("scale set capacity is not known until deployment", "machine")]
    where = azure_parts.region(resource, graph)
    terms = graph.terms(resource, spot=is_spot(profile))
    wanted = claim(resource, graph, RESERVED_IN)
    main = Demand(
        "machine", (machine,), "azure", where, count, terms=terms, hours=terms.billed_hours, claim=wanted
    )
    around = Around("azure", where, terms.pool, count, terms.billed_hours)
    disks = azure_parts.attached(dig(profile, "storageProfile"), around)
    return [*_bought(main, resource), *disks, *azure_parts.addresses(profile, around)]


def _bought(main: Demand, resource: Resource) -> Findings:
    """Return the machines, split where a flexible scale set mixes priorities."""
    mix = dig(resource.inputs, "priorityMixPolicy")
    if mix is None:
        return [main]
    base = number(mix, "baseRegularPriorityCount")
    percent = number(mix, "regularPriorityPercentageAboveBase")
    if isinstance(base, Marker) or isinstance(percent, Marker):
        return [Gap("the share of spot is not known until deployment", "machine")]
    return mixed(main, ZERO if base is None else base, HUNDRED if percent is None else percent)


def _count(resource: Resource, graph: Graph) -> Range | None:
    wanted = number(resource.inputs, "sku", "capacity")
    scaler = _autoscaler(resource, graph)
    if scaler is None:
        return bounds(wanted, wanted, wanted)
    capacity = ("profiles", 0, "capacity")
    low, high = (number(scaler.inputs, *capacity, key) for key in ("minimum", "maximum"))
    start = number(scaler.inputs, *capacity, "default")
    return bounds(low, wanted if isinstance(wanted, Decimal) else start, high)


def _autoscaler(resource: Resource, graph: Graph) -> Resource | None:
    for scaler in graph.of_kind(*AUTOSCALERS):
        target = graph.target(scaler, ("targetResourceUri",), kind(resource.type))
        if target is not None and target.urn == resource.urn:
            return scaler
    return None
