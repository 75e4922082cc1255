"""Azure caches: Redis by nodes, and Redis Enterprise and Managed Redis by size."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

NODES = {"basic": Decimal(1), "standard": Decimal(2)}


@pricer("azure-native:cache:Redis", "azure-native:redis:Redis", "azure:redis/cache:Cache")
def price_redis(cache: Reader) -> Parts:
    """Yield the nodes of a cache: one in the Basic tier, else a primary and its replicas in each shard."""
    with cache.of("nodes") as nodes:
        tier = nodes.text("sku.name or skuName", "its tier").lower()
        family = nodes.text("sku.family or family", "its family").lower()
        size = nodes.text("sku.capacity or capacity", "its size")
        count = _count_premium_nodes(nodes) if tier == "premium" else NODES.get(tier, Decimal(2))
        yield nodes.part(f"redis:{tier}_{family}{size}", size=count)


def _count_premium_nodes(cache: Reader) -> Decimal:
    shards = cache.number("shardCount", "its number of nodes", 1)
    return (shards or 1) * (
        1 + cache.number("replicasPerPrimary or replicasPerMaster", "its number of nodes", 1)
    )


@pricer(
    "azure-native:cache:RedisEnterprise",
    "azure-native:redisenterprise:RedisEnterprise",
    "azure:managedredis/managedRedis:ManagedRedis",
    "azure:redis/enterpriseCluster:EnterpriseCluster",
)
def price_redis_enterprise(cluster: Reader) -> Parts:
    """Yield a cluster by its size, twice unless high availability is off."""
    with cluster.of("nodes") as nodes:
        sku = nodes.text("sku.name or skuName", "its size").lower()
        is_replicated = nodes.choice(
            "highAvailability or highAvailabilityEnabled",
            ("Enabled", "Disabled", "True", "False"),
            "Enabled",
            "its high availability",
        ) in ("Enabled", "True")
        yield nodes.part(f"redis_enterprise:{sku}", 2 if is_replicated else 1)
