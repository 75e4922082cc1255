"""Managed instance groups: machines as their template says, between the autoscaler's bounds."""

from __future__ import annotations

from gpufleet.cost.demand import Around, Findings, Gap
from gpufleet.cost.graph import Graph
from gpufleet.cost.money import Range
from gpufleet.cost.pricers import gcp_parts
from gpufleet.cost.pricers.common import bounds
from gpufleet.cost.pricers.gcp_instance import claim, claimed, is_spot, machine
from gpufleet.cost.values import number
from gpufleet.engine import Resource

TEMPLATES = (
    "gcp:compute/instanceTemplate:InstanceTemplate",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
)
AUTOSCALERS = ("gcp:compute/autoscaler:Autoscaler", "gcp:compute/regionAutoscaler:RegionAutoscaler")


def charges(resource: Resource, graph: Graph) -> Findings:
    """Bill a group at its target size, between the bounds of its autoscaler where it has one."""
    template = graph.target(resource, ("versions", 0, "instanceTemplate"), *TEMPLATES)
    if template is None:
        return [Gap("its instance template is not in this stack", "machine")]
    count = graph.sized(resource, _count(resource, graph))
    if count is None:
        return [Gap("group size is not known until deployment", "machine")]
    where = gcp_parts.region(resource, graph) or gcp_parts.region(template, graph)
    terms = graph.terms(resource, template, spot=is_spot(template.inputs))
    found = machine(template.inputs, where, terms, count)
    if terms.purchase != "spot":
        found = claimed(found, claim(template, graph))
    around = Around("gcp", where, terms.pool, count, terms.billed_hours)
    found += gcp_parts.templated(template.inputs, around)
    return [*found, *gcp_parts.addresses(template.inputs, around, spot=terms.purchase == "spot")]


def _count(resource: Resource, graph: Graph) -> Range | None:
    wanted = number(resource.inputs, "targetSize")
    scaler = _autoscaler(resource, graph)
    if scaler is None:
        return bounds(wanted, wanted, wanted)
    policy = ("autoscalingPolicy",)
    low = number(scaler.inputs, *policy, "minReplicas")
    return bounds(low, wanted, number(scaler.inputs, *policy, "maxReplicas"))


def _autoscaler(resource: Resource, graph: Graph) -> Resource | None:
    for scaler in graph.of_kind(*AUTOSCALERS):
        target = graph.target(scaler, ("target",), resource.type)
        if target is not None and target.urn == resource.urn:
            return scaler
    return None
