"""Reserved capacity: bills its whole count around the clock, whether anything runs in it or not."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.demand import Around, Demand, Findings, Gap, Offer
from gpufleet.cost.graph import Graph
from gpufleet.cost.money import HOURS_PER_MONTH, Range
from gpufleet.cost.pricers import aws_parts, azure_parts, gcp_parts
from gpufleet.cost.pricers.aws_make import ALONE, LINUX, SHARED
from gpufleet.cost.pricers.azure_machine import GROUP
from gpufleet.cost.pricers.common import licence, named
from gpufleet.cost.pricers.gcp_instance import machine, make
from gpufleet.cost.terms import Terms
from gpufleet.cost.values import WHY, dig, items, number, text
from gpufleet.cost.wording import number as write
from gpufleet.engine import Marker, Resource


def aws(resource: Resource, graph: Graph) -> Findings:
    """Bill an On-Demand Capacity Reservation."""
    kind = named(resource.inputs, "instance type", "instanceType")
    count = _count(resource.inputs, "instanceCount")
    if isinstance(kind, Gap) or isinstance(count, Gap):
        return [gap for gap in (kind, count) if isinstance(gap, Gap)]
    zone = text(resource.inputs, "availabilityZone")
    system = _said(resource.inputs, "instancePlatform", LINUX)
    tenancy = _said(resource.inputs, "tenancy", SHARED)
    offer = Offer(
        frozenset({resource.urn}),
        open=text(resource.inputs, "instanceMatchCriteria") in (None, "open"),
        zone=zone if isinstance(zone, str) else None,
        make=(system, tenancy),
    )
    where = aws_parts.region(resource, graph)
    main = Demand("machine", (kind,), "aws", where, count, terms=_terms(resource, graph), offer=offer)
    alone = [Gap(ALONE, "dedicated_tenancy")] if tenancy == "dedicated" else []
    return [main, *alone, *licence(system)]


def aws_block(resource: Resource, graph: Graph) -> Findings:  # noqa: ARG001 - every pricer's signature
    """Name a capacity block: prepaid for a term of days, at a price that its offering tells and no list has."""
    facts = {**resource.outputs, **resource.inputs}
    kind, count = text(facts, "instanceType"), number(facts, "instanceCount")
    known = isinstance(kind, str)
    held = f" of {write(count)} {kind}" if isinstance(count, Decimal) and known else ""
    return [
        Gap(
            f"a capacity block{held} is prepaid at its offering's price, which is not in the price list",
            "machine",
        )
    ]


def gcp(resource: Resource, graph: Graph) -> Findings:
    """Bill a reservation of machines and of the cards attached to them."""
    held = dig(resource.inputs, "specificReservation")
    count = _count(held, "count")
    if isinstance(count, Gap):
        return [count]
    zone, properties = text(resource.inputs, "zone"), dig(held, "instanceProperties")
    offer = Offer(
        frozenset({resource.urn}),
        open=dig(resource.inputs, "specificReservationRequired") is not True,
        zone=zone.rsplit("/", 1)[-1] if isinstance(zone, str) else None,
        make=make(properties),
    )
    where, said = gcp_parts.region(resource, graph), _terms(resource, graph)
    found = machine(properties, where, said, count)
    around = Around("gcp", where, said.pool, count)
    found += gcp_parts.scratch(properties, len(items(properties, "localSsds")), around)
    return [replace(item, offer=offer) if isinstance(item, Demand) else item for item in found]


def azure(resource: Resource, graph: Graph) -> Findings:
    """Bill a capacity reservation; machines target the group that it belongs to."""
    size = named(resource.inputs, "machine size", "sku", "name")
    count = _count(resource.inputs, "sku", "capacity")
    if isinstance(size, Gap) or isinstance(count, Gap):
        return [gap for gap in (size, count) if isinstance(gap, Gap)]
    group = graph.target(resource, ("capacityReservationGroupName",), GROUP)
    names = frozenset(holder.urn for holder in (resource, group) if holder)
    where = azure_parts.region(resource, graph)
    return [
        Demand("machine", (size,), "azure", where, count, terms=_terms(resource, graph), offer=Offer(names))
    ]


def _terms(resource: Resource, graph: Graph) -> Terms:
    """Return reserved terms at all hours, with the commitment's term where the tags name one."""
    said = graph.terms(resource)
    purchase = said.purchase if said.reserved else "reserved"
    return replace(said, purchase=purchase, hours=HOURS_PER_MONTH)


def _said(inputs: Any, key: str, usual: str) -> str:
    found = text(inputs, key)
    return found if isinstance(found, str) else usual


def _count(inputs: Any, *path: str) -> Range | Gap:
    found = number(inputs, *path)
    if isinstance(found, Decimal):
        return Range.of(found)
    return Gap(f"reserved count is {WHY[found] if isinstance(found, Marker) else 'not set'}", "machine")
