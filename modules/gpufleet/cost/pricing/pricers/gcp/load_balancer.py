"""Forwarding rules, by which load balancers bill: the first five of a place have one price together.

Global and regional rules are counted apart, and those of each project (cloud.google.com/load-balancing/pricing).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    read_reference,
    text_if_known,
)
from gpufleet.cost.pricing.component import Components, MachinePartContext
from gpufleet.cost.pricing.pricers.gcp.location import find_region_or_global
from gpufleet.cost.pricing.pricers.gcp.service import GLOBAL, service_context
from gpufleet.cost.pricing.pricers.part_names import LOAD_BALANCER
from gpufleet.cost.pricing.pricers.traffic import traffic_components
from gpufleet.engine import StateResource

REGIONAL_RULE = "gcp:compute/forwardingRule:ForwardingRule"
GLOBAL_RULE = "gcp:compute/globalForwardingRule:GlobalForwardingRule"
RULES_IN_FIRST_PRICE = 5
RULE = f"{LOAD_BALANCER}:forwarding_rule"
FIRST_RULES_NOTE = "the first five forwarding rules have one price"
# Targets of Private Service Connect, which has prices of its own.
SERVICE_ATTACHMENT = "/serviceAttachments/"
GOOGLE_API_BUNDLES = ("all-apis", "vpc-sc")


@dataclass(frozen=True)
class ForwardingRuleInputs:
    """The inputs of a forwarding rule."""

    project: str
    is_service_connect: bool


def parse_forwarding_rule_inputs(inputs: Any) -> ForwardingRuleInputs:
    """Parse a forwarding rule, regional or global."""
    target = text_if_known(read_reference(inputs, "target")) or ""
    return ForwardingRuleInputs(
        project=text_if_known(read_reference(inputs, "project")) or "",
        is_service_connect=SERVICE_ATTACHMENT in target or target in GOOGLE_API_BUNDLES,
    )


def price_forwarding_rule(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a rule's share of the price of rules, and the data that its load balancer processes."""
    region = _find_rule_region(resource, graph)
    context = service_context(resource, graph, region)
    if parse_forwarding_rule_inputs(resource.inputs).is_service_connect:
        return [context.make_part_component("endpoint", "private_service_connect:endpoint")]
    data_context = service_context(resource, graph, find_region_or_global(resource, graph))
    usage = graph.usage_of_resource(resource)
    data = data_context.make_usage_component(
        "data", f"{LOAD_BALANCER}:data", "monthly_ingress_data_gb", usage
    )
    return [
        *_rule_components(resource, graph, context),
        *([] if data.amount is None else [data]),  # as of all traffic: only what the usage file has
        *traffic_components(resource, graph, context),
    ]


def _rule_components(
    resource: StateResource, graph: ResourceGraph, context: MachinePartContext
) -> Components:
    """Return the rule: the first of its place bears the price of the first five."""
    rank = _rank_rules(graph).get(resource.urn, RULES_IN_FIRST_PRICE)
    if resource.delete or rank >= RULES_IN_FIRST_PRICE:
        return [context.make_part_component("load_balancer", f"{RULE}:additional")]
    if rank:
        return []
    first = context.make_part_component("load_balancer", RULE)
    return [replace(first, note=FIRST_RULES_NOTE)]


@lru_cache(maxsize=1)
def _rank_rules(graph: ResourceGraph) -> dict[str, int]:
    """Return each rule's place, from zero, among the rules of its project and its region."""
    counts: dict[tuple[str, str], int] = {}
    ranks: dict[str, int] = {}
    for rule in graph.resources_of_types(REGIONAL_RULE, GLOBAL_RULE):
        inputs = parse_forwarding_rule_inputs(rule.inputs)
        if inputs.is_service_connect:
            continue
        key = (inputs.project, _find_rule_region(rule, graph))
        ranks[rule.urn] = counts.get(key, 0)
        counts[key] = ranks[rule.urn] + 1
    return ranks


def _find_rule_region(resource: StateResource, graph: ResourceGraph) -> str:
    return GLOBAL if resource.type == GLOBAL_RULE else find_region_or_global(resource, graph)
