"""GPUDirect on GCP: the networks of its cards, and the policies that keep its nodes close to each other.

Layouts: GoogleCloudPlatform/cluster-toolkit (2026-06-25), examples/machine-learning/a3-highgpu-8g, a3-megagpu-8g,
a3-ultragpu-8g and a4-highgpu-8g. TCPX and TCPXO have one network for each card. RDMA has one network for all cards,
with a subnet for each, and a second host network.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pulumi_gcp as gcp

if TYPE_CHECKING:
    from gpufleet.cloud.gcp_network import GcpNetwork
    from gpufleet.cloud.gcp_parts import GcpPoolParts
    from gpufleet.cloud.pool_plan import PoolPlan

FABRIC_MTU: Final = {"gpudirect_tcpx": 8244, "gpudirect_tcpxo": 8244, "gpudirect_rdma": 8896}
HOST_NETWORK_INDEX = 8  # after the eight subnets of the cards
FIRST_FABRIC_ADDRESS = int(ipaddress.IPv4Address("10.0.0.0"))
ADDRESSES_PER_SUBNET = 1024  # more than the 1,000 nodes of the largest pool, with the four that Google keeps
SUBNETS_PER_INDEX = 1024  # one for each number that a region can have
# cluster-toolkit, slurm_files/scripts/resume.py: a distance of 2 holds 150 VMs (A3: 256), 3 holds 1,500; A3 forbids 1
MAX_NODES_AT_DISTANCE_2 = 150
TOPOLOGY_OF_DISTANCE = {
    2: "BLOCK",
    3: "CLUSTER",
}  # the same source; workload policies have names instead of numbers


@dataclass(frozen=True)
class FabricSubnet:
    """A subnet for one card of each node."""

    subnet: Any
    nic_type: str


def find_network_mtu(plans: Sequence[PoolPlan]) -> int | None:
    """Return the MTU that the nodes' first network needs for the fabrics of its pools; None for Google's default."""
    return max((FABRIC_MTU[plan.fabric] for plan in plans if plan.fabric in FABRIC_MTU), default=None)


def fabric_cidr(index: int, region_number: int) -> str:
    """Return the range of a fabric's subnet. The ranges of one node's cards must not overlap."""
    offset = (index * SUBNETS_PER_INDEX + region_number) * ADDRESSES_PER_SUBNET
    return f"{ipaddress.IPv4Address(FIRST_FABRIC_ADDRESS + offset)}/22"


def build_fabric_interfaces(plan: PoolPlan, network: GcpNetwork) -> list[dict[str, Any]]:
    """Return the cards of the pool's fabric. They have no public addresses: only the first card is for SSH."""
    return [
        {"subnetwork": card.subnet.id, "nic_type": card.nic_type} for card in _list_subnets(plan, network)
    ]


def _list_subnets(plan: PoolPlan, network: GcpNetwork) -> list[FabricSubnet]:
    if plan.fabric not in FABRIC_MTU:
        return []
    cards = plan.facts.fabric_interfaces
    if not cards:
        problem = f"the number of {plan.fabric} cards of {plan.pool.machine} is not known"
        raise plan.build_input_error("fabric", problem, "set fabric: none")
    if plan.fabric == "gpudirect_rdma":
        return _list_rdma_subnets(plan, network, cards)
    networks = [network.fabric.get_network(f"gpu-{card}", FABRIC_MTU[plan.fabric]) for card in range(cards)]
    return [
        FabricSubnet(network.fabric.get_subnet(name, index, plan.pool.region), "GVNIC")
        for index, name in enumerate(networks)
    ]


def _list_rdma_subnets(plan: PoolPlan, network: GcpNetwork, cards: int) -> list[FabricSubnet]:
    mtu, region = FABRIC_MTU["gpudirect_rdma"], plan.pool.region
    zone = plan.zone_of_node(0)
    if zone is None or len(plan.pool.zones) > 1:
        problem = f"zones is {list(plan.pool.zones)}, but a RoCE network is in one zone"
        raise plan.build_input_error("zones", problem, f"give zones: [{zone or f'{region}-a'}]")
    project = network.project or gcp.config.project
    if not project:
        problem = "the project is missing, but the network profile of RoCE is named with it"
        raise plan.build_input_error("fabric", problem, "set gcp: {project: …} in the spec")
    host = network.fabric.get_network("host", mtu)
    profile = f"projects/{project}/global/networkProfiles/{zone}-vpc-roce"
    rdma = network.fabric.get_network(f"roce-{zone}", mtu, profile)
    return [
        FabricSubnet(network.fabric.get_subnet(host, HOST_NETWORK_INDEX, region), "GVNIC"),
        *(
            FabricSubnet(network.fabric.get_subnet(rdma, index, region, suffix=f"-{index}"), "MRDMA")
            for index in range(cards)
        ),
    ]


def choose_max_distance(plan: PoolPlan) -> int:
    """Return the smallest distance, in network switches, at which all nodes of the pool fit."""
    return 2 if plan.pool.count.max <= MAX_NODES_AT_DISTANCE_2 else 3


def declare_placement(parts: GcpPoolParts, *, in_group: bool) -> Any:
    """Declare the policy that keeps the nodes of a fabric close; None if the pool needs or may have none.

    Ordinary reservations reject policies from outside: nodes that use one are where the reservation is.
    """
    plan = parts.plan
    if plan.fabric not in FABRIC_MTU or any(rung.kind == "reserved" for rung in plan.rungs):
        return None
    distance = choose_max_distance(plan)
    policy: dict[str, Any] = {
        "group_placement_policy": {"collocation": "COLLOCATED", "max_distance": distance}
    }
    if in_group:
        topology = TOPOLOGY_OF_DISTANCE[distance]
        policy = {"workload_policy": {"type": "HIGH_THROUGHPUT", "max_topology_distance": topology}}
    return gcp.compute.ResourcePolicy(
        plan.pool.name,
        name=plan.node_name_prefix,
        region=plan.pool.region,
        **policy,
        project=parts.network.project,
        opts=parts.child_options(delete_before_replace=True),
    )
