"""Azure scale sets: machines as their profile says, between the autoscale setting's bounds."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import read_list, read_number, read_text, read_value
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers import azure_parts
from gpufleet.cost.pricing.pricers.azure_machine import capped, claim, is_spot, licence
from gpufleet.cost.pricing.pricers.common import HUNDRED, bounds, mixed, named
from gpufleet.engine import Marker, Resource

AUTOSCALERS = ("azure-native:insights:AutoscaleSetting", "azure-native:monitor:AutoscaleSetting")
RESERVED_IN = ("virtualMachineProfile", "capacityReservation", "capacityReservationGroup", "id")


def charges(resource: Resource, graph: Graph) -> Components:
    """Bill a scale set at its capacity, between the bounds of its autoscale setting where it has one."""
    profile = read_value(resource.inputs, "virtualMachineProfile") or {}
    if not profile and read_value(resource.inputs, "sku") is None:
        return []  # a flexible set without a profile only groups machines that are billed where they are declared
    machines = _sizes(resource)
    count = graph.resolve_size(resource, _count(resource, graph))
    if isinstance(machines, UnpricedComponent):
        return [machines]
    if count is None:
        return [UnpricedComponent("scale set capacity is not known until deployment", "machine")]
    where = azure_parts.region(resource, graph)
    terms = capped(graph.terms_of(resource, spot=is_spot(profile)), profile)
    main = CostComponent(
        "machine", machines, "azure", where, count, terms=terms, hours_per_month=terms.billed_hours
    )
    main = replace(main, claim=claim(resource, graph, RESERVED_IN))
    around = PartContext("azure", where, terms.pool, count, terms.billed_hours)
    disks = azure_parts.attached(read_value(profile, "storageProfile"), around)
    return [*_bought(main, resource), *disks, *azure_parts.addresses(profile, around), *licence(profile)]


def _sizes(resource: Resource) -> tuple[str, ...] | UnpricedComponent:
    """Return the machine size; of an instance mix, each that it may launch, by rank."""
    mixed_of = sorted(
        read_list(resource.inputs, "skuProfile", "vmSizes"),
        key=lambda each: str(read_value(each, "rank") or 0),
    )
    names = [read_text(each, "name") for each in mixed_of]
    if names and all(isinstance(name, str) for name in names):
        return tuple(str(name) for name in names)
    only = named(resource.inputs, "machine size", "sku", "name")
    return only if isinstance(only, UnpricedComponent) else (only,)


def _bought(main: CostComponent, resource: Resource) -> Components:
    """Return the machines, split where a flexible scale set mixes priorities."""
    mix = read_value(resource.inputs, "priorityMixPolicy")
    if mix is None:
        return [main]
    base = read_number(mix, "baseRegularPriorityCount")
    percent = read_number(mix, "regularPriorityPercentageAboveBase")
    if isinstance(base, Marker) or isinstance(percent, Marker):
        return [UnpricedComponent("the share of spot is not known until deployment", "machine")]
    return mixed(main, ZERO if base is None else base, HUNDRED if percent is None else percent)


def _count(resource: Resource, graph: Graph) -> Range | None:
    wanted = read_number(resource.inputs, "sku", "capacity")
    scaler = _autoscaler(resource, graph)
    if scaler is None:
        return bounds(wanted, wanted, wanted)
    profiles = read_list(scaler.inputs, "profiles")
    each = [
        bounds(*(read_number(one, "capacity", key) for key in ("minimum", "default", "maximum")))
        for one in profiles
    ]
    known = [one for one in each if one]
    if not known or len(known) < len(each):
        return None
    low, high = min(one.low for one in known), max(one.high for one in known)
    return bounds(low, wanted if isinstance(wanted, Decimal) else known[0].expected, high)


def _autoscaler(resource: Resource, graph: Graph) -> Resource | None:
    return next(iter(graph.find_referrers(resource, ("targetResourceUri",), *AUTOSCALERS)), None)
