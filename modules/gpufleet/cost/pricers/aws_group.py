"""Auto Scaling groups: machines as their launch template says, split between on-demand and spot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpufleet.cost.graph import Graph
from gpufleet.cost.money import ZERO, ZERO_RANGE
from gpufleet.cost.pricers import aws_launch, aws_parts
from gpufleet.cost.pricers.aws_instance import claim, is_spot, spot_price
from gpufleet.cost.pricers.aws_make import instead
from gpufleet.cost.pricers.aws_schedule import scheduled
from gpufleet.cost.pricers.common import HUNDRED, bounds, mixed, unsaid
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.terms import tags
from gpufleet.cost.values import read_list, read_number, read_text, read_value
from gpufleet.engine import Marker, Resource

STANDBY = "standby"  # the tag of a group that sleeps until spot machines are missing
MIXED = ("mixedInstancesPolicy", "launchTemplate")
SPECIFICATION = (*MIXED, "launchTemplateSpecification")
TEMPLATES: tuple[tuple[str | int, ...], ...] = (
    (*SPECIFICATION, "launchTemplateId"),
    (*SPECIFICATION, "launchTemplateName"),
    ("launchTemplate", "id"),
    ("launchTemplate", "name"),
    ("launchConfiguration",),
)
DISTRIBUTION = ("mixedInstancesPolicy", "instancesDistribution")


def charges(resource: Resource, graph: Graph) -> Components:
    """Bill a group between its minimum and maximum size."""
    if read_value(resource.inputs, "desiredCapacityType") not in (None, "units"):
        return [UnpricedComponent("its size counts vCPUs or memory, not machines", "machine")]
    source = aws_launch.template(resource, graph, *TEMPLATES)
    sizes = (read_number(resource.inputs, key) for key in ("minSize", "desiredCapacity", "maxSize"))
    size, note = scheduled(resource, graph, bounds(*sizes))
    units = graph.resolve_size(resource, size)
    hidden = unsaid(resource.inputs, "its types are", "machine", *MIXED, "overrides")
    kinds = hidden[0] if hidden else aws_launch.kinds(read_list(resource.inputs, *MIXED, "overrides"), source)
    if units is None:
        return [UnpricedComponent("group size is not known until deployment", "machine")]
    if isinstance(kinds, UnpricedComponent):
        return [kinds]
    where = aws_parts.region(resource, graph)
    terms = graph.terms_of(resource, source, spot=is_spot(source.type, source.inputs) if source else None)
    offered = [
        read_number(resource.inputs, *DISTRIBUTION, "spotMaxPrice"),
        spot_price(source.inputs if source else {}),
    ]
    terms = aws_launch.bidding(terms, *offered)
    machine = CostComponent(
        "machine",
        kinds.names,
        "aws",
        where,
        units,
        terms=terms,
        hours_per_month=terms.billed_hours,
        note=note,
    )
    if source and terms.purchase != "spot" and not kinds.weighted:
        machine = replace(machine, claim=claim(source, source.inputs, graph, resource))
    if (main := _stands_in_for(resource, graph)) is not None:
        return [replace(machine, count=ZERO_RANGE, claim=None, note=f"in the range of {main.name}")]
    around = PartContext("aws", where, terms.pool, kinds.disks(units), terms.billed_hours)
    bought = aws_launch.in_machines(_bought(machine, resource), kinds)
    if source and (other := instead(source.inputs)):
        bought = [other]
    return [*bought, *aws_launch.beside(source, around, resource, graph), *_warm(resource)]


def _stands_in_for(resource: Resource, graph: Graph) -> Resource | None:
    """Return the spot group whose missing machines this one starts: its range reaches on-demand already."""
    own = tags(resource.inputs)
    if own.get("gpufleet-fallback") != STANDBY:
        return None
    for other in graph.resources_of_type(resource.type):
        theirs = tags(other.inputs)
        if theirs.get("gpufleet-fallback") == "on_demand" and theirs.get("gpufleet-pool") == own.get(
            "gpufleet-pool"
        ):
            return other
    return None


def _bought(machine: CostComponent, resource: Resource) -> Components:
    distribution: Any = read_value(resource.inputs, *DISTRIBUTION)
    if distribution is None:
        return [machine]
    base = read_number(distribution, "onDemandBaseCapacity")
    percent = read_number(distribution, "onDemandPercentageAboveBaseCapacity")
    if isinstance(base, Marker) or isinstance(percent, Marker):
        return [UnpricedComponent("the share of spot is not known until deployment", "machine")]
    return mixed(machine, ZERO if base is None else base, HUNDRED if percent is None else percent)


def _warm(resource: Resource) -> Components:
    """Name the machines that wait beside a group; stopped ones bill their disks, running ones all."""
    if read_value(resource.inputs, "warmPool") is None:
        return []
    state = read_text(resource.inputs, "warmPool", "poolState")
    return [
        UnpricedComponent(
            f"its warm pool ({state if isinstance(state, str) else 'Stopped'}) is not priced", "warm_pool"
        )
    ]
