"""Memorystore: Redis instances, clusters of Redis and Valkey, and Memcached."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.pricing.pricers.gcp.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

# The largest GiB of each capacity tier (cloud.google.com/memorystore/docs/redis/pricing, read 2026-11-23).
CAPACITY_TIERS = ((4, "m1"), (10, "m2"), (35, "m3"), (100, "m4"))
LARGEST_TIER = "m5"
DEFAULT_NODE_TYPE = "highmem_medium"  # the default of clusters' node types
MIB_PER_GIB = Decimal(1024)
REPLICAS = ("READ_REPLICAS_DISABLED", "READ_REPLICAS_ENABLED", "READ_REPLICAS_MODE_UNSPECIFIED")
PERSISTENCE = ("AOF", "RDB", "DISABLED", "PERSISTENCE_MODE_UNSPECIFIED")


@pricer("gcp:redis/instance:Instance")
def price_redis_instance(instance: Reader) -> Parts:
    """Yield an instance by its memory; the price of a GiB depends on the capacity tier."""
    with instance.of("memory") as memory:
        gib = memory.number("memorySizeGb", "its memory size")
        tier = memory.choice("tier", ("BASIC", "STANDARD_HA"), "BASIC", "its tier")
        if memory.choice("readReplicasMode", REPLICAS, REPLICAS[0]) == "READ_REPLICAS_ENABLED":
            raise memory.refuse("no price for Redis with read replicas")
        yield memory.part(f"redis:{tier.lower().removesuffix('_ha')}:{capacity_tier(gib)}", size=gib)


def capacity_tier(memory_gib: Decimal) -> str:
    """Return the capacity tier of an instance of that many GiB."""
    return next((name for limit, name in CAPACITY_TIERS if memory_gib <= limit), LARGEST_TIER)


@pricer("gcp:redis/cluster:Cluster")
def price_redis_cluster(cluster: Reader) -> Parts:
    """Yield the nodes of a Redis cluster."""
    return _list_nodes(cluster, "redis_cluster")


@pricer("gcp:memorystore/instance:Instance")
def price_valkey_instance(cluster: Reader) -> Parts:
    """Yield the nodes of a Valkey instance."""
    return _list_nodes(cluster, "valkey")


@pricer("gcp:memcache/instance:Instance")
def price_memcache_instance(instance: Reader) -> Parts:
    """Yield the vCPUs and the memory of a Memcached instance's nodes."""
    nodes = ("nodeCount", "its number of nodes")
    with instance.of("vcpus") as vcpus:
        size = vcpus.number("nodeConfig.cpuCount", "vCPUs of its nodes")
        yield vcpus.part("memcache:vcpu", vcpus.number(*nodes), size)
    with instance.of("memory") as memory:
        mib = memory.number("nodeConfig.memorySizeMb", "memory of its nodes")
        yield memory.part("memcache:memory", memory.number(*nodes), mib / MIB_PER_GIB)


def _list_nodes(cluster: Reader, service: str) -> Parts:
    """Yield the nodes: each shard has a primary and its replicas."""
    with cluster.of("nodes") as nodes:
        shards = nodes.number("shardCount", "its number of shards")
        replicas = nodes.number("replicaCount", "its number of replicas", 0)
        kind = nodes.text("nodeType", "its node type", DEFAULT_NODE_TYPE).lower().removeprefix("redis_")
        yield nodes.part(f"{service}:{kind}", shards * (1 + replicas))
    with cluster.of("append_only_file") as log:
        if log.choice("persistenceConfig.mode", PERSISTENCE, "DISABLED", "its persistence") == "AOF":
            raise log.refuse_use("its append-only files bill by size")
