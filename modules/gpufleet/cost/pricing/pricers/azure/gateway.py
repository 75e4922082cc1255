"""Gateways, firewalls, endpoints and zones of Azure networks."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Number, Text, read_input, read_input_number, read_input_text
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import standalone_part_context
from gpufleet.cost.pricing.pricers.azure.service import (
    TieredService,
    UsageMeter,
    tiered_service_pricer,
    translated,
    units_component,
)
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

UNITS_PER_INSTANCE = Decimal(
    10
)  # capacity units that an instance of a v2 gateway reserves (learn.microsoft.com)
DEFAULT_PREFIX_LENGTH = 28  # the API's own
ADDRESS_BITS = 32
INCLUDED_CONNECTIONS = 10  # in a gateway's price (azure.microsoft.com, "VPN Gateway pricing")
GATEWAYS = (
    "azure-native:network:VirtualNetworkGateway",
    "azure:network/virtualNetworkGateway:VirtualNetworkGateway",
)
CONNECTIONS = (
    "azure-native:network:VirtualNetworkGatewayConnection",
    "azure:network/virtualNetworkGatewayConnection:VirtualNetworkGatewayConnection",
)
CONNECTION_GATEWAYS = (("virtualNetworkGateway1", "id"), ("virtualNetworkGatewayId",))

FIREWALL = TieredService(
    "firewall",
    "firewall:{tier}",
    ("sku.tier",),
    "Standard",
    meters=(UsageMeter("processed", "firewall:gib", "monthly_data_processed_gb"),),
)
PRIVATE_ENDPOINT = TieredService(
    "endpoint",
    "private_endpoint",
    meters=(
        UsageMeter("inbound", "private_endpoint:gib_inbound", "monthly_inbound_data_processed_gb"),
        UsageMeter("outbound", "private_endpoint:gib_outbound", "monthly_outbound_data_processed_gb"),
    ),
)
VIRTUAL_HUB = TieredService(
    "hub", "virtual_hub", meters=(UsageMeter("processed", "virtual_hub:gib", "monthly_data_processed_gb"),)
)
VPN_GATEWAY = TieredService("gateway", "virtual_wan:vpn_scale_unit", units_path="vpnGatewayScaleUnit")
P2S_GATEWAY = TieredService(
    "gateway",
    "virtual_wan:vpn_scale_unit",
    units_path="vpnGatewayScaleUnit",
    meters=(UsageMeter("connections", "virtual_wan:p2s_connection_hour", "monthly_p2s_connections_hrs"),),
)
EXPRESS_ROUTE_GATEWAY = TieredService(
    "gateway",
    "virtual_wan:express_route_scale_unit",
    units_path="autoScaleConfiguration.bounds.min",
    maximum_path="autoScaleConfiguration.bounds.max",
)
EXPRESS_ROUTE_CIRCUIT = TieredService(
    "circuit",
    "express_route_circuit:{tier}",
    ("sku.tier", "sku.family", "serviceProviderProperties.bandwidthInMbps"),
)
DDOS_PLAN = TieredService(
    "plan",
    "ddos_protection_plan",
    meters=(UsageMeter("overage", "ddos_protection_plan:resource", "overage_amount", is_stored=True),),
)
HUB_CONNECTION = TieredService("connection", "virtual_wan:vpn_connection")
EXPRESS_ROUTE_CONNECTION = TieredService("connection", "virtual_wan:express_route_connection")
DNS_QUERIES = (UsageMeter("queries", "dns:query", "monthly_queries"),)
DNS_ZONE = TieredService("zone", "dns:zone", meters=DNS_QUERIES, is_global=True)
RESOLVER_ENDPOINT = TieredService("endpoint", "dns_resolver:endpoint")
RESOLVER_RULESET = TieredService("ruleset", "dns_resolver:ruleset")
TRAFFIC_MANAGER = TieredService(
    "profile",
    "",
    meters=(
        UsageMeter("queries", "traffic_manager:query", "monthly_dns_queries"),
        UsageMeter("traffic_view", "traffic_manager:data_point", "monthly_traffic_view_data_points"),
    ),
    is_global=True,
)
TRAFFIC_ENDPOINT = TieredService(
    "health_checks", "traffic_manager:endpoint:{tier}", ("endpointType",), is_global=True
)
PEERING = TieredService(
    "peering",
    "",
    meters=(UsageMeter("transfer", "virtual_network_peering:gib", "monthly_data_transfer_gb"),),
)
FLOW_LOG = TieredService(
    "logs", "", meters=(UsageMeter("collected", "flow_log:gib", "monthly_logs_collected_gb"),)
)


@dataclass(frozen=True)
class ApplicationGatewayInputs:
    """The SKU and instances of an application gateway; ``minimum`` and ``maximum`` are of autoscaling."""

    sku: Text
    capacity: Number
    minimum: Number
    maximum: Number


@dataclass(frozen=True)
class VirtualNetworkGatewayInputs:
    """The SKU of a VPN or ExpressRoute gateway."""

    sku: Text


@dataclass(frozen=True)
class PublicIpPrefixInputs:
    """The length of a prefix of public addresses."""

    is_ipv6: bool
    length: Number


def parse_application_gateway_inputs(inputs: Any) -> ApplicationGatewayInputs:
    """Parse an application gateway."""
    return ApplicationGatewayInputs(
        sku=read_input_text(inputs, "sku", "name"),
        capacity=read_input_number(inputs, "sku", "capacity"),
        minimum=read_input_number(inputs, "autoscaleConfiguration", "minCapacity"),
        maximum=read_input_number(inputs, "autoscaleConfiguration", "maxCapacity"),
    )


def parse_virtual_network_gateway_inputs(inputs: Any) -> VirtualNetworkGatewayInputs:
    """Parse a VPN or ExpressRoute gateway."""
    name = read_input(inputs, "sku")
    return VirtualNetworkGatewayInputs(
        name if isinstance(name, str) else read_input_text(inputs, "sku", "name")
    )


def parse_public_ip_prefix_inputs(inputs: Any) -> PublicIpPrefixInputs:
    """Parse a prefix of public addresses."""
    version = read_input_text(inputs, "publicIPAddressVersion")
    return PublicIpPrefixInputs(version == "IPv6", read_input_number(inputs, "prefixLength"))


def price_application_gateway(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a gateway: of version 2 its fixed price and the capacity units that its instances reserve."""
    gateway = parse_application_gateway_inputs(resource.inputs)
    sku = text_or_unpriced(gateway.sku, "its SKU", "gateway")
    if isinstance(sku, UnpricedComponent):
        return [sku]
    context = standalone_part_context(resource, graph)
    name = f"application_gateway:{sku.lower()}"
    instances = _instance_range(gateway)
    if not sku.lower().endswith("_v2") and sku != "Basic":
        return [units_component("gateway", name, instances, context)]
    units = instances if isinstance(instances, UnreadableValue) else instances * UNITS_PER_INSTANCE
    fixed = context.make_part_component("gateway", name)
    return [fixed, units_component("capacity_units", f"{name}:capacity_unit", units, context)]


