"""NAT gateways, bastions, load balancers and public addresses of Azure."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, BASTION, LOAD_BALANCER, NAT
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.cost.pricing.pricers.traffic import list_traffic

BASTION_SKUS = ("Basic", "Standard", "Premium", "Developer")
INCLUDED_SCALE_UNITS = 2  # in a bastion's price
RULES = ("loadBalancingRules", "outboundRules")
INCLUDED_RULES = 5  # in a load balancer's hourly price
CLASSIC_RULES = ("azure:lb/rule:Rule", "azure:lb/outboundRule:OutboundRule")  # resources of their own
UNUSED_IS_FREE = Range(ZERO, Decimal(1), Decimal(1))  # what uses the address may be in another program
# Where what uses a public address names it: network cards and VPN gateways, balancers and application gateways.
ADDRESS_USERS = (
    ("ipConfigurations.0.publicIPAddress.id", ("NetworkInterface", "VirtualNetworkGateway")),
    ("frontendIPConfigurations.0.publicIPAddress.id", ("LoadBalancer", "ApplicationGateway")),
)
CLASSIC_ADDRESS_USERS = (
    (
        "ipConfigurations.0.publicIpAddressId",
        (
            "azure:network/networkInterface:NetworkInterface",
            "azure:network/virtualNetworkGateway:VirtualNetworkGateway",
        ),
    ),
    (
        "frontendIpConfigurations.0.publicIpAddressId",
        ("azure:lb/loadBalancer:LoadBalancer", "azure:network/applicationGateway:ApplicationGateway"),
    ),
)
SKU_TIERS, ALLOCATIONS = ("Regional", "Global"), ("Static", "Dynamic")


@pricer("azure-native:network:PublicIPAddress")
def price_public_ip(address: Reader) -> Parts:
    """Yield a public address; without a SKU it is a basic one."""
    return _list_address(address, "Basic", "sku.tier")


@pricer("azure:network/publicIp:PublicIp")
def price_classic_public_ip(address: Reader) -> Parts:
    """Yield a public address; since version 6 of the package one without a SKU is a standard one."""
    return _list_address(address, "Standard", "skuTier")


def _list_address(address: Reader, default_sku: str, tier_path: str) -> Parts:
    """Yield a public address by its SKU; an IPv6 one is free, and so is a dynamic one while nothing uses it.

    Basic addresses have a price for each method (azure.microsoft.com, "IP Addresses pricing", read 2026-11-23).
    """
    with address.of(ADDRESS) as part:
        if part.choice("publicIPAddressVersion or ipVersion", ("IPv4", "IPv6"), "IPv4") == "IPv6":
            return
        sku = part.text("sku.name or sku", "its SKU or allocation method", default_sku)
        tier = part.choice(tier_path, SKU_TIERS, "Regional", "its tier")
        method = part.choice(
            "publicIPAllocationMethod or allocationMethod",
            ALLOCATIONS,
            "Dynamic",
            "its SKU or allocation method",
        )
        if sku.lower() != "basic":
            yield part.part(f"{ADDRESS}:global" if tier == "Global" else ADDRESS)
        elif method == "Static":
            yield part.part(f"{ADDRESS}:basic_static")
        elif _is_used(part):
            yield part.part(f"{ADDRESS}:basic_dynamic")
        else:
            note = "free while nothing uses it"
            yield part.part(f"{ADDRESS}:basic_dynamic", UNUSED_IS_FREE, note=note)


def _is_used(address: Reader) -> bool:
    native = [
        (path, tuple(f"azure-native:network:{name}" for name in names)) for path, names in ADDRESS_USERS
    ]
    return any(address.find_referrers(path, *types) for path, types in (*native, *CLASSIC_ADDRESS_USERS))


@pricer("azure-native:network:NatGateway", "azure:network/natGateway:NatGateway")
def price_nat_gateway(gateway: Reader) -> Parts:
    """Yield a NAT gateway; its addresses bill where they are declared."""
    yield gateway.of("gateway").part(NAT)
    yield from list_traffic(gateway)


@pricer("azure-native:network:BastionHost")
def price_bastion(bastion: Reader) -> Parts:
    """Yield a bastion by its SKU; without one it is a standard one."""
    return _list_bastion(bastion, "Standard")


@pricer("azure:compute/bastionHost:BastionHost")
def price_classic_bastion(bastion: Reader) -> Parts:
    """Yield a bastion; the classic provider makes one without a SKU a basic one (bastion_host_resource.go)."""
    return _list_bastion(bastion, "Basic")


def _list_bastion(bastion: Reader, default_sku: str) -> Parts:
    """Yield a bastion by its SKU; the Developer SKU is free."""
    with bastion.of("bastion") as part:
        sku = part.choice("sku.name or sku", BASTION_SKUS, default_sku, "bastion SKU")
        if sku != "Developer":
            yield part.part(BASTION if sku == "Basic" else f"{BASTION}:{sku.lower()}")
    with bastion.of("scale_units") as units:
        number = units.number("scaleUnits", "the number of its scale units", 0)
        if number > INCLUDED_SCALE_UNITS:
            beyond = f"{number - INCLUDED_SCALE_UNITS} scale units beyond those that its price includes"
            raise units.refuse(beyond)


@pricer("azure-native:network:LoadBalancer")
def price_load_balancer(balancer: Reader) -> Parts:
    """Yield a load balancer; without a SKU it is a basic one."""
    return _list_balancer(balancer, "Basic")


@pricer("azure:lb/loadBalancer:LoadBalancer")
def price_classic_load_balancer(balancer: Reader) -> Parts:
    """Yield a load balancer; since version 6 of the package one without a SKU is a standard one."""
    return _list_balancer(balancer, "Standard")


def _list_balancer(balancer: Reader, default_sku: str) -> Parts:
    """Yield a load balancer by its SKU and rules; a basic one is free, and so is one without rules."""
    declared = balancer.has("sku.name or sku")
    if (balancer.find_choice("sku.name or sku", ("Basic",)) if declared else default_sku) == "Basic":
        return
    with balancer.of("load_balancer") as part:
        if _has_rules(part):
            yield part.part(_name_item(part, default_sku))
    with balancer.of("rules") as rules:
        beyond = max(_count_rules(rules) - INCLUDED_RULES, 0)
        yield rules.part(f"{_name_item(rules, default_sku)}:rule", size=Decimal(beyond))
    yield from list_traffic(balancer, f"{LOAD_BALANCER}:gib")


def _name_item(balancer: Reader, default_sku: str) -> str:
    return f"{LOAD_BALANCER}:{balancer.text('sku.name or sku', 'load balancer SKU', default_sku).lower()}"


def _has_rules(balancer: Reader) -> bool:
    """Return whether a load balancer has rules; one whose rules cannot be read has some."""
    return any(balancer.find_count(key) for key in RULES) or bool(_count_classic_rules(balancer))


def _count_rules(balancer: Reader) -> int:
    own = sum(len(balancer.entries(key, "the list of its rules")) for key in RULES)
    return own + _count_classic_rules(balancer)


def _count_classic_rules(balancer: Reader) -> int:
    return len(balancer.find_referrers("loadbalancerId", *CLASSIC_RULES))
