"""EC2 instances: the machine, its disks, its public address, and the reservation that may cover it."""

from __future__ import annotations

from typing import Any

from gpufleet.cost.demand import Around, Claim, Demand, Findings, Gap
from gpufleet.cost.graph import Graph
from gpufleet.cost.pricers import aws_parts
from gpufleet.cost.pricers.common import named
from gpufleet.cost.values import dig, text
from gpufleet.engine import Marker, Resource

TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"


def charges(resource: Resource, graph: Graph) -> Findings:
    """Bill one instance; what it leaves out may stand in its launch template."""
    template = graph.target(resource, ("launchTemplate", "id"), TEMPLATE)
    inputs = {**(template.inputs if template else {}), **resource.inputs}
    where = aws_parts.region(resource, graph)
    terms = graph.terms(resource, template, spot=is_spot(resource.type, inputs))
    machine = named(inputs, "instance type", "instanceType")
    if isinstance(machine, Gap):
        return [machine]
    found: Findings = [
        Demand(
            "machine",
            (machine,),
            "aws",
            where,
            terms=terms,
            hours=terms.billed_hours,
            claim=claim(resource, inputs, graph) if terms.purchase != "spot" else None,
        )
    ]
    around = Around("aws", where, terms.pool)
    found += aws_parts.attached(inputs, around)
    if dig(inputs, "associatePublicIpAddress") is True:
        found.append(around.for_hours(terms.hours).part("public_ipv4", "public_ipv4"))
    return found


def is_spot(type_token: str, inputs: Any) -> bool | None:
    """Tell what the market setting says; None where it says nothing."""
    if type_token.endswith(":SpotInstanceRequest"):
        return True
    market = text(inputs, "instanceMarketOptions", "marketType")
    return None if market is None else market == "spot"


def claim(resource: Resource, inputs: Any, graph: Graph) -> Claim | None:
    """Return the reservation an instance or template asks for; by default any open one of its type and zone."""
    specification = ("capacityReservationSpecification",)
    if text(inputs, *specification, "capacityReservationPreference") == "none":
        return None
    path = (*specification, "capacityReservationTarget", "capacityReservationId")
    wanted = dig(inputs, *path)
    if wanted is not None:
        target = graph.target(resource, path, RESERVATION)
        told = wanted if isinstance(wanted, str) else ""
        return Claim(target=target.urn if target else "outside this stack", reservation=told)
    zone = text(inputs, "availabilityZone")
    return Claim(open=True, zone=zone if isinstance(zone, str) and not isinstance(zone, Marker) else None)
