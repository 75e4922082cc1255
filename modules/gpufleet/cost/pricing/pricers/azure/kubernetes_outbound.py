"""What an AKS cluster makes for the outbound traffic of its nodes: a load balancer or a NAT gateway, and addresses."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.part_names import ADDRESS, LOAD_BALANCER, NAT
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

# The API's own defaults (learn.microsoft.com, "Use a public standard load balancer in AKS", read 2026-11-23).
OUTBOUND_TYPES = (
    "loadBalancer",
    "managedNATGateway",
    "userAssignedNATGateway",
    "userDefinedRouting",
    "block",
    "none",
)
DEFAULT_OUTBOUND_TYPE, DEFAULT_SKU, DEFAULT_ADDRESS_COUNT = "loadBalancer", "standard", 1
BALANCER, GATEWAY = "networkProfile.loadBalancerProfile", "networkProfile.natGatewayProfile"
# Of azure-native, then of the classic package.
BALANCER_ADDRESSES = f"{BALANCER}.managedOutboundIPs.count or {BALANCER}.managedOutboundIpCount"
GATEWAY_ADDRESSES = f"{GATEWAY}.managedOutboundIPProfile.count or {GATEWAY}.managedOutboundIpCount"
OWN_ADDRESSES = ("outboundIPs", "outboundIPPrefixes", "outboundIpAddressIds", "outboundIpPrefixIds")
OUTBOUND = "outbound"


def list_outbound(cluster: Reader) -> Parts:
    """Yield the load balancer or NAT gateway that the cluster makes, with its public addresses.

    The program's own routes and gateways are resources; a basic load balancer is free.
    """
    with cluster.of(OUTBOUND) as outbound:
        name = "its outbound network"
        kind = outbound.choice("networkProfile.outboundType", OUTBOUND_TYPES, DEFAULT_OUTBOUND_TYPE, name)
        if kind == "managedNATGateway":
            yield cluster.of(f"{OUTBOUND}:gateway").kept(NAT)
            yield from _list_addresses(cluster, GATEWAY_ADDRESSES)
        elif kind == DEFAULT_OUTBOUND_TYPE:
            sku = outbound.text("networkProfile.loadBalancerSku", name, DEFAULT_SKU)
            if sku.lower() != "basic":
                yield cluster.of(f"{OUTBOUND}:load_balancer").kept(f"{LOAD_BALANCER}:standard")
                yield from _list_addresses(cluster, BALANCER_ADDRESSES)


def _list_addresses(cluster: Reader, path: str) -> Parts:
    """Yield the addresses that the cluster makes; those of the program bill where they are declared."""
    with cluster.of(f"{OUTBOUND}:{ADDRESS}") as part:
        number = part.number(path, "number of its addresses", DEFAULT_ADDRESS_COUNT)
        if path == GATEWAY_ADDRESSES or not any(part.has(f"{BALANCER}.{key}") for key in OWN_ADDRESSES):
            yield part.kept(ADDRESS, size=number)
