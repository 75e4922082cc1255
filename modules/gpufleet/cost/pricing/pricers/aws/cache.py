"""In-memory stores: ElastiCache, MemoryDB and DAX, which bill by the node."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Number, Text, read_input_number, read_input_text, text_if_known
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.service import (
    make_instance_component,
    make_service_context,
)
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, text_or_unpriced
from gpufleet.engine import StateResource

REPLICATION_GROUP = "aws:elasticache/replicationGroup:ReplicationGroup"
DEFAULT_ENGINE = "redis"  # of a replication group, by the provider's documentation
SNAPSHOT_KEY = "snapshot_storage_size_gb"
ONE_NODE = Decimal(1)


@dataclass(frozen=True)
class CacheInputs:
    """The inputs of a cache. ``shards`` have a primary and ``replicas`` each; else ``nodes`` counts all."""

    node_type: Text
    engine: Text
    nodes: Number
    shards: Number
    replicas: Number


def parse_cache_cluster_inputs(inputs: Any) -> CacheInputs:
    """Parse an ElastiCache cluster."""
    return CacheInputs(
        node_type=read_input_text(inputs, "nodeType"),
        engine=read_input_text(inputs, "engine"),
        nodes=read_input_number(inputs, "numCacheNodes"),
        shards=None,
        replicas=None,
    )


def parse_replication_group_inputs(inputs: Any) -> CacheInputs:
    """Parse an ElastiCache replication group."""
    return CacheInputs(
        node_type=read_input_text(inputs, "nodeType"),
        engine=read_input_text(inputs, "engine"),
        nodes=read_input_number(inputs, "numCacheClusters"),
        shards=read_input_number(inputs, "numNodeGroups"),
        replicas=read_input_number(inputs, "replicasPerNodeGroup"),
    )


def parse_memorydb_cluster_inputs(inputs: Any) -> CacheInputs:
    """Parse a MemoryDB cluster."""
    return CacheInputs(
        node_type=read_input_text(inputs, "nodeType"),
        engine=read_input_text(inputs, "engine"),
        nodes=None,
        shards=read_input_number(inputs, "numShards"),
        replicas=read_input_number(inputs, "numReplicasPerShard"),
    )


def parse_dax_cluster_inputs(inputs: Any) -> CacheInputs:
    """Parse a DAX cluster; ``replicationFactor`` counts its nodes, the primary included."""
    return CacheInputs(
        node_type=read_input_text(inputs, "nodeType"),
        engine="dax",
        nodes=read_input_number(inputs, "replicationFactor"),
        shards=None,
        replicas=None,
    )


def price_cache_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the nodes of an ElastiCache cluster; one in a replication group is a replica of the group's type."""
    group = graph.find_referenced_resource(resource, ("replicationGroupId",), REPLICATION_GROUP)
    cache = parse_cache_cluster_inputs({**(_group_inputs(group) if group else {}), **resource.inputs})
    engine = text_if_known(cache.engine) or (DEFAULT_ENGINE if group else None)
    if engine is None:
        return [UnpricedComponent("engine is not known until deployment", "node")]
    return [
        *_node_components(resource, graph, cache, f"elasticache:{engine}"),
        *_snapshot_components(resource, graph),
    ]


def price_replication_group(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the nodes of a replication group: primaries and replicas of each shard."""
    cache = parse_replication_group_inputs(resource.inputs)
    engine = text_if_known(cache.engine) or DEFAULT_ENGINE
    return [
        *_node_components(resource, graph, cache, f"elasticache:{engine}"),
        *_snapshot_components(resource, graph),
    ]


def price_memorydb_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the nodes of a MemoryDB cluster. Valkey and Redis have different prices."""
    cache = parse_memorydb_cluster_inputs(resource.inputs)
    engine = text_if_known(cache.engine) or DEFAULT_ENGINE
    return _node_components(resource, graph, cache, f"memorydb:{engine}", default_replicas=Decimal(1))


def price_dax_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the nodes of a DAX cluster."""
    return _node_components(resource, graph, parse_dax_cluster_inputs(resource.inputs), "dax")


def _group_inputs(group: StateResource) -> dict[str, Any]:
    keys = ("nodeType", "engine")
    return {key: group.inputs[key] for key in keys if key in group.inputs}


def _node_components(
    resource: StateResource,
    graph: ResourceGraph,
    cache: CacheInputs,
    item_prefix: str,
    default_replicas: Decimal = Decimal(0),
) -> Components:
    node_type = text_or_unpriced(cache.node_type, "node type", "node")
    if isinstance(node_type, UnpricedComponent):
        return [node_type]
    if cache.shards is None and cache.replicas is None and not default_replicas:
        count = number_or_unpriced(cache.nodes, "the number of nodes", "node", ONE_NODE)
    else:
        count = _sharded_count(cache, default_replicas)
    if isinstance(count, UnpricedComponent):
        return [count]
    nodes = Range.from_exact_value(count)
    return [make_instance_component(resource, graph, f"{item_prefix}:{node_type}", nodes, "node")]


def _sharded_count(cache: CacheInputs, default_replicas: Decimal) -> Decimal | UnpricedComponent:
    shards = number_or_unpriced(cache.shards, "the number of shards", "node", ONE_NODE)
    replicas = number_or_unpriced(cache.replicas, "the number of replicas", "node", default_replicas)
    if isinstance(shards, UnpricedComponent):
        return shards
    return replicas if isinstance(replicas, UnpricedComponent) else shards * (1 + replicas)


def _snapshot_components(resource: StateResource, graph: ResourceGraph) -> Components:
    usage = graph.usage_of_resource(resource)
    if SNAPSHOT_KEY not in usage.amounts:
        return []
    context = make_service_context(resource, graph)
    item = "elasticache:snapshot"
    return [context.make_usage_component("snapshots", item, SNAPSHOT_KEY, usage, is_stored=True)]
