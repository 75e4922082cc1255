"""NAT gateways, bastions, load balancers and public addresses of Azure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    read_input,
    read_input_choice,
    read_input_list,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import standalone_part_context
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, BASTION, LOAD_BALANCER, NAT
from gpufleet.cost.pricing.pricers.required_input import unpriced_if_unreadable
from gpufleet.cost.pricing.pricers.traffic import traffic_components
from gpufleet.engine import StateResource, UnreadableValue

INCLUDED_SCALE_UNITS = 2  # in a bastion's price
RULES = ("loadBalancingRules", "outboundRules")
INCLUDED_RULES = 5  # in a load balancer's hourly price
CLASSIC_RULES = ("azure:lb/rule:Rule", "azure:lb/outboundRule:OutboundRule")  # resources of their own
DEFAULT_BASTION = "Standard"
UNUSED_IS_FREE = Range(ZERO, Decimal(1), Decimal(1))  # what uses the address may be in another program
# Where what uses a public address names it: network cards and VPN gateways, balancers and application gateways.
ADDRESS_USERS = (
    (("ipConfigurations", 0, "publicIPAddress", "id"), ("NetworkInterface", "VirtualNetworkGateway")),
    (("frontendIPConfigurations", 0, "publicIPAddress", "id"), ("LoadBalancer", "ApplicationGateway")),
)
CLASSIC_ADDRESS_USERS = (
    (
        ("ipConfigurations", 0, "publicIpAddressId"),
        (
            "azure:network/networkInterface:NetworkInterface",
            "azure:network/virtualNetworkGateway:VirtualNetworkGateway",
        ),
    ),
    (
        ("frontendIpConfigurations", 0, "publicIpAddressId"),
        ("azure:lb/loadBalancer:LoadBalancer", "azure:network/applicationGateway:ApplicationGateway"),
    ),
)


@dataclass(frozen=True)
class PublicIpInputs:
    """The inputs of a public address. Without a SKU it is a basic one, and without a method a dynamic one."""

    is_ipv6: bool
    sku: Text
    tier: Text
    allocation: Text

    @property
    def hidden_input(self) -> UnreadableValue | None:
        """The marker of an input that decides the price and cannot be read."""
        values = (self.sku, self.tier, self.allocation)
        return next((value for value in values if isinstance(value, UnreadableValue)), None)


ADDRESS_TIERS = ("Regional", "Global")


@dataclass(frozen=True)
class BastionInputs:
    """The inputs of a bastion."""

    sku: Text
    scale_units: Number


@dataclass(frozen=True)
class LoadBalancerInputs:
    """The inputs of a load balancer. ``rule_count`` is of load balancing and outbound rules."""

    sku: Text
    rule_count: int
    hides_rules: bool


def parse_public_ip_inputs(inputs: Any) -> PublicIpInputs:
    """Parse a public address."""
    return PublicIpInputs(
        is_ipv6=str(read_input_text(inputs, "publicIPAddressVersion")).lower() == "ipv6",
        sku=read_input_text(inputs, "sku", "name"),
        tier=read_input_choice(inputs, ADDRESS_TIERS, "sku", "tier"),
        allocation=read_input_text(inputs, "publicIPAllocationMethod"),
    )


def parse_bastion_inputs(inputs: Any) -> BastionInputs:
    """Parse a bastion."""
    return BastionInputs(read_input_text(inputs, "sku", "name"), read_input_number(inputs, "scaleUnits"))


def parse_load_balancer_inputs(inputs: Any) -> LoadBalancerInputs:
    """Parse a load balancer."""
    return LoadBalancerInputs(
        sku=read_input_text(inputs, "sku", "name"),
        rule_count=sum(len(read_input_list(inputs, key)) for key in RULES),
        hides_rules=any(isinstance(read_input(inputs, key), UnreadableValue) for key in RULES),
    )


def price_public_ip(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a public address by its SKU; an IPv6 one is free, and so is a dynamic one while nothing uses it.

    Basic addresses have a price for each method (azure.microsoft.com, "IP Addresses pricing", read 2026-11-23).
    """
    address = parse_public_ip_inputs(resource.inputs)
    if address.is_ipv6:
        return []
    hidden = unpriced_if_unreadable(address.hidden_input, "its SKU or allocation method is", ADDRESS)
    if hidden:
        return [*hidden]
    context = standalone_part_context(resource, graph)
    if address.sku not in (None, "Basic"):
        item = f"{ADDRESS}:global" if address.tier == "Global" else ADDRESS
        return [context.make_part_component(ADDRESS, item)]
    if address.allocation == "Static":
        return [context.make_part_component(ADDRESS, f"{ADDRESS}:basic_static")]
    if _is_address_used(resource, graph):
        return [context.make_part_component(ADDRESS, f"{ADDRESS}:basic_dynamic")]
    unused = replace(context, count=UNUSED_IS_FREE).make_part_component(ADDRESS, f"{ADDRESS}:basic_dynamic")
    return [replace(unused, note="free while nothing uses it, as in this stack")]


def _is_address_used(resource: StateResource, graph: ResourceGraph) -> bool:
    native = [
        (path, tuple(f"azure-native:network:{name}" for name in names)) for path, names in ADDRESS_USERS
    ]
    return any(
        graph.find_referring_resources(resource, path, *types)
        for path, types in (*native, *CLASSIC_ADDRESS_USERS)
    )


def price_nat_gateway(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a NAT gateway; its addresses bill where they are declared."""
    context = standalone_part_context(resource, graph)
    gateway = context.make_part_component("gateway", NAT)
    return [
        gateway,
        *traffic_components(resource, graph, context),
    ]


def price_bastion(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a bastion by its SKU, by default Standard; the Developer SKU is free."""
    bastion = parse_bastion_inputs(resource.inputs)
    sku, units = bastion.sku, bastion.scale_units
    if sku is not None and not isinstance(sku, str):
        return [UnpricedComponent("bastion SKU is not known until deployment", "bastion")]
    if sku == "Developer":
        return []
    item = BASTION if sku == "Basic" else f"{BASTION}:{(sku or DEFAULT_BASTION).lower()}"
    components: Components = [standalone_part_context(resource, graph).make_part_component("bastion", item)]
    if isinstance(units, Decimal) and units > INCLUDED_SCALE_UNITS:
        reason = f"{units - INCLUDED_SCALE_UNITS} scale units beyond those that its price includes"
        components.append(UnpricedComponent(reason, "scale_units"))
    return components


def price_load_balancer(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a load balancer by its SKU and rules; a basic one is free, and so is one without rules."""
    balancer = parse_load_balancer_inputs(resource.inputs)
    sku = balancer.sku
    if sku is None or sku == "Basic":
        return []
    if not isinstance(sku, str):
        return [UnpricedComponent("load balancer SKU is not known until deployment", "load_balancer")]
    context = standalone_part_context(resource, graph)
    rule_count = balancer.rule_count + len(
        graph.find_referring_resources(resource, ("loadbalancerId",), *CLASSIC_RULES)
    )
    components: Components = []
    if rule_count or balancer.hides_rules:
        components.append(context.make_part_component("load_balancer", f"{LOAD_BALANCER}:{sku.lower()}"))
    if rule_count > INCLUDED_RULES:
        size = Decimal(rule_count - INCLUDED_RULES)
        components.append(context.make_part_component("rules", f"{LOAD_BALANCER}:{sku.lower()}:rule", size))
    return [*components, *traffic_components(resource, graph, context, f"{LOAD_BALANCER}:gib")]
