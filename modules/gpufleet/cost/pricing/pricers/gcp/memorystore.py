"""Memorystore: Redis instances, clusters of Redis and Valkey, and Memcached."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Number, Text, read_input_number, read_input_text
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.service import exact_count, service_context
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced
from gpufleet.engine import StateResource

# The largest GiB of each capacity tier (cloud.google.com/memorystore/docs/redis/pricing, read 2026-11-23).
CAPACITY_TIERS = ((4, "m1"), (10, "m2"), (35, "m3"), (100, "m4"))
LARGEST_TIER = "m5"
DEFAULT_NODE_TYPE = "highmem_medium"  # the default of clusters' node types
MIB_PER_GIB = Decimal(1024)


@dataclass(frozen=True)
class RedisInstanceInputs:
    """The inputs of a Redis instance."""

    tier: Text
    memory_gib: Number
    has_read_replicas: bool


@dataclass(frozen=True)
class NodeClusterInputs:
    """The inputs of a cluster of Redis or Valkey nodes; each shard has a primary and its replicas."""

    node_type: Text
    shard_count: Number
    replica_count: Number
    keeps_append_only_file: bool


@dataclass(frozen=True)
class MemcacheInstanceInputs:
    """The inputs of a Memcached instance."""

    node_count: Number
    vcpus_per_node: Number
    memory_mib_per_node: Number


def parse_redis_instance_inputs(inputs: Any) -> RedisInstanceInputs:
    """Parse a Redis instance."""
    return RedisInstanceInputs(
        tier=read_input_text(inputs, "tier"),
        memory_gib=read_input_number(inputs, "memorySizeGb"),
        has_read_replicas=read_input_text(inputs, "readReplicasMode") == "READ_REPLICAS_ENABLED",
    )


def parse_node_cluster_inputs(inputs: Any) -> NodeClusterInputs:
    """Parse a Redis cluster, or a Valkey instance."""
    return NodeClusterInputs(
        node_type=read_input_text(inputs, "nodeType"),
        shard_count=read_input_number(inputs, "shardCount"),
        replica_count=read_input_number(inputs, "replicaCount"),
        keeps_append_only_file=read_input_text(inputs, "persistenceConfig", "mode") == "AOF",
    )


def parse_memcache_instance_inputs(inputs: Any) -> MemcacheInstanceInputs:
    """Parse a Memcached instance."""
    return MemcacheInstanceInputs(
        node_count=read_input_number(inputs, "nodeCount"),
        vcpus_per_node=read_input_number(inputs, "nodeConfig", "cpuCount"),
        memory_mib_per_node=read_input_number(inputs, "nodeConfig", "memorySizeMb"),
    )


def price_redis_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an instance by its memory; the price of a GiB depends on the capacity tier."""
    instance = parse_redis_instance_inputs(resource.inputs)
    memory_gib = number_or_unpriced(instance.memory_gib, "its memory size", "memory")
    if isinstance(memory_gib, UnpricedComponent):
        return [memory_gib]
    if instance.tier is not None and not isinstance(instance.tier, str):
        return [UnpricedComponent("its tier is not known until deployment", "memory")]
    if instance.has_read_replicas:
        return [UnpricedComponent("no price for Redis with read replicas", "memory")]
    tier = "standard" if instance.tier == "STANDARD_HA" else "basic"
    item = f"redis:{tier}:{capacity_tier(memory_gib)}"
    return [service_context(resource, graph).make_part_component("memory", item, memory_gib)]


def capacity_tier(memory_gib: Decimal) -> str:
    """Return the capacity tier of an instance of that many GiB."""
    return next((name for limit, name in CAPACITY_TIERS if memory_gib <= limit), LARGEST_TIER)


def price_redis_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the nodes of a Redis cluster."""
    return _node_components(resource, graph, "redis_cluster")


def price_valkey_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the nodes of a Valkey instance."""
    return _node_components(resource, graph, "valkey")


def price_memcache_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the vCPUs and the memory of a Memcached instance's nodes."""
    instance = parse_memcache_instance_inputs(resource.inputs)
    nodes = number_or_unpriced(instance.node_count, "its number of nodes", "vcpus")
    vcpus = number_or_unpriced(instance.vcpus_per_node, "vCPUs of its nodes", "vcpus")
    memory_mib = number_or_unpriced(instance.memory_mib_per_node, "memory of its nodes", "memory")
    for value in (nodes, vcpus, memory_mib):
        if isinstance(value, UnpricedComponent):
            return [value]
    assert isinstance(nodes, Decimal)  # noqa: S101 - the loop above leaves only this
    assert isinstance(vcpus, Decimal)  # noqa: S101
    assert isinstance(memory_mib, Decimal)  # noqa: S101
    context = service_context(resource, graph, count=exact_count(nodes))
    return [
        context.make_part_component("vcpus", "memcache:vcpu", vcpus),
        context.make_part_component("memory", "memcache:memory", memory_mib / MIB_PER_GIB),
    ]


def _node_components(resource: StateResource, graph: ResourceGraph, service: str) -> Components:
    cluster = parse_node_cluster_inputs(resource.inputs)
    shards = number_or_unpriced(cluster.shard_count, "its number of shards", "nodes")
    replicas = number_or_unpriced(cluster.replica_count, "its number of replicas", "nodes", Decimal(0))
    if isinstance(shards, UnpricedComponent):
        return [shards]
    if isinstance(replicas, UnpricedComponent):
        return [replicas]
    if cluster.node_type is not None and not isinstance(cluster.node_type, str):
        return [UnpricedComponent("its node type is not known until deployment", "nodes")]
    node_type = (cluster.node_type or DEFAULT_NODE_TYPE).lower().removeprefix("redis_")
    context = service_context(resource, graph, count=exact_count(shards * (1 + replicas)))
    components: Components = [context.make_part_component("nodes", f"{service}:{node_type}")]
    if cluster.keeps_append_only_file:
        components.append(UnpricedComponent("its append-only files bill by size", "append_only_file"))
    return components
