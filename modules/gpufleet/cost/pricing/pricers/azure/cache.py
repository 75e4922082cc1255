"""Azure caches: Redis by nodes, and Redis Enterprise and Managed Redis by size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Number, Text, read_input, read_input_number, read_input_text
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import standalone_part_context
from gpufleet.cost.pricing.pricers.azure.service import sized_component, translated
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

ONE = Decimal(1)


@dataclass(frozen=True)
class RedisInputs:
    """The inputs of a cache: its tier, family and size, and of the Premium tier its shards and replicas."""

    tier: Text
    family: Text
    size: Text
    shards: Number
    replicas: Number


@dataclass(frozen=True)
class RedisEnterpriseInputs:
    """The inputs of a Redis Enterprise or Managed Redis cluster."""

    sku: Text
    is_replicated: bool


def parse_redis_inputs(inputs: Any) -> RedisInputs:
    """Parse a cache."""
    replicas = read_input_number(inputs, "replicasPerPrimary")
    return RedisInputs(
        tier=read_input_text(inputs, "sku", "name"),
        family=read_input_text(inputs, "sku", "family"),
        size=read_input_text(inputs, "sku", "capacity"),
        shards=read_input_number(inputs, "shardCount"),
        replicas=read_input_number(inputs, "replicasPerMaster") if replicas is None else replicas,
    )


def parse_redis_enterprise_inputs(inputs: Any) -> RedisEnterpriseInputs:
    """Parse a Redis Enterprise or Managed Redis cluster."""
    return RedisEnterpriseInputs(
        sku=read_input_text(inputs, "sku", "name"),
        is_replicated=read_input(inputs, "highAvailability") not in ("Disabled", False),
    )


def price_redis(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the nodes of a cache: one in the Basic tier, else a primary and its replicas in each shard."""
    cache = parse_redis_inputs(resource.inputs)
    texts = [
        text_or_unpriced(text, f"its {name}", "nodes")
        for name, text in (("tier", cache.tier), ("family", cache.family), ("size", cache.size))
    ]
    if missing := next((text for text in texts if isinstance(text, UnpricedComponent)), None):
        return [missing]
    tier, family, size = (str(text).lower() for text in texts)
    item = f"redis:{tier}_{family}{size.removesuffix('.0')}"
    return [
        sized_component(
            "nodes",
            item,
            _node_count(cache, tier),
            standalone_part_context(resource, graph),
            "number of nodes",
        )
    ]


def price_redis_enterprise(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a cluster by its size, twice unless high availability is off."""
    cluster = parse_redis_enterprise_inputs(resource.inputs)
    sku = text_or_unpriced(cluster.sku, "its size", "nodes")
    if isinstance(sku, UnpricedComponent):
        return [sku]
    context = standalone_part_context(resource, graph)
    if cluster.is_replicated:
        context = replace(context, count=Range.from_exact_value(2))
    return [context.make_part_component("nodes", f"redis_enterprise:{sku.lower()}")]


def _node_count(cache: RedisInputs, tier: str) -> Number:
    if tier != "premium":
        return ONE if tier == "basic" else ONE * 2
    if isinstance(cache.shards, UnreadableValue) or isinstance(cache.replicas, UnreadableValue):
        return UnreadableValue.UNKNOWN
    return (cache.shards or ONE) * (ONE + (ONE if cache.replicas is None else cache.replicas))


PRICERS: dict[str, Pricer] = {
    "azure-native:cache:Redis": price_redis,
    "azure-native:cache:RedisEnterprise": price_redis_enterprise,
    "azure-native:redis:Redis": price_redis,
    "azure-native:redisenterprise:RedisEnterprise": price_redis_enterprise,
    "azure:managedredis/managedRedis:ManagedRedis": translated(
        price_redis_enterprise,
        {"skuName": "sku.name", "highAvailabilityEnabled": "highAvailability"},
    ),
    "azure:redis/cache:Cache": translated(
        price_redis, {"skuName": "sku.name", "family": "sku.family", "capacity": "sku.capacity"}
    ),
    "azure:redis/enterpriseCluster:EnterpriseCluster": translated(
        price_redis_enterprise, {"skuName": "sku.name"}
    ),
}
