"""Azure's public addresses by SKU and method, balancers without rules, and what AKS makes for outbound traffic."""

from __future__ import annotations

from decimal import Decimal

import pytest

from azure_bill import make, monthly_usd
from gpufleet import cost
from gpufleet.engine import UnreadableValue

ADDRESS, CLASSIC = "azure-native:network:PublicIPAddress", "azure:network/publicIp:PublicIp"
EAST, WEST = {"location": "eastus"}, {"location": "westus"}
HIDDEN = UnreadableValue.UNKNOWN
STANDARD = {"sku": {"name": "Standard"}}


def month(usd_per_hour):
    return round(Decimal(usd_per_hour) * 730, 2)


@pytest.mark.parametrize(
    ("type_", "inputs", "usd_per_hour"),
    [
        (ADDRESS, {**EAST, **STANDARD, "publicIPAllocationMethod": "Static"}, "0.005"),
        (ADDRESS, {**EAST, "sku": {"name": "Standard", "tier": "Global"}}, "0.01"),
        (ADDRESS, {**WEST, "publicIPAllocationMethod": "Static"}, "0.0036"),
        (ADDRESS, {**WEST, "sku": {"name": "Basic"}, "publicIPAllocationMethod": "Static"}, "0.0036"),
        (CLASSIC, {**EAST, "allocationMethod": "Static"}, "0.005"),
        (CLASSIC, {**EAST, "allocationMethod": "Static", "skuTier": "Global"}, "0.01"),
        (CLASSIC, {**WEST, "allocationMethod": "Static", "sku": "Basic"}, "0.0036"),
        (ADDRESS, {**EAST, "publicIPAddressVersion": "IPv6"}, "0"),
    ],
)
def test_address_bills_by_sku_and_method(type_, inputs, usd_per_hour):
    assert monthly_usd(type_, inputs) == (month(usd_per_hour), [])


@pytest.mark.parametrize(
    ("user_type", "user", "type_", "address"),
    [
        (
            "azure-native:network:NetworkInterface",
            {"ipConfigurations": [{"publicIPAddress": {"id": "it"}}]},
            ADDRESS,
            {},
        ),
        (
            "azure-native:network:LoadBalancer",
            {"frontendIPConfigurations": [{"publicIPAddress": {"id": "it"}}]},
            ADDRESS,
            {},
        ),
        (
            "azure:network/networkInterface:NetworkInterface",
            {"ipConfigurations": [{"publicIpAddressId": "it"}]},
            CLASSIC,
            {"sku": "Basic", "allocationMethod": "Dynamic"},
        ),
    ],
)
def test_dynamic_address_that_is_used_bills_around_the_clock(user_type, user, type_, address):
    inputs = {**EAST, "name": "it", **address}
    bill = cost.price_resources([make(type_, inputs), make(user_type, {**EAST, **user}, "user")])
    assert [each.usd_per_month.low for each in bill.charges if each.urn.endswith("::it")] == [month("0.004")]


def test_dynamic_address_that_nothing_uses_may_be_free():
    bill = cost.price_resources([make(ADDRESS, {**EAST, "publicIPAllocationMethod": "Dynamic"})])
    assert (bill.usd_per_month.low, bill.usd_per_month.expected) == (0, month("0.004"))
    assert "free while nothing uses it" in bill.charges[0].note


@pytest.mark.parametrize(
    "hidden", [{"sku": {"name": HIDDEN}}, {"sku": HIDDEN}, {"publicIPAllocationMethod": HIDDEN}]
)
def test_unknown_sku_or_method_is_listed(hidden):
    reason = "its SKU or allocation method is not known until deployment"
    assert monthly_usd(ADDRESS, {**EAST, **hidden}) == (0, [reason])


def test_basic_address_has_the_price_of_another_region():
    total, reasons = monthly_usd(ADDRESS, {"location": "westeurope"})
    assert total > 0
    assert reasons == []


@pytest.mark.parametrize(
    ("rules", "usd_per_hour"),
    [
        ({}, "0"),
        ({"inboundNatRules": [{}]}, "0"),
        ({"outboundRules": [{}]}, "0.025"),
    ],
)
def test_balancer_without_rules_is_free(rules, usd_per_hour):
    balancer = {**EAST, **STANDARD, **rules}
    assert monthly_usd("azure-native:network:LoadBalancer", balancer) == (month(usd_per_hour), [])


def test_balancer_with_unknown_rules_bills_the_first_and_lists_the_others():
    balancer = {**EAST, **STANDARD, "loadBalancingRules": HIDDEN}
    usd, reasons = monthly_usd("azure-native:network:LoadBalancer", balancer)
    assert usd == month("0.025")
    assert reasons == ["the list of its rules is not known until deployment"]


AKS, CLASSIC_AKS = (
    "azure-native:containerservice:ManagedCluster",
    "azure:containerservice/kubernetesCluster:KubernetesCluster",
)


@pytest.mark.parametrize(
    ("type_", "network", "usd_per_hour"),
    [
        (AKS, None, "0.03"),  # 0.025 for the balancer and 0.005 for its address
        (AKS, {"outboundType": "loadBalancer", "loadBalancerSku": "standard"}, "0.03"),
        (AKS, {"loadBalancerSku": "basic"}, "0"),
        (AKS, {"loadBalancerProfile": {"managedOutboundIPs": {"count": 3}}}, "0.04"),
        (AKS, {"loadBalancerProfile": {"outboundIPs": {"publicIPs": [{"id": "a"}]}}}, "0.025"),
        (AKS, {"outboundType": "userDefinedRouting"}, "0"),
        (AKS, {"outboundType": "userAssignedNATGateway"}, "0"),
        (CLASSIC_AKS, None, "0.03"),
        (CLASSIC_AKS, {"loadBalancerProfile": {"managedOutboundIpCount": 2}}, "0.035"),
        (CLASSIC_AKS, {"loadBalancerProfile": {"outboundIpAddressIds": ["a"]}}, "0.025"),
        (CLASSIC_AKS, {"outboundType": "userDefinedRouting"}, "0"),
    ],
)
def test_cluster_bills_what_it_makes_for_outbound_traffic(type_, network, usd_per_hour):
    inputs = EAST if network is None else {**EAST, "networkProfile": network}
    assert monthly_usd(type_, inputs) == (month(usd_per_hour), [])


def test_cluster_with_a_managed_nat_gateway_bills_it_and_its_addresses():
    """0.045 USD for the gateway and 0.005 for each of two addresses, in westeurope."""
    place = {"location": "westeurope"}
    native = {
        "outboundType": "managedNATGateway",
        "natGatewayProfile": {"managedOutboundIPProfile": {"count": 2}},
    }
    classic = {"outboundType": "managedNATGateway", "natGatewayProfile": {"managedOutboundIpCount": 2}}
    for type_, network in ((AKS, native), (CLASSIC_AKS, classic)):
        assert monthly_usd(type_, {**place, "networkProfile": network}) == (month("0.055"), [])


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (HIDDEN, "its outbound network is not known until deployment"),
        ({"outboundType": HIDDEN}, "its outbound network is not known until deployment"),
    ],
)
def test_unknown_outbound_network_is_listed(network, reason):
    for type_ in (AKS, CLASSIC_AKS):
        assert monthly_usd(type_, {**EAST, "networkProfile": network}) == (0, [reason])


def test_unknown_number_of_addresses_is_listed():
    network = {"loadBalancerProfile": {"managedOutboundIPs": {"count": HIDDEN}}}
    reason = "number of its addresses is not known until deployment"
    assert monthly_usd(AKS, {**EAST, "networkProfile": network}) == (month("0.025"), [reason])
