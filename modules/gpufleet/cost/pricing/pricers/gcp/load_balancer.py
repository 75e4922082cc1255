"""Forwarding rules, by which load balancers bill: the first five of a place have one price together.

Global and regional rules are counted apart, and those of each project (cloud.google.com/load-balancing/pricing).
"""

from __future__ import annotations

from functools import lru_cache

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import read_reference, text_if_known
from gpufleet.cost.pricing.pricers.gcp.location import find_region_or_global, pricer
from gpufleet.cost.pricing.pricers.part_names import LOAD_BALANCER
from gpufleet.cost.pricing.pricers.reader import GLOBAL, Parts, Reader
from gpufleet.cost.pricing.pricers.traffic import list_traffic
from gpufleet.engine import StateResource

REGIONAL_RULE = "gcp:compute/forwardingRule:ForwardingRule"
GLOBAL_RULE = "gcp:compute/globalForwardingRule:GlobalForwardingRule"
RULES_IN_FIRST_PRICE = 5
RULE = f"{LOAD_BALANCER}:forwarding_rule"
FIRST_RULES_NOTE = "the first five forwarding rules have one price"
# Targets of Private Service Connect, which has prices of its own.
SERVICE_ATTACHMENT = "/serviceAttachments/"
GOOGLE_API_BUNDLES = ("all-apis", "vpc-sc")


@pricer("gcp:compute/forwardingRule:ForwardingRule", "gcp:compute/globalForwardingRule:GlobalForwardingRule")
def price_forwarding_rule(rule: Reader) -> Parts:
    """Yield a rule's share of the price of rules, and the data that its load balancer processes."""
    regional = rule.within(find_region_or_global(rule.resource, rule.graph))
    place = rule.within(_find_rule_region(rule.resource, rule.graph))
    if _is_service_connect(rule.resource):
        yield place.of("endpoint").part("private_service_connect:endpoint")
        return
    rank = _rank_rules(rule.graph).get(rule.resource.urn, RULES_IN_FIRST_PRICE)
    if rule.resource.delete or rank >= RULES_IN_FIRST_PRICE:
        yield place.of("load_balancer").part(f"{RULE}:additional")
    elif not rank:  # the first of its place bears the price of the first five
        yield place.of("load_balancer").part(RULE, note=FIRST_RULES_NOTE)
    yield regional.of("data").used(f"{LOAD_BALANCER}:data", "monthly_ingress_data_gb", listed=False)
    yield from list_traffic(place)


@lru_cache(maxsize=1)
def _rank_rules(graph: ResourceGraph) -> dict[str, int]:
    """Return each rule's place, from zero, among the rules of its project and its region."""
    counts: dict[tuple[str, str], int] = {}
    ranks: dict[str, int] = {}
    for rule in graph.resources_of_types(REGIONAL_RULE, GLOBAL_RULE):
        if _is_service_connect(rule):
            continue
        project = text_if_known(read_reference(rule.inputs, "project")) or ""
        key = (project, _find_rule_region(rule, graph))
        ranks[rule.urn] = counts.get(key, 0)
        counts[key] = ranks[rule.urn] + 1
    return ranks


def _is_service_connect(rule: StateResource) -> bool:
    target = read_reference(rule.inputs, "target")
    return isinstance(target, str) and (SERVICE_ATTACHMENT in target or target in GOOGLE_API_BUNDLES)


def _find_rule_region(resource: StateResource, graph: ResourceGraph) -> str:
    return GLOBAL if resource.type == GLOBAL_RULE else find_region_or_global(resource, graph)
