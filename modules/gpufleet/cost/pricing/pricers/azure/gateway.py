"""Gateways and public addresses of Azure networks whose price has a condition."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

# Capacity units that an instance of version 2 reserves (learn.microsoft.com).
UNITS_PER_INSTANCE = Decimal(10)
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
CONNECTION_GATEWAYS = ("virtualNetworkGateway1.id", "virtualNetworkGatewayId")
CONNECTION_KINDS = ("IPsec", "Vnet2Vnet", "ExpressRoute", "VPNClient")


@pricer("azure-native:network:ApplicationGateway", "azure:network/applicationGateway:ApplicationGateway")
def price_application_gateway(gateway: Reader) -> Parts:
    """Yield a gateway: of version 2 its fixed price and the capacity units that its instances reserve."""
    with gateway.of("gateway") as fixed:
        sku = fixed.text("sku.name", "its SKU").lower()
        yield fixed.part(f"application_gateway:{sku}", 1 if _has_units(fixed) else _count_instances(fixed))
    with gateway.of("capacity_units") as units:
        sku = units.text("sku.name", "its SKU").lower()
        if _has_units(units):
            count = _count_instances(units) * UNITS_PER_INSTANCE
            yield units.part(f"application_gateway:{sku}:capacity_unit", count)


def _has_units(gateway: Reader) -> bool:
    return gateway.text("sku.name", "its SKU").lower().endswith(("_v2", "basic"))


def _count_instances(gateway: Reader) -> Range:
    """Return the instances: those declared, or those between the bounds of autoscaling."""
    minimum, maximum = "autoscaleConfiguration.minCapacity", "autoscaleConfiguration.maxCapacity"
    default = 0 if gateway.has(maximum) else 1
    count = gateway.number(f"sku.capacity or {minimum}", "the number of its units", default)
    return gateway.up_to(Range.from_exact_value(count), maximum)


@pricer(
    "azure-native:network:VirtualNetworkGateway", "azure:network/virtualNetworkGateway:VirtualNetworkGateway"
)
def price_virtual_network_gateway(gateway: Reader) -> Parts:
    """Yield a VPN or ExpressRoute gateway by its SKU."""
    with gateway.of("gateway") as part:
        yield part.part(f"virtual_network_gateway:{part.text('sku.name or sku', 'its SKU').lower()}")


@pricer("azure-native:network:PublicIPPrefix", "azure:network/publicIpPrefix:PublicIpPrefix")
def price_public_ip_prefix(prefix: Reader) -> Parts:
    """Yield the addresses of a prefix, each billed whether it is used or not; IPv6 ones are free."""
    with prefix.of("addresses") as addresses:
        if addresses.choice("publicIPAddressVersion or ipVersion", ("IPv4", "IPv6"), "IPv4") == "IPv4":
            length = addresses.number("prefixLength", "its length", DEFAULT_PREFIX_LENGTH)
            yield addresses.part("public_ipv4:prefix", size=Decimal(2 ** max(ADDRESS_BITS - int(length), 0)))


@pricer(
    "azure-native:network:VirtualNetworkGatewayConnection",
    "azure:network/virtualNetworkGatewayConnection:VirtualNetworkGatewayConnection",
)
def price_gateway_connection(connection: Reader) -> Parts:
    """Yield a VPN connection beyond those that its gateway's price includes; ExpressRoute ones are free."""
    with connection.of("connection") as part:
        kind = part.choice("connectionType or type", CONNECTION_KINDS, "IPsec", "its kind")
        if kind != "ExpressRoute" and not _is_included(part):
            yield part.part("virtual_network_gateway:connection")


def _is_included(connection: Reader) -> bool:
    for path in CONNECTION_GATEWAYS:
        if gateway := connection.find_resource(path, *GATEWAYS):
            urns = sorted(each.urn for each in connection.reading(gateway).find_referrers(path, *CONNECTIONS))
            if connection.resource.urn in urns[:INCLUDED_CONNECTIONS]:
                return True
    return False
