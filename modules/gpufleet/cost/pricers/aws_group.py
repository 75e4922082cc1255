"""Auto Scaling groups: machines as their launch template says, split between on-demand and spot."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.demand import Around, Demand, Findings, Gap
from gpufleet.cost.graph import Graph
from gpufleet.cost.money import NOTHING, ZERO
from gpufleet.cost.pricers import aws_parts
from gpufleet.cost.pricers.aws_instance import TEMPLATE, claim, is_spot
from gpufleet.cost.pricers.common import HUNDRED, bounds, mixed, named
from gpufleet.cost.terms import tags
from gpufleet.cost.values import dig, items, number, text
from gpufleet.engine import Marker, Resource

STANDBY = "standby"  # the tag of a group that sleeps until spot machines are missing
SPECIFICATION = ("mixedInstancesPolicy", "launchTemplate", "launchTemplateSpecification", "launchTemplateId")
OVERRIDES = ("mixedInstancesPolicy", "launchTemplate", "overrides")
DISTRIBUTION = ("mixedInstancesPolicy", "instancesDistribution")


def charges(resource: Resource, graph: Graph) -> Findings:
    """Bill a group between its minimum and maximum size."""
    main = _stands_in_for(resource, graph)
    template = _template(resource, graph)
    if template is None:
        return [Gap("its launch template is not in this stack", "machine")]
    size = bounds(*(number(resource.inputs, key) for key in ("minSize", "desiredCapacity", "maxSize")))
    count = graph.sized(resource, size)
    if count is None:
        return [Gap("group size is not known until deployment", "machine")]
    machines = _machines(resource, template)
    if isinstance(machines, Gap):
        return [machines]
    where = aws_parts.region(resource, graph)
    terms = graph.terms(resource, template, spot=is_spot(template.type, template.inputs))
    machine = Demand("machine", machines, "aws", where, count, terms=terms, hours=terms.billed_hours)
    if terms.purchase != "spot":
        machine = replace(machine, claim=claim(template, template.inputs, graph))
    if main is not None:
        return [replace(machine, count=NOTHING, claim=None, note=f"in the range of {main.name}")]
    found = _bought(machine, resource)
    around = Around("aws", where, terms.pool, count, terms.billed_hours)
    found += aws_parts.mapped(template.inputs, around)
    if dig(template.inputs, "networkInterfaces", 0, "associatePublicIpAddress") in (True, "true"):
        found.append(around.part("public_ipv4", "public_ipv4"))
    return found


def _stands_in_for(resource: Resource, graph: Graph) -> Resource | None:
    """Return the spot group whose missing machines this one starts: its range reaches on-demand already."""
    own = tags(resource.inputs)
    if own.get("gpufleet-fallback") != STANDBY:
        return None
    for other in graph.of_kind(resource.type):
        theirs = tags(other.inputs)
        if theirs.get("gpufleet-fallback") == "on_demand" and theirs.get("gpufleet-pool") == own.get(
            "gpufleet-pool"
        ):
            return other
    return None


def _template(resource: Resource, graph: Graph) -> Resource | None:
    mixed_policy = dig(resource.inputs, "mixedInstancesPolicy") is not None
    path = SPECIFICATION if mixed_policy else ("launchTemplate", "id")
    return graph.target(resource, path, TEMPLATE)


def _machines(resource: Resource, template: Resource) -> tuple[str, ...] | Gap:
    """Return the types a group may launch: its overrides, else its template's."""
    overrides = items(resource.inputs, *OVERRIDES)
    if any(number(entry, "weightedCapacity") not in (None, Decimal(1)) for entry in overrides):
        return Gap("weighted capacity: its size counts units, not machines", "machine")
    named_types = [text(entry, "instanceType") for entry in overrides]
    if any(isinstance(name, Marker) for name in named_types):
        return Gap("instance type is not known until deployment", "machine")
    types = tuple(name for name in named_types if isinstance(name, str))
    if types:
        return types
    only = named(template.inputs, "instance type", "instanceType")
    return only if isinstance(only, Gap) else (only,)


def _bought(machine: Demand, resource: Resource) -> Findings:
    distribution: Any = dig(resource.inputs, *DISTRIBUTION)
    if distribution is None:
        return [machine]
    base = number(distribution, "onDemandBaseCapacity")
    percent = number(distribution, "onDemandPercentageAboveBaseCapacity")
    if isinstance(base, Marker) or isinstance(percent, Marker):
        return [Gap("the share of spot is not known until deployment", "machine")]
    return mixed(machine, ZERO if base is None else base, HUNDRED if percent is None else percent)
