"""Azure services against totals calculated by hand from the list prices in service_parts_azure.csv.

Each amount is written as price x units x hours of a month (730), or x what the usage file has.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from azure_bill import make, monthly_usd
from gpufleet.boundary import read_packaged_rows
from gpufleet.catalog import Price
from gpufleet.cost import PriceBook, price_resources
from gpufleet.cost.inputs.usage import load_usage_file
from gpufleet.cost.pricing.pricers.azure import PRICERS
from gpufleet.engine import UnreadableValue

UNKNOWN = UnreadableValue.UNKNOWN


HOURLY = [
    ("azure-native:network:AzureFirewall", {"location": "eastus", "sku": {"tier": "Premium"}}, 1.75 * 730),
    ("azure-native:network/v20240101:AzureFirewall", {"location": "East US"}, 1.25 * 730),
    ("azure:network/firewall:Firewall", {"location": "eastus", "skuTier": "Standard"}, 1.25 * 730),
    ("azure-native:network:PrivateEndpoint", {"location": "westus"}, 0.01 * 730),
    ("azure:privatelink/endpoint:Endpoint", {"location": "West US"}, 0.01 * 730),
    ("azure-native:network:VirtualHub", {"location": "westeurope"}, 0.25 * 730),
    ("azure-native:network:VpnGateway", {"location": "westeurope", "vpnGatewayScaleUnit": 2}, 263.53 * 2),
    ("azure:network/vpnGateway:VpnGateway", {"location": "westeurope", "scaleUnit": 3}, 263.53 * 3),
    (
        "azure:network/expressRouteGateway:ExpressRouteGateway",
        {"location": "westeurope", "scaleUnits": 2},
        613.2,
    ),
    ("azure-native:network:DdosProtectionPlan", {"location": "westeurope"}, 4.03226 * 730),
    ("azure-native:dns:Zone", {"location": "global"}, 0.5),
    ("azure:privatedns/zone:Zone", {}, 0.5),
    ("azure-native:dnsresolver:InboundEndpoint", {"location": "westeurope"}, 180),
    (
        "azure-native:network:ApplicationGateway",
        {"location": "eastus", "sku": {"name": "Standard_v2", "capacity": 2}},
        (0.246 + 2 * 10 * 0.008) * 730,
    ),
    (
        "azure:network/applicationGateway:ApplicationGateway",
        {
            "location": "eastus",
            "sku": {"name": "WAF_v2"},
            "autoscaleConfiguration": {"minCapacity": 1, "maxCapacity": 3},
        },
        (0.443 + 10 * 0.0144) * 730,
    ),
    (
        "azure-native:network:VirtualNetworkGateway",
        {"location": "eastus", "sku": {"name": "VpnGw1"}},
        0.19 * 730,
    ),
    (
        "azure:network/virtualNetworkGateway:VirtualNetworkGateway",
        {"location": "eastus", "sku": "VpnGw2"},
        0.49 * 730,
    ),
    ("azure-native:network:PublicIPPrefix", {"location": "eastus", "prefixLength": 30}, 4 * 0.006 * 730),
    ("azure:network/publicIpPrefix:PublicIpPrefix", {"location": "eastus", "ipVersion": "IPv6"}, 0),
    (
        "azure-native:apimanagement:ApiManagementService",
        {"location": "eastus", "sku": {"name": "Standard", "capacity": 2}},
        686.71 * 2,
    ),
    ("azure:apimanagement/service:Service", {"location": "eastus", "skuName": "Developer_1"}, 48.03),
    (
        "azure-native:signalrservice:SignalR",
        {"location": "westeurope", "sku": {"name": "Standard_S1", "capacity": 3}},
        48.97 * 3,
    ),
    (
        "azure-native:eventhub:Namespace",
        {"location": "eastus", "sku": {"name": "Standard", "capacity": 4}},
        21.9 * 4,
    ),
    (
        "azure:eventhub/eventHubNamespace:EventHubNamespace",
        {"location": "eastus", "sku": "Premium", "capacity": 2},
        749.71 * 2,
    ),
    (
        "azure-native:servicebus:Namespace",
        {"location": "westeurope", "sku": {"name": "Premium", "capacity": 2}},
        677.075 * 2,
    ),
    (
        "azure:servicebus/namespace:Namespace",
        {"location": "westeurope", "sku": "Standard", "capacity": 0},
        0.01344 * 730,
    ),
    (
        "azure-native:search:Service",
        {"location": "eastus", "sku": {"name": "basic"}, "replicaCount": 3, "partitionCount": 1},
        0.101 * 3 * 730,
    ),
    (
        "azure:search/service:Service",
        {"location": "eastus", "sku": "standard2", "replicaCount": 2, "partitionCount": 2},
        1.344 * 4 * 730,
    ),
    (
        "azure-native:appconfiguration:ConfigurationStore",
        {"location": "westeurope", "sku": {"name": "standard"}},
        36.5,
    ),
    (
        "azure-native:powerbidedicated:CapacityDetails",
        {"location": "westeurope", "sku": {"name": "A1"}},
        1.0081 * 730,
    ),
    ("azure-native:web:StaticSite", {"location": "centralus", "sku": {"name": "Standard"}}, 9),
    ("azure-native:keyvault:ManagedHsm", {"location": "eastus"}, 3.2 * 730),
    ("azure-native:iothub:IotHubResource", {"location": "westeurope", "sku": {"name": "S1"}}, 25),
    ("azure-native:devices:IotHubResource", {"location": "westeurope", "sku": {"name": "F1"}}, 0),
    ("azure-native:network:Zone", {}, 0.5),
    ("azure-native:trafficmanager:Endpoint", {"endpointType": "AzureEndpoints"}, 0.36),
    ("azure:network/trafficManagerAzureEndpoint:TrafficManagerAzureEndpoint", {}, 0.36),
    ("azure-native:network:PrivateZone", {}, 0.5),
    ("azure-native:privatedns:PrivateZone", {}, 0.5),
    ("azure:dns/zone:Zone", {}, 0.5),
    ("azure-native:dnsresolver:OutboundEndpoint", {"location": "westeurope"}, 180),
    ("azure-native:dnsresolver:DnsForwardingRuleset", {"location": "westeurope"}, 2.5),
    ("azure:privatedns/resolverInboundEndpoint:ResolverInboundEndpoint", {"location": "westeurope"}, 180),
    ("azure:privatedns/resolverOutboundEndpoint:ResolverOutboundEndpoint", {"location": "westeurope"}, 180),
    (
        "azure:privatedns/resolverDnsForwardingRuleset:ResolverDnsForwardingRuleset",
        {"location": "westeurope"},
        2.5,
    ),
    ("azure-native:network:ExpressRouteConnection", {"location": "westeurope"}, 0.05 * 730),
    ("azure:network/expressRouteConnection:ExpressRouteConnection", {"location": "westeurope"}, 36.5),
    (
        "azure-native:network:ExpressRouteGateway",
        {"location": "westeurope", "autoScaleConfiguration": {"bounds": {"min": 1, "max": 4}}},
        306.6,
    ),
    ("azure-native:network:P2sVpnGateway", {"location": "westeurope", "vpnGatewayScaleUnit": 1}, 263.53),
    (
        "azure:network/pointToPointVpnGateway:PointToPointVpnGateway",
        {"location": "westeurope", "scaleUnit": 1},
        263.53,
    ),
    ("azure-native:network:VpnConnection", {"location": "westeurope"}, 0.05 * 730),
    ("azure:network/vpnGatewayConnection:VpnGatewayConnection", {"location": "westeurope"}, 36.5),
    ("azure:network/ddosProtectionPlan:DdosProtectionPlan", {"location": "westeurope"}, 4.03226 * 730),
    ("azure:network/virtualHub:VirtualHub", {"location": "westeurope"}, 0.25 * 730),
    ("azure-native:aad:DomainService", {"location": "australiaeast", "sku": "Enterprise"}, 0.4 * 730),
    ("azure:domainservices/service:Service", {"location": "australiaeast", "sku": "Standard"}, 0.15 * 730),
    ("azure-native:eventhub:Cluster", {"location": "eastus", "sku": {"capacity": 1}}, 4999.77),
    ("azure:eventhub/cluster:Cluster", {"location": "eastus", "skuName": "Dedicated_1"}, 4999.77),
    ("azure-native:logic:IntegrationAccount", {"location": "westeurope", "sku": {"name": "Basic"}}, 300),
    (
        "azure:logicapps/integrationAccount:IntegrationAccount",
        {"location": "westeurope", "skuName": "Standard"},
        1.36986 * 730,
    ),
    ("azure-native:notificationhubs:Namespace", {"location": "eastus", "sku": {"name": "Basic"}}, 10),
    ("azure:notificationhub/namespace:Namespace", {"location": "eastus", "skuName": "Standard"}, 200),
    (
        "azure:appconfiguration/configurationStore:ConfigurationStore",
        {"location": "westeurope", "sku": "standard"},
        36.5,
    ),
    ("azure:appservice/staticSite:StaticSite", {"location": "centralus", "skuSize": "Standard"}, 9),
    ("azure:appservice/staticWebApp:StaticWebApp", {"location": "centralus", "skuSize": "Free"}, 0),
    (
        "azure:keyvault/managedHardwareSecurityModule:ManagedHardwareSecurityModule",
        {"location": "eastus"},
        3.2 * 730,
    ),
    (
        "azure:signalr/service:Service",
        {"location": "westeurope", "sku": {"name": "Premium_P1", "capacity": 1}},
        60.834,
    ),
    ("azure:iot/ioTHub:IoTHub", {"location": "westeurope", "sku": {"name": "S1", "capacity": 2}}, 50),
]

# Prices that the data has not: the item by which `prices refresh` or an import brings them.
ITEMS = [
    (
        "azure-native:network:ExpressRouteCircuit",
        {
            "sku": {"tier": "Standard", "family": "MeteredData"},
            "serviceProviderProperties": {"bandwidthInMbps": 200},
        },
        "express_route_circuit:standard_metereddata_200",
    ),
    (
        "azure:network/expressRouteCircuit:ExpressRouteCircuit",
        {"sku": {"tier": "Premium", "family": "UnlimitedData"}, "bandwidthInMbps": 1000},
        "express_route_circuit:premium_unlimiteddata_1000",
    ),
    ("azure-native:fabric:FabricCapacity", {"sku": {"name": "F64"}}, "fabric:f64"),
    ("azure:fabric/capacity:Capacity", {"sku": {"name": "F2"}}, "fabric:f2"),
    (
        "azure-native:streamanalytics:StreamingJob",
        {"sku": {"name": "Standard"}},
        "stream_analytics:standard",
    ),
    ("azure:streamanalytics/job:Job", {"skuName": "StandardV2"}, "stream_analytics:standardv2"),
    ("azure-native:dashboard:Grafana", {}, "managed_grafana:standard"),
    ("azure:dashboard/grafana:Grafana", {"sku": "Essential"}, "managed_grafana:essential"),
    ("azure-native:webpubsub:WebPubSub", {"sku": {"name": "Standard_S1"}}, "web_pubsub:standard_s1"),
    ("azure:webpubsub/service:Service", {"sku": "Premium_P1", "capacity": 1}, "web_pubsub:premium_p1"),
    ("azure:powerbi/embedded:Embedded", {"skuName": "A2"}, "powerbi:a2"),
    ("azure-native:compute:DedicatedHost", {"sku": {"name": "DSv3-Type3"}}, "dedicated_host:dsv3-type3"),
    ("azure:compute/dedicatedHost:DedicatedHost", {"skuName": "ESv3-Type1"}, "dedicated_host:esv3-type1"),
]


@pytest.mark.parametrize(("type_", "inputs", "item"), ITEMS)
def test_service_without_a_price_is_listed_with_its_item(type_, inputs, item):
    total, reasons = monthly_usd(type_, {"location": "eastus", **inputs})
    assert total == 0
    assert f"no on_demand price for {item} in eastus" in reasons


@pytest.mark.parametrize(("type_", "inputs", "usd"), HOURLY)
def test_service_costs_what_the_list_prices_say(type_, inputs, usd):
    total, reasons = monthly_usd(type_, inputs)
    assert total == pytest.approx(Decimal(str(round(usd, 2))), abs=Decimal("0.01"))
    assert [reason for reason in reasons if "by use" not in reason] == []


@pytest.mark.parametrize(
    "type_",
    [
        "azure-native:web:StaticSite",
        "azure-native:search:Service",
        "azure-native:signalrservice:SignalR",
        "azure-native:webpubsub:WebPubSub",
    ],
)
def test_free_tier_costs_nothing(type_):
    name = "Free_F1" if "signal" in type_ or "Pub" in type_ else "Free"
    total, reasons = monthly_usd(type_, {"location": "eastus", "sku": {"name": name}})
    assert total == 0
    assert [reason for reason in reasons if "by use" not in reason] == []


def test_application_gateway_ranges_up_to_its_maximum():
    inputs = {
        "location": "eastus",
        "sku": {"name": "Standard_v2"},
        "autoscaleConfiguration": {"minCapacity": 0, "maxCapacity": 5},
    }
    bill = price_resources([make("azure-native:network:ApplicationGateway", inputs)])
    units = next(each for each in bill.charges if each.component == "capacity_units")
    assert (units.quantity.low, units.quantity.expected, units.quantity.high) == (0, 0, 50)


BY_USE = [
    (
        "azure-native:network:AzureFirewall",
        {"location": "eastus"},
        "monthly_data_processed_gb",
        1000,
        1.25 * 730 + 16,
    ),
    ("azure-native:dns:Zone", {}, "monthly_queries", 10_000_000, 0.5 + 4),
    ("azure:trafficmanager/profile:Profile", {}, "monthly_dns_queries", 1_000_000, 0.54),
    (
        "azure-native:operationalinsights:Workspace",
        {"location": "westeurope"},
        "monthly_log_data_ingestion_gb",
        50,
        149.5,
    ),
    (
        "azure-native:databricks:Workspace",
        {"location": "eastus", "sku": {"name": "premium"}},
        "monthly_jobs_compute_dbu_hrs",
        1000,
        300,
    ),
    ("azure-native:eventgrid:Topic", {"location": "westeurope"}, "monthly_operations", 5_000_000, 3),
    ("azure-native:keyvault:Vault", {"location": "westeurope"}, "monthly_secrets_operations", 100_000, 0.3),
    (
        "azure-native:applicationinsights:Component",
        {"location": "eastus"},
        "monthly_data_ingested_gb",
        100,
        230,
    ),
    (
        "azure:datafactory/factory:Factory",
        {"location": "westeurope"},
        "monthly_read_write_operation_entities",
        100_000,
        1,
    ),
    ("azure-native:automation:AutomationAccount", {"location": "eastus"}, "monthly_job_run_mins", 500, 1),
    ("azure:automation/account:Account", {"location": "eastus"}, "monthly_watcher_hrs", 730, 1.46),
    ("azure-native:network:FlowLog", {"location": "westeurope"}, "monthly_logs_collected_gb", 10, 5),
    (
        "azure:network/networkWatcherFlowLog:NetworkWatcherFlowLog",
        {"location": "westeurope"},
        "monthly_logs_collected_gb",
        10,
        5,
    ),
    ("azure-native:network:Profile", {}, "monthly_traffic_view_data_points", 1_000_000, 2),
    ("azure-native:trafficmanager:Profile", {}, "monthly_dns_queries", 2_000_000, 1.08),
    (
        "azure:network/trafficManagerProfile:TrafficManagerProfile",
        {},
        "monthly_dns_queries",
        2_000_000,
        1.08,
    ),
    ("azure-native:insights:Component", {"location": "eastus"}, "monthly_data_ingested_gb", 10, 23),
    ("azure:appinsights/insights:Insights", {"location": "eastus"}, "monthly_data_ingested_gb", 10, 23),
    (
        "azure-native:datafactory:Factory",
        {"location": "westeurope"},
        "monthly_monitoring_operation_entities",
        50_000,
        0.25,
    ),
    ("azure-native:synapse:Workspace", {"location": "westeurope"}, "serverless_sql_pool_size_tb", 10, 50),
    ("azure:synapse/workspace:Workspace", {"location": "westeurope"}, "serverless_sql_pool_size_tb", 2, 10),
    ("azure:eventgrid/topic:Topic", {"location": "westeurope"}, "monthly_operations", 100_000, 0.06),
    ("azure:eventgrid/domain:Domain", {"location": "westeurope"}, "monthly_operations", 100_000, 0.06),
    (
        "azure:eventgrid/systemTopic:SystemTopic",
        {"location": "westeurope"},
        "monthly_operations",
        100_000,
        0.06,
    ),
    ("azure-native:cdn:Endpoint", {"location": "global"}, "monthly_outbound_gb", 100, 8.1),
    ("azure:cdn/endpoint:Endpoint", {}, "monthly_outbound_gb", 100, 8.1),
    (
        "azure-native:logic:Workflow",
        {"location": "westeurope"},
        "monthly_standard_connector_calls",
        8000,
        1,
    ),
    (
        "azure:logicapps/workflow:Workflow",
        {"location": "westeurope"},
        "monthly_enterprise_connector_calls",
        1000,
        1,
    ),
    ("azure-native:eventgrid:Domain", {"location": "westeurope"}, "monthly_operations", 100_000, 0.06),
    ("azure-native:eventgrid:SystemTopic", {"location": "westeurope"}, "monthly_operations", 100_000, 0.06),
    ("azure:iot/iotHubDps:IotHubDps", {"location": "westeurope"}, "monthly_operations", 10_000, 1),
    (
        "azure:keyvault/keyVault:KeyVault",
        {"location": "westeurope"},
        "monthly_secrets_operations",
        100_000,
        0.3,
    ),
    (
        "azure:operationalinsights/analyticsWorkspace:AnalyticsWorkspace",
        {"location": "westeurope"},
        "monthly_additional_log_data_retention_gb",
        100,
        13,
    ),
    (
        "azure:databricks/workspace:Workspace",
        {"location": "eastus", "sku": "standard"},
        "monthly_all_purpose_compute_dbu_hrs",
        100,
        40,
    ),
]

# Their unit prices are not in the data: listed with the key to give.
UNPRICED_USE = [
    ("azure-native:network:VirtualNetworkPeering", {}, "virtual_network_peering:gib"),
    ("azure:network/virtualNetworkPeering:VirtualNetworkPeering", {}, "virtual_network_peering:gib"),
    (
        "azure-native:cdn:Profile",
        {"sku": {"name": "Premium_AzureFrontDoor"}},
        "front_door:request:premium_azurefrontdoor",
    ),
    (
        "azure:cdn/profile:Profile",
        {"sku": "Standard_AzureFrontDoor"},
        "front_door:gib:standard_azurefrontdoor",
    ),
    ("azure-native:app:Job", {}, "container_apps:vcpu_second"),
    ("azure:containerapp/job:Job", {}, "container_apps:gib_second"),
    (
        "azure:cdn/frontdoorProfile:FrontdoorProfile",
        {"skuName": "Standard_AzureFrontDoor"},
        "front_door:gib:standard_azurefrontdoor",
    ),
    ("azure-native:cognitiveservices:Account", {"kind": "SpeechServices"}, "speech:hour"),
    ("azure:cognitive/account:Account", {"kind": "TextAnalytics"}, "language:record"),
]


@pytest.mark.parametrize(("type_", "inputs", "item"), UNPRICED_USE)
def test_use_without_a_unit_price_is_listed_with_its_item(type_, inputs, item):
    _, reasons = monthly_usd(type_, {"location": "moonbase", **inputs})
    assert any(f"no on-demand price for {item} in " in reason for reason in reasons)


@pytest.mark.parametrize("case", BY_USE, ids=lambda case: case[0])
def test_amounts_of_the_usage_file_are_billed(tmp_path, case):
    type_, inputs, key, amount, usd = case
    path = tmp_path / "usage.yaml"
    path.write_text(f"resources:\n  it: {{{key}: {amount}}}\n")
    total, _ = monthly_usd(type_, inputs, usage=load_usage_file(path))
    assert total == pytest.approx(Decimal(str(usd)), abs=Decimal("0.01"))
    _, reasons = monthly_usd(type_, inputs)
    assert any("USD per " in reason and f"give {key} " in reason for reason in reasons)


@pytest.mark.parametrize(
    ("type_", "inputs", "reason"),
    [
        ("azure-native:search:Service", {"sku": {"name": UNKNOWN}}, "sku.name is not known until deployment"),
        (
            "azure-native:eventhub:Namespace",
            {"sku": {"capacity": UNKNOWN}},
            "sku.capacity is not known until deployment",
        ),
        ("azure-native:apimanagement:ApiManagementService", {}, "sku.name is not set"),
        (
            "azure-native:network:ApplicationGateway",
            {"sku": {"name": UnreadableValue.SECRET}},
            "its SKU is a secret",
        ),
        (
            "azure-native:network:PublicIPPrefix",
            {"prefixLength": UNKNOWN},
            "its length is not known until deployment",
        ),
    ],
)
def test_unknown_input_is_listed_with_its_reason(type_, inputs, reason):
    total, reasons = monthly_usd(type_, {"location": "eastus", **inputs})
    assert total == 0
    assert reason in reasons


def test_region_without_a_price_is_listed():
    total, reasons = monthly_usd("azure-native:network:AzureFirewall", {"location": "moonbase"})
    assert total == 0
    assert any(each.startswith("no on_demand price for firewall:standard in moonbase") for each in reasons)


def test_every_usage_key_of_a_pricer_is_accepted_by_usage_files():
    known = {row["key"] for row in read_packaged_rows("gpufleet.cost", "data/usage_keys.csv")}
    everything = PriceBook(
        find_cloud_part_price=lambda *_: Price(1, "unit", None, "test", "low", "x", "on_demand")
    )
    keys = set()
    for type_ in PRICERS:
        for name in (
            "standard",
            "premium",
            "basic",
            "consumption",
            "Standard_S1",
            "SpeechServices",
            "TextAnalytics",
        ):
            inputs = {"location": "eastus", "sku": {"name": name}, "kind": name}
            for reason in monthly_usd(type_, inputs, everything)[1]:
                if "give " in reason:
                    keys.add(reason.partition("give ")[2].partition(" in the usage file")[0])
    assert len(keys) > 25
    assert keys <= known


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("azure:network/trafficManagerExternalEndpoint:TrafficManagerExternalEndpoint", "externalendpoints"),
        ("azure:network/trafficManagerNestedEndpoint:TrafficManagerNestedEndpoint", "nestedendpoints"),
    ],
)
def test_endpoint_of_another_kind_has_its_own_item(type_, kind):
    item = f"traffic_manager:endpoint:{kind}"
    assert monthly_usd(type_, {})[1] == [f"no on_demand price for {item} in global"]


@pytest.mark.parametrize(
    ("type_", "gateway_type", "inputs"),
    [
        (
            "azure-native:network:VirtualNetworkGatewayConnection",
            "azure-native:network:VirtualNetworkGateway",
            {"virtualNetworkGateway1": {"id": "gw"}, "connectionType": "IPsec"},
        ),
        (
            "azure:network/virtualNetworkGatewayConnection:VirtualNetworkGatewayConnection",
            "azure:network/virtualNetworkGateway:VirtualNetworkGateway",
            {"virtualNetworkGatewayId": "gw", "type": "IPsec"},
        ),
    ],
)
def test_vpn_connections_beyond_ten_bill(type_, gateway_type, inputs):
    """The first ten connections are in the gateway's price; each other costs 0.015 USD an hour."""
    gateway = make(gateway_type, {"location": "eastus", "name": "gw"}, "gw")
    ten = [make(type_, {"location": "eastus", **inputs}, f"a{i}") for i in range(10)]
    connection = {"location": "eastus", **inputs}
    assert monthly_usd(type_, connection, others=[gateway, *ten[:9]])[0] == 0
    assert monthly_usd(type_, connection, others=[gateway, *ten])[0] == Decimal("10.95")
    express = {**connection, "connectionType": "ExpressRoute", "type": "ExpressRoute"}
    assert monthly_usd(type_, express, others=[gateway, *ten])[0] == 0
