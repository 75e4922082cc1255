"""EC2 instances: the machine, its disks, its public address, and the reservation that may cover it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.graph import Graph
from gpufleet.cost.pricers import aws_parts
from gpufleet.cost.pricers.aws_make import address, instead, platform, surcharges, tenancy
from gpufleet.cost.pricers.aws_places import zones
from gpufleet.cost.pricers.common import named
from gpufleet.cost.pricing.component import (
    Components,
    CostComponent,
    PartContext,
    ReservationClaim,
    UnpricedComponent,
)
from gpufleet.cost.values import read_number, read_text, read_value
from gpufleet.engine import Marker, Resource

TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"


def charges(resource: Resource, graph: Graph) -> Components:
    """Bill one instance; what it leaves out may stand in its launch template."""
    found_by = (graph.find_target(resource, ("launchTemplate", key), TEMPLATE) for key in ("id", "name"))
    template = next((each for each in found_by if each), None)
    inputs = {**(template.inputs if template else {}), **resource.inputs}
    where = aws_parts.region(resource, graph)
    terms = graph.terms_of(resource, template, spot=is_spot(resource.type, inputs))
    offered = spot_price(inputs)
    terms = replace(terms, max_price=offered) if isinstance(offered, Decimal) and offered else terms
    machine = named(inputs, "instance type", "instanceType")
    if isinstance(machine, UnpricedComponent):
        return [machine]
    around = PartContext("aws", where, terms.pool)
    asked = read_value(inputs, "associatePublicIpAddress")
    asked = read_value(inputs, "networkInterfaces", 0, "associatePublicIpAddress") if asked is None else asked
    beside = [
        *aws_parts.attached(inputs, around),
        *address(resource, graph, asked, around.with_hours(terms.hours)),
    ]
    if (other := instead(inputs)) is not None:
        return [other, *beside, *surcharges(inputs)]
    main = CostComponent("machine", (machine,), "aws", where, terms=terms, hours_per_month=terms.billed_hours)
    wanted = claim(resource, inputs, graph) if terms.purchase != "spot" else None
    return [replace(main, claim=wanted), *beside, *surcharges(inputs)]


def is_spot(type_token: str, inputs: Any) -> bool | Marker | None:
    """Tell what the market setting says; None where it says nothing, a marker where nobody knows."""
    if type_token.endswith(":SpotInstanceRequest") or read_value(inputs, "spotPrice") is not None:
        return True
    market = read_text(inputs, "instanceMarketOptions", "marketType")
    return market if market is None or isinstance(market, Marker) else market == "spot"


def spot_price(inputs: Any) -> Decimal | Marker | None:
    """Return the most that an instance, template or launch configuration offers for spot."""
    said = read_number(inputs, "spotPrice")
    return read_number(inputs, "instanceMarketOptions", "spotOptions", "maxPrice") if said is None else said


def claim(
    resource: Resource, inputs: Any, graph: Graph, runs: Resource | None = None
) -> ReservationClaim | None:
    """Return the reservation an instance or template asks for; by default any open one of its make and zone.

    ``runs`` is the group that launches machines of a template, and knows their zones.
    """
    specification = ("capacityReservationSpecification",)
    if read_text(inputs, *specification, "capacityReservationPreference") == "none":
        return None
    path = (*specification, "capacityReservationTarget", "capacityReservationId")
    wanted = read_value(inputs, *path)
    if wanted is not None:
        target = graph.find_target(resource, path, RESERVATION)
        told = wanted if isinstance(wanted, str) else ""
        return ReservationClaim(
            target_urn=target.urn if target else "outside this stack", reservation_id=told
        )
    among = zones(runs, graph) if runs else frozenset[str]()
    among = among or zones(resource, graph, inputs)
    zone = next(iter(among)) if len(among) == 1 else None
    return ReservationClaim(
        accepts_open=True, zone=zone, attributes=(platform(inputs), tenancy(inputs)), possible_zones=among
    )
