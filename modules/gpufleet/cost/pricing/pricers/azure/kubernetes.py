"""AKS: managed clusters with the agent pools inside them, and agent pools of their own.

Paths are of azure-native first, then of the classic package.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.formatting import format_number
from gpufleet.cost.inputs.values import text_if_known
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.pricers.azure.disk import FAMILIES, managed_disk_tier_number
from gpufleet.cost.pricing.pricers.azure.kubernetes_outbound import list_outbound
from gpufleet.cost.pricing.pricers.azure.location import find_region, pricer
from gpufleet.cost.pricing.pricers.azure.machine import buy, find_reservation_claim
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.licence import list_licences
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, KUBERNETES
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

CLUSTERS = (
    "azure-native:containerservice:ManagedCluster",
    "azure:containerservice/kubernetesCluster:KubernetesCluster",
)
AGENT_POOL = "azure-native:containerservice:AgentPool"
POOLS, CLASSIC_POOL = "agentPoolProfiles", "defaultNodePool"
DISK_SIZE = "osDiskSizeGB or osDiskSizeGb"
PUBLIC_ADDRESSES = "enableNodePublicIP or nodePublicIpEnabled or enableNodePublicIp"
DEFAULT_COUNT = Decimal(1)  # the API's own
DEFAULT_DISK_GIB = {8: 128, 16: 256, 64: 512, 10**6: 1024}  # of a node with fewer vCPUs than the key
MAYBE_EPHEMERAL = Range(ZERO, Decimal(1), Decimal(1))
EPHEMERAL_NOTE = "AKS takes an ephemeral disk, which costs nothing more, where the machine has room for it"
_MACHINE_SIZE = re.compile(r"^standard_[a-z]+(\d{1,5})(?:-\d+)?([a-z]*)")


@pricer(
    "azure-native:containerservice:ManagedCluster",
    "azure:containerservice/kubernetesCluster:KubernetesCluster",
)
def price_aks_cluster(cluster: Reader) -> Parts:
    """Yield a cluster's tier, and those of its agent pools that are not also resources of their own."""
    with cluster.of("control_plane") as control_plane:
        tier = control_plane.text("sku.tier or skuTier", "its tier", "Free")
        if tier != "Free":
            yield control_plane.kept(KUBERNETES if tier == "Standard" else f"{KUBERNETES}:{tier.lower()}")
    with cluster.of("machine:auto") as machines:
        if machines.find_text("sku.name") == "Automatic":
            raise machines.refuse("AKS Automatic adds machines as pods ask for them")
    yield from list_outbound(cluster)
    separate_names = _find_separate_names(cluster)
    with cluster.of("machine") as machines:
        key = CLASSIC_POOL if machines.has(CLASSIC_POOL) else POOLS
        for index, pool in enumerate(machines.entries(key, "its agent pools are")):
            name = pool.find_text("name")
            if name is None or name not in separate_names:
                known_name = text_if_known(name)
                prefix = f"{index if known_name is None else known_name}:"
                place = f"{POOLS}.{index}." if key == POOLS else f"{CLASSIC_POOL}."
                yield from _list_nodes(pool.prefixed(prefix), place)


@pricer(
    "azure-native:containerservice:AgentPool",
    "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool",
)
def price_aks_agent_pool(pool: Reader) -> Parts:
    """Yield an agent pool, in its cluster's region."""
    cluster = pool.find_resource("resourceName or kubernetesClusterId", *CLUSTERS)
    return _list_nodes(pool.within(find_region(cluster or pool.resource, pool.graph)))


def _find_separate_names(cluster: Reader) -> set[object]:
    """Return the names of the agent pools of a cluster that are resources of their own."""
    pools = cluster.find_referrers("resourceName", AGENT_POOL)
    return {cluster.reading(pool).find_text("agentPoolName") for pool in pools}


def _list_nodes(pool: Reader, place: str = "") -> Parts:
    """Yield the machines, disks and addresses of an agent pool; ``place`` is where the resource has its inputs."""
    if pool.find_text("powerState.code") == "Stopped":
        return
    nodes = buy(pool).times(lambda: pool.resize(_find_declared_size(pool), "agent pool size"))
    with nodes.of("machine") as part:
        machine = part.machines(part.text("vmSize", "machine size"))
        is_spot = nodes.terms.purchase == "spot"
        claim = None if is_spot else find_reservation_claim(pool, place)
        yield machine and replace(machine, claim=claim)
    yield from _list_disk(nodes)
    system = nodes.find_choice("osType", ("Linux", "Windows"))
    yield from list_licences(nodes, text_if_known(system) if system else "Linux")
    with nodes.of(ADDRESS) as address:
        if address.flag(PUBLIC_ADDRESSES, "whether nodes have public addresses"):
            yield address.part(ADDRESS)


def _find_declared_size(pool: Reader) -> Range | None:
    """Return the number of nodes; where an autoscaler may be enabled, between its bounds."""
    declared = pool.find_number("count or nodeCount")
    count = DEFAULT_COUNT if declared is None else declared
    if not pool.find_flag("enableAutoScaling or autoScalingEnabled"):
        return group_size_range(count, count, count)
    minimum = pool.find_number("minCount")
    return group_size_range(ZERO if minimum is None else minimum, count, pool.find_number("maxCount"))


def _list_disk(nodes: Reader) -> Parts:
    """Yield the disk of each node, without a price if AKS chooses its type; an ephemeral one costs nothing more."""
    with nodes.of("disk:os") as disk:
        kind = disk.find_text("osDiskType")
        if kind == "Ephemeral":
            return
        size = disk.number(DISK_SIZE, "size of its disk", 0)
        if kind in ("Managed", None):
            match = _MACHINE_SIZE.match(disk.text("vmSize", "machine size").lower())
            if match and "s" in match[2]:  # its machines take Premium disks, which AKS then uses
                gib = size or default_disk_gib(int(match[1]))
                item = f"{FAMILIES['Premium_LRS']}{managed_disk_tier_number(gib)}"
                yield disk.part(item) if kind else disk.part(item, MAYBE_EPHEMERAL, note=EPHEMERAL_NOTE)
                return
        text = f" ({format_number(size)} GiB a node)" if size else ""
        raise disk.refuse(f"AKS chooses the disk of each node{text}")


def default_disk_gib(vcpus: int) -> Decimal:
    """Return the size of a node's disk that AKS takes without one (learn.microsoft.com, "Default OS disk sizing")."""
    return next(Decimal(gib) for limit, gib in DEFAULT_DISK_GIB.items() if vcpus < limit)
