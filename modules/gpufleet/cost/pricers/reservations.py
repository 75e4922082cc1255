"""Reserved capacity: bills its whole count around the clock, whether anything runs in it or not."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.graph import Graph
from gpufleet.cost.money import HOURS_PER_MONTH, Range
from gpufleet.cost.pricers import aws_parts, azure_parts, gcp_parts
from gpufleet.cost.pricers.aws_make import ALONE, LINUX, SHARED
from gpufleet.cost.pricers.azure_machine import GROUP
from gpufleet.cost.pricers.common import licence, named
from gpufleet.cost.pricers.gcp_instance import machine, make
from gpufleet.cost.pricing.component import (
    Components,
    CostComponent,
    PartContext,
    ReservedCapacity,
    UnpricedComponent,
)
from gpufleet.cost.terms import Terms
from gpufleet.cost.values import MARKER_REASONS, read_list, read_number, read_text, read_value
from gpufleet.cost.wording import number as write
from gpufleet.engine import Marker, Resource


def aws(resource: Resource, graph: Graph) -> Components:
    """Bill an On-Demand Capacity Reservation."""
    kind = named(resource.inputs, "instance type", "instanceType")
    count = _count(resource.inputs, "instanceCount")
    if isinstance(kind, UnpricedComponent) or isinstance(count, UnpricedComponent):
        return [gap for gap in (kind, count) if isinstance(gap, UnpricedComponent)]
    zone = read_text(resource.inputs, "availabilityZone")
    system = _said(resource.inputs, "instancePlatform", LINUX)
    tenancy = _said(resource.inputs, "tenancy", SHARED)
    offer = ReservedCapacity(
        frozenset({resource.urn}),
        accepts_open=read_text(resource.inputs, "instanceMatchCriteria") in (None, "open"),
        zone=zone if isinstance(zone, str) else None,
        attributes=(system, tenancy),
    )
    where = aws_parts.region(resource, graph)
    main = CostComponent(
        "machine", (kind,), "aws", where, count, terms=_terms(resource, graph), reserved_capacity=offer
    )
    alone = [UnpricedComponent(ALONE, "dedicated_tenancy")] if tenancy == "dedicated" else []
    return [main, *alone, *licence(system)]


def aws_block(resource: Resource, graph: Graph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Name a capacity block: prepaid for a term of days, at a price that its offering tells and no list has."""
    facts = {**resource.outputs, **resource.inputs}
    kind, count = read_text(facts, "instanceType"), read_number(facts, "instanceCount")
    known = isinstance(kind, str)
    held = f" of {write(count)} {kind}" if isinstance(count, Decimal) and known else ""
    return [
        UnpricedComponent(
            f"a capacity block{held} is prepaid at its offering's price, which is not in the price list",
            "machine",
        )
    ]


def gcp(resource: Resource, graph: Graph) -> Components:
    """Bill a reservation of machines and of the cards attached to them."""
    held = read_value(resource.inputs, "specificReservation")
    count = _count(held, "count")
    if isinstance(count, UnpricedComponent):
        return [count]
    zone, properties = read_text(resource.inputs, "zone"), read_value(held, "instanceProperties")
    offer = ReservedCapacity(
        frozenset({resource.urn}),
        accepts_open=read_value(resource.inputs, "specificReservationRequired") is not True,
        zone=zone.rsplit("/", 1)[-1] if isinstance(zone, str) else None,
        attributes=make(properties),
    )
    where, said = gcp_parts.region(resource, graph), _terms(resource, graph)
    found = machine(properties, where, said, count)
    around = PartContext("gcp", where, said.pool, count)
    found += gcp_parts.scratch(properties, len(read_list(properties, "localSsds")), around)
    return [
        replace(item, reserved_capacity=offer) if isinstance(item, CostComponent) else item for item in found
    ]


def azure(resource: Resource, graph: Graph) -> Components:
    """Bill a capacity reservation; machines target the group that it belongs to."""
    size = named(resource.inputs, "machine size", "sku", "name")
    count = _count(resource.inputs, "sku", "capacity")
    if isinstance(size, UnpricedComponent) or isinstance(count, UnpricedComponent):
        return [gap for gap in (size, count) if isinstance(gap, UnpricedComponent)]
    group = graph.find_target(resource, ("capacityReservationGroupName",), GROUP)
    names = frozenset(holder.urn for holder in (resource, group) if holder)
    where = azure_parts.region(resource, graph)
    return [
        CostComponent(
            "machine",
            (size,),
            "azure",
            where,
            count,
            terms=_terms(resource, graph),
            reserved_capacity=ReservedCapacity(names),
        )
    ]


def _terms(resource: Resource, graph: Graph) -> Terms:
    """Return reserved terms at all hours, with the commitment's term where the tags name one."""
    said = graph.terms_of(resource)
    purchase = said.purchase if said.reserved else "reserved"
    return replace(said, purchase=purchase, hours=HOURS_PER_MONTH)


def _said(inputs: Any, key: str, usual: str) -> str:
    found = read_text(inputs, key)
    return found if isinstance(found, str) else usual


def _count(inputs: Any, *path: str) -> Range | UnpricedComponent:
    found = read_number(inputs, *path)
    if isinstance(found, Decimal):
        return Range.of(found)
    return UnpricedComponent(
        f"reserved count is {MARKER_REASONS[found] if isinstance(found, Marker) else 'not set'}", "machine"
    )
