"""Firewalls, VPN connections and API caches, with a price by their settings."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Text,
    is_input_true,
    read_input,
    read_input_list,
    read_input_marker,
    read_input_text,
)
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.rds import parse_copies
from gpufleet.cost.pricing.pricers.aws.service import (
    GLOBAL,
    make_counted_component,
    make_instance_component,
    make_service_context,
)
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced, unpriced_if_unreadable
from gpufleet.engine import StateResource, UnreadableValue

CLOUDFRONT_SCOPE = "CLOUDFRONT"
ONE = Decimal(1)


@dataclass(frozen=True)
class WebAclInputs:
    """The inputs of a web access control list."""

    scope: Text
    rule_count: int
    hidden_rules: UnreadableValue | None


@dataclass(frozen=True)
class ApiStageInputs:
    """The inputs of a stage of a REST API."""

    has_cache: bool
    hidden_cache: UnreadableValue | None
    cache_gib: Text


def parse_web_acl_inputs(inputs: Any) -> WebAclInputs:
    """Parse a web access control list."""
    return WebAclInputs(
        scope=read_input_text(inputs, "scope"),
        rule_count=len(read_input_list(inputs, "rules")),
        hidden_rules=read_input_marker(inputs, "rules"),
    )


def parse_api_stage_inputs(inputs: Any) -> ApiStageInputs:
    """Parse a stage."""
    return ApiStageInputs(
        has_cache=is_input_true(inputs, "cacheClusterEnabled"),
        hidden_cache=read_input_marker(inputs, "cacheClusterEnabled"),
        cache_gib=read_input_text(inputs, "cacheClusterSize"),
    )


def price_web_acl(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a list, its rules, and the requests that it checks."""
    acl = parse_web_acl_inputs(resource.inputs)
    context = make_service_context(resource, graph, GLOBAL if acl.scope == CLOUDFRONT_SCOPE else None)
    components: Components = [make_counted_component(context, "web_acl", "waf:web_acl", ONE)]
    components += unpriced_if_unreadable(acl.hidden_rules, "its rules are", "rules")
    if acl.rule_count:
        components.append(make_counted_component(context, "rules", "waf:rule", Decimal(acl.rule_count)))
    usage = graph.usage_of_resource(resource)
    if "monthly_requests" in usage.amounts:
        components.append(context.make_usage_component("requests", "waf:request", "monthly_requests", usage))
    return components


def price_vpn_connection(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a VPN connection, and its attachment to a transit gateway."""
    context = make_service_context(resource, graph)
    components: Components = [make_counted_component(context, "connection", "vpn:connection", ONE)]
    if read_input(resource.inputs, "transitGatewayId") is not None:
        item = "transit_gateway:attachment"
        components.append(make_counted_component(context, "attachment", item, ONE))
    if is_input_true(resource.inputs, "enableAcceleration"):
        components.append(UnpricedComponent("acceleration is not in the price list", "acceleration"))
    return components


def price_api_stage(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the cache of a stage; one without a cache is free, since its API bills the requests."""
    stage = parse_api_stage_inputs(resource.inputs)
    if not stage.has_cache:
        return [*unpriced_if_unreadable(stage.hidden_cache, "whether it has a cache is", "cache")]
    size_gib = text_or_unpriced(stage.cache_gib, "cache size", "cache")
    if isinstance(size_gib, UnpricedComponent):
        return [size_gib]
    context = make_service_context(resource, graph)
    return [make_counted_component(context, "cache", f"api_gateway:cache:{size_gib}", ONE)]


def price_replication_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an instance of the Database Migration Service, and its standby."""
    instance_class = text_or_unpriced(
        read_input_text(resource.inputs, "replicationInstanceClass"), "instance class", "instance"
    )
    if isinstance(instance_class, UnpricedComponent):
        return [instance_class]
    copies = parse_copies(read_input(resource.inputs, "multiAz"))
    return [make_instance_component(resource, graph, f"dms:{instance_class}", copies)]


def price_certificate(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a certificate of a private authority; public ones are free."""
    if read_input(resource.inputs, "certificateAuthorityArn") is None:
        return []
    context = make_service_context(resource, graph)
    usage = graph.usage_of_resource(resource)
    return [context.make_usage_component("certificate", "acm_pca:certificate", "monthly_requests", usage)]