def price_virtual_network_gateway(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a VPN or ExpressRoute gateway by its SKU."""
    gateway = parse_virtual_network_gateway_inputs(resource.inputs)
    sku = text_or_unpriced(gateway.sku, "its SKU", "gateway")
    if isinstance(sku, UnpricedComponent):
        return [sku]
    context = standalone_part_context(resource, graph)
    return [context.make_part_component("gateway", f"virtual_network_gateway:{sku.lower()}")]


def price_public_ip_prefix(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the addresses of a prefix, each billed whether it is used or not; IPv6 ones are free."""
    prefix = parse_public_ip_prefix_inputs(resource.inputs)
    if prefix.is_ipv6:
        return []
    if isinstance(prefix.length, UnreadableValue):
        return [UnpricedComponent("its length is not known until deployment", "addresses")]
    length = min(int(prefix.length or DEFAULT_PREFIX_LENGTH), ADDRESS_BITS)
    context = standalone_part_context(resource, graph)
    size = Decimal(2 ** (ADDRESS_BITS - length))
    return [context.make_part_component("addresses", "public_ipv4:prefix", size)]


def price_gateway_connection(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a VPN connection beyond those that its gateway's price includes; ExpressRoute ones are free."""
    kinds = (read_input_text(resource.inputs, "connectionType"), read_input_text(resource.inputs, "type"))
    if "ExpressRoute" in kinds:
        return []
    for path in CONNECTION_GATEWAYS:
        gateway = graph.find_referenced_resource(resource, path, *GATEWAYS)
        if gateway:
            connections = graph.find_referring_resources(gateway, path, *CONNECTIONS)
            urns = sorted(each.urn for each in connections)
            if resource.urn in urns and urns.index(resource.urn) < INCLUDED_CONNECTIONS:
                return []
    context = standalone_part_context(resource, graph)
    return [context.make_part_component("connection", "virtual_network_gateway:connection")]


def _instance_range(gateway: ApplicationGatewayInputs) -> Range | UnreadableValue:
    """Return the instances: those declared, or those between the bounds of autoscaling, at least the minimum."""
    minimum = gateway.minimum if gateway.capacity is None else gateway.capacity
    if isinstance(minimum, UnreadableValue) or isinstance(gateway.maximum, UnreadableValue):
        return UnreadableValue.UNKNOWN
    count = Decimal(1) if minimum is None and gateway.maximum is None else minimum or Decimal(0)
    return Range.spanning(count, count, max(count, gateway.maximum or count))


PRICERS: dict[str, Pricer] = {
    "azure-native:dns:Zone": tiered_service_pricer(DNS_ZONE),
    "azure-native:dnsresolver:DnsForwardingRuleset": tiered_service_pricer(RESOLVER_RULESET),
    "azure-native:dnsresolver:InboundEndpoint": tiered_service_pricer(RESOLVER_ENDPOINT),
    "azure-native:dnsresolver:OutboundEndpoint": tiered_service_pricer(RESOLVER_ENDPOINT),
    "azure-native:network:ApplicationGateway": price_application_gateway,
    "azure-native:network:AzureFirewall": tiered_service_pricer(FIREWALL),
    "azure-native:network:DdosProtectionPlan": tiered_service_pricer(DDOS_PLAN),
    "azure-native:network:ExpressRouteCircuit": tiered_service_pricer(EXPRESS_ROUTE_CIRCUIT),
    "azure-native:network:ExpressRouteConnection": tiered_service_pricer(EXPRESS_ROUTE_CONNECTION),
    "azure-native:network:ExpressRouteGateway": tiered_service_pricer(EXPRESS_ROUTE_GATEWAY),
    "azure-native:network:FlowLog": tiered_service_pricer(FLOW_LOG),
    "azure-native:network:P2sVpnGateway": tiered_service_pricer(P2S_GATEWAY),
    "azure-native:network:PrivateEndpoint": tiered_service_pricer(PRIVATE_ENDPOINT),
    "azure-native:network:PublicIPPrefix": price_public_ip_prefix,
    "azure-native:network:VirtualHub": tiered_service_pricer(VIRTUAL_HUB),
    "azure-native:network:VirtualNetworkGateway": price_virtual_network_gateway,
    "azure-native:network:VirtualNetworkGatewayConnection": price_gateway_connection,
    "azure-native:network:VirtualNetworkPeering": tiered_service_pricer(PEERING),
    "azure-native:network:VpnConnection": tiered_service_pricer(HUB_CONNECTION),
    "azure-native:network:VpnGateway": tiered_service_pricer(VPN_GATEWAY),
    "azure-native:network:Zone": tiered_service_pricer(DNS_ZONE),
    "azure-native:network:PrivateZone": tiered_service_pricer(DNS_ZONE),
    "azure-native:network:Profile": tiered_service_pricer(TRAFFIC_MANAGER),
    "azure-native:privatedns:PrivateZone": tiered_service_pricer(DNS_ZONE),
    "azure-native:trafficmanager:Endpoint": tiered_service_pricer(TRAFFIC_ENDPOINT),
    "azure-native:trafficmanager:Profile": tiered_service_pricer(TRAFFIC_MANAGER),
    "azure:dns/zone:Zone": tiered_service_pricer(DNS_ZONE),
    "azure:network/applicationGateway:ApplicationGateway": price_application_gateway,
    "azure:network/ddosProtectionPlan:DdosProtectionPlan": tiered_service_pricer(DDOS_PLAN),
    "azure:network/expressRouteCircuit:ExpressRouteCircuit": translated(
        tiered_service_pricer(EXPRESS_ROUTE_CIRCUIT),
        {"bandwidthInMbps": "serviceProviderProperties.bandwidthInMbps"},
    ),
    "azure:network/expressRouteConnection:ExpressRouteConnection": tiered_service_pricer(
        EXPRESS_ROUTE_CONNECTION
    ),
    "azure:network/expressRouteGateway:ExpressRouteGateway": translated(
        tiered_service_pricer(EXPRESS_ROUTE_GATEWAY), {"scaleUnits": "autoScaleConfiguration.bounds.min"}
    ),
    "azure:network/firewall:Firewall": translated(
        tiered_service_pricer(FIREWALL), {"skuTier": "sku.tier", "skuName": "sku.name"}
    ),
    "azure:network/networkWatcherFlowLog:NetworkWatcherFlowLog": tiered_service_pricer(FLOW_LOG),
    "azure:network/pointToPointVpnGateway:PointToPointVpnGateway": translated(
        tiered_service_pricer(P2S_GATEWAY), {"scaleUnit": "vpnGatewayScaleUnit"}
    ),
    "azure:network/publicIpPrefix:PublicIpPrefix": translated(
        price_public_ip_prefix, {"ipVersion": "publicIPAddressVersion"}
    ),
    "azure:network/trafficManagerAzureEndpoint:TrafficManagerAzureEndpoint": translated(
        tiered_service_pricer(TRAFFIC_ENDPOINT), {}, {"endpointType": "AzureEndpoints"}
    ),
    "azure:network/trafficManagerExternalEndpoint:TrafficManagerExternalEndpoint": translated(
        tiered_service_pricer(TRAFFIC_ENDPOINT), {}, {"endpointType": "ExternalEndpoints"}
    ),
    "azure:network/trafficManagerNestedEndpoint:TrafficManagerNestedEndpoint": translated(
        tiered_service_pricer(TRAFFIC_ENDPOINT), {}, {"endpointType": "NestedEndpoints"}
    ),
    "azure:network/trafficManagerProfile:TrafficManagerProfile": tiered_service_pricer(TRAFFIC_MANAGER),
    "azure:network/virtualHub:VirtualHub": tiered_service_pricer(VIRTUAL_HUB),
    "azure:network/virtualNetworkGateway:VirtualNetworkGateway": price_virtual_network_gateway,
    "azure:network/virtualNetworkGatewayConnection:VirtualNetworkGatewayConnection": price_gateway_connection,
    "azure:network/virtualNetworkPeering:VirtualNetworkPeering": tiered_service_pricer(PEERING),
    "azure:network/vpnGateway:VpnGateway": translated(
        tiered_service_pricer(VPN_GATEWAY), {"scaleUnit": "vpnGatewayScaleUnit"}
    ),
    "azure:network/vpnGatewayConnection:VpnGatewayConnection": tiered_service_pricer(HUB_CONNECTION),
    "azure:privatedns/resolverDnsForwardingRuleset:ResolverDnsForwardingRuleset": tiered_service_pricer(
        RESOLVER_RULESET
    ),
    "azure:privatedns/resolverInboundEndpoint:ResolverInboundEndpoint": tiered_service_pricer(
        RESOLVER_ENDPOINT
    ),
    "azure:privatedns/resolverOutboundEndpoint:ResolverOutboundEndpoint": tiered_service_pricer(
        RESOLVER_ENDPOINT
    ),
    "azure:privatedns/zone:Zone": tiered_service_pricer(DNS_ZONE),
    "azure:privatelink/endpoint:Endpoint": tiered_service_pricer(PRIVATE_ENDPOINT),
    "azure:trafficmanager/profile:Profile": tiered_service_pricer(TRAFFIC_MANAGER),
}
