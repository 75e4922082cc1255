"""What an AKS cluster makes for the outbound traffic of its nodes: a load balancer or a NAT gateway, and addresses."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.values import (
    Number,
    Text,
    read_input,
    read_input_choice,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, LOAD_BALANCER, NAT
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, unpriced_if_unreadable
from gpufleet.engine import UnreadableValue

# The API's own defaults (learn.microsoft.com, "Use a public standard load balancer in AKS", read 2026-11-23).
OUTBOUND_TYPES = (
    "loadBalancer",
    "managedNATGateway",
    "userAssignedNATGateway",
    "userDefinedRouting",
    "block",
    "none",
)
DEFAULT_OUTBOUND_TYPE, DEFAULT_ADDRESS_COUNT = "loadBalancer", Decimal(1)
NETWORK = "networkProfile"
BALANCER_PATH = (NETWORK, "loadBalancerProfile")
OWN_ADDRESSES = ("outboundIPs", "outboundIPPrefixes")  # declared elsewhere, and billed there
OUTBOUND = "outbound"


@dataclass(frozen=True)
class AksOutboundInputs:
    """How nodes reach the internet. ``address_count`` is of those that AKS makes; None if there is no setting."""

    outbound_type: Text
    balancer_sku: Text
    has_own_addresses: bool
    address_count: Number
    nat_address_count: Number


def parse_aks_outbound_inputs(inputs: Any) -> AksOutboundInputs:
    """Parse the network profile of a cluster."""
    nat_path = (NETWORK, "natGatewayProfile", "managedOutboundIPProfile", "count")
    network = read_input(inputs, NETWORK)
    return AksOutboundInputs(
        outbound_type=network
        if isinstance(network, UnreadableValue)
        else read_input_choice(inputs, OUTBOUND_TYPES, NETWORK, "outboundType"),
        balancer_sku=read_input_text(inputs, NETWORK, "loadBalancerSku"),
        has_own_addresses=any(_is_set(inputs, *BALANCER_PATH, key) for key in OWN_ADDRESSES),
        address_count=read_input_number(inputs, *BALANCER_PATH, "managedOutboundIPs", "count"),
        nat_address_count=read_input_number(inputs, *nat_path),
    )


def _is_set(inputs: Any, *path: str | int) -> bool:
    return isinstance(read_input(inputs, *path[:-1]), dict) and read_input(inputs, *path) is not None


def outbound_components(inputs: Any, context: MachinePartContext) -> Components:
    """Return the load balancer or NAT gateway that the cluster makes, with its public addresses."""
    outbound = parse_aks_outbound_inputs(inputs)
    for marker in (outbound.outbound_type, outbound.balancer_sku):
        if isinstance(marker, UnreadableValue):
            return [*unpriced_if_unreadable(marker, "its outbound network is", OUTBOUND)]
    kind = outbound.outbound_type or DEFAULT_OUTBOUND_TYPE
    if kind == "managedNATGateway":
        gateway = context.make_part_component(f"{OUTBOUND}:gateway", NAT)
        return [gateway, *_address_components(outbound.nat_address_count, context)]
    if kind != DEFAULT_OUTBOUND_TYPE or str(outbound.balancer_sku).lower() == "basic":
        return []  # the program's own routes and gateways are resources; a basic load balancer is free
    balancer = context.make_part_component(f"{OUTBOUND}:load_balancer", f"{LOAD_BALANCER}:standard")
    addresses = [] if outbound.has_own_addresses else _address_components(outbound.address_count, context)
    return [balancer, *addresses]


def _address_components(count: Number, context: MachinePartContext) -> Components:
    name = f"{OUTBOUND}:{ADDRESS}"
    size = number_or_unpriced(count, "number of its addresses", name, DEFAULT_ADDRESS_COUNT)
    return [size if isinstance(size, UnpricedComponent) else context.make_part_component(name, ADDRESS, size)]
