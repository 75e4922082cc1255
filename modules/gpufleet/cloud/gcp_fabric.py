"""GPUDirect on GCP: the networks of its cards.

Layouts: GoogleCloudPlatform/cluster-toolkit (2026-06-25), examples/machine-learning/a3-highgpu-8g, a3-megagpu-8g,
a3-ultragpu-8g and a4-highgpu-8g. TCPX and TCPXO have one network for each card. RDMA has one network for all cards,
with a subnet for each, and a second host network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gpufleet.cloud.gcp_network import GcpNetwork
    from gpufleet.cloud.pool_plan import PoolPlan

FABRIC_MTU: Final = {"gpudirect_tcpx": 8244, "gpudirect_tcpxo": 8244, "gpudirect_rdma": 8896}
HOST_NETWORK_INDEX = 8  # after the eight subnets of the cards


@dataclass(frozen=True)
class FabricSubnet:
    """A subnet for one card of each node."""

    subnet: Any
    nic_type: str


def find_network_mtu(plans: Sequence[PoolPlan]) -> int | None:
    """Return the MTU that the nodes' first network needs for the fabrics of its pools; None for Google's default."""
    return max((FABRIC_MTU[plan.fabric] for plan in plans if plan.fabric in FABRIC_MTU), default=None)


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
    zone = plan.pool.zones[0]
    host = network.fabric.get_network("host", mtu)
    profile = f"projects/{network.project}/global/networkProfiles/{zone}-vpc-roce"
    rdma = network.fabric.get_network(f"roce-{zone}", mtu, profile)
    return [
        FabricSubnet(network.fabric.get_subnet(host, HOST_NETWORK_INDEX, region), "GVNIC"),
        *(
            FabricSubnet(network.fabric.get_subnet(rdma, index, region, suffix=f"-{index}"), "MRDMA")
            for index in range(cards)
        ),
    ]
