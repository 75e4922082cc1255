"""In-memory stores: ElastiCache, MemoryDB and DAX, which bill by the node."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.pricing.component import CostComponent, UsageComponent
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

REPLICATION_GROUP = "aws:elasticache/replicationGroup:ReplicationGroup"
DEFAULT_ENGINE = "redis"  # of a replication group, by the provider's documentation
NODES = "the number of nodes"


@pricer("aws:elasticache/cluster:Cluster")
def price_cache_cluster(cluster: Reader) -> Parts:
    """Yield the nodes of an ElastiCache cluster; one in a replication group is a replica of the group's type."""
    group = cluster.find_resource("replicationGroupId", REPLICATION_GROUP)
    inherited = (
        {key: group.inputs[key] for key in ("nodeType", "engine") if key in group.inputs} if group else {}
    )
    with replace(cluster, inputs={**inherited, **cluster.inputs}).of("node") as node:
        engine = node.text("engine", "engine", DEFAULT_ENGINE if group else None)
        yield _make_nodes(node, f"elasticache:{engine}", node.number("numCacheNodes", NODES, 1))
    yield _make_snapshots(cluster)


@pricer("aws:elasticache/replicationGroup:ReplicationGroup")
def price_replication_group(group: Reader) -> Parts:
    """Yield the nodes of a replication group: primaries and replicas of each shard."""
    with group.of("node") as node:
        if node.has("numNodeGroups") or node.has("replicasPerNodeGroup"):
            count = _count_shard_nodes(node, "numNodeGroups", "replicasPerNodeGroup", 0)
        else:
            count = node.number("numCacheClusters", NODES, 1)
        yield _make_nodes(node, f"elasticache:{node.text('engine', 'engine', DEFAULT_ENGINE)}", count)
    yield _make_snapshots(group)


@pricer("aws:memorydb/cluster:Cluster")
def price_memorydb_cluster(cluster: Reader) -> Parts:
    """Yield the nodes of a MemoryDB cluster. Valkey and Redis have different prices."""
    with cluster.of("node") as node:
        count = _count_shard_nodes(node, "numShards", "numReplicasPerShard", 1)
        yield _make_nodes(node, f"memorydb:{node.text('engine', 'engine', DEFAULT_ENGINE)}", count)


@pricer("aws:dax/cluster:Cluster")
def price_dax_cluster(cluster: Reader) -> Parts:
    """Yield the nodes of a DAX cluster; ``replicationFactor`` counts the primary too."""
    with cluster.of("node") as node:
        yield _make_nodes(node, "dax", node.number("replicationFactor", NODES, 1))


def _count_shard_nodes(node: Reader, shards: str, replicas: str, default: int) -> Decimal:
    """Return the nodes of shards that have a primary and replicas each."""
    count = node.number(shards, "the number of shards", 1)
    return count * (1 + node.number(replicas, "the number of replicas", default))


def _make_nodes(node: Reader, prefix: str, count: Decimal) -> CostComponent | None:
    return node.instances(f"{prefix}:{node.text('nodeType', 'node type')}", count)


def _make_snapshots(cache: Reader) -> UsageComponent | None:
    return cache.of("snapshots").used(
        "elasticache:snapshot", "snapshot_storage_size_gb", stored=True, listed=False
    )
