"""Managed services of Azure that bill a tier: messaging, registries, interfaces, search, analytics, monitoring."""

from __future__ import annotations

from typing import Any

from gpufleet.cost.inputs.values import read_input
from gpufleet.cost.pricing.pricers.azure.service import (
    TieredService,
    UsageMeter,
    tiered_service_pricer,
    translated,
    with_inputs,
)
from gpufleet.cost.pricing.pricers.extensions import Pricer

FREE = frozenset({"free", "free_f1", "f0", "f1", "free_tier", "developer_free"})
SKU, CAPACITY = ("sku.name",), "sku.capacity"

API_MANAGEMENT = TieredService(
    "service",
    "api_management:{tier}",
    SKU,
    free_tiers=frozenset({"consumption"}),
    units_path=CAPACITY,
    meters=(
        UsageMeter("calls", "api_management:call", "monthly_api_calls", tiers=frozenset({"consumption"})),
    ),
)
SIGNALR = TieredService(
    "service",
    "signalr:{tier}",
    SKU,
    free_tiers=FREE,
    units_path=CAPACITY,
    meters=(
        UsageMeter(
            "messages",
            "signalr:message",
            "monthly_additional_messages",
            tiers=frozenset({"standard_s1", "premium_p1", "premium_p2"}),
        ),
    ),
)
WEB_PUBSUB = TieredService("service", "web_pubsub:{tier}", SKU, free_tiers=FREE, units_path=CAPACITY)
EVENT_HUBS = TieredService(
    "throughput_units",
    "event_hubs:{tier}",
    SKU,
    "Standard",
    units_path=CAPACITY,
    maximum_path="maximumThroughputUnits",
    meters=(
        UsageMeter(
            "ingress",
            "event_hubs:event",
            "monthly_ingress_events",
            tiers=frozenset({"basic", "standard"}),
        ),
    ),
)
EVENT_HUBS_CLUSTER = TieredService("capacity_units", "event_hubs:dedicated", units_path=CAPACITY)
SERVICE_BUS = TieredService(
    "namespace",
    "service_bus:{tier}",
    SKU,
    "Standard",
    free_tiers=frozenset({"basic"}),
    units_path=CAPACITY,
    meters=(
        UsageMeter(
            "operations",
            "service_bus:operation:{tier}",
            "monthly_messaging_operations",
            tiers=frozenset({"basic", "standard"}),
        ),
    ),
)
EVENT_GRID = TieredService(
    "topic", "", meters=(UsageMeter("operations", "event_grid:operation", "monthly_operations"),)
)
NOTIFICATION_HUBS = TieredService(
    "namespace",
    "notification_hubs:{tier}",
    SKU,
    free_tiers=FREE,
    meters=(UsageMeter("pushes", "notification_hubs:push", "monthly_pushes"),),
)
IOT_HUB = TieredService("units", "iot_hub:{tier}", SKU, free_tiers=FREE, units_path=CAPACITY)
IOT_PROVISIONING = TieredService(
    "provisioning", "", meters=(UsageMeter("operations", "iot_dps:operation", "monthly_operations"),)
)
SEARCH = TieredService(
    "search_units",
    "search:{tier}",
    SKU,
    free_tiers=FREE,
    units_path="replicaCount*partitionCount",
    meters=(UsageMeter("images", "search:image", "monthly_images_extracted"),),
)
APP_CONFIGURATION = TieredService(
    "store",
    "app_configuration:{tier}",
    SKU,
    free_tiers=FREE,
    meters=(
        UsageMeter(
            "requests",
            "app_configuration:request",
            "monthly_additional_requests",
            tiers=frozenset({"standard"}),
        ),
    ),
)
INTEGRATION_ACCOUNT = TieredService("account", "integration_account:{tier}", SKU, free_tiers=FREE)
DOMAIN_SERVICE = TieredService("domain", "domain_service:{tier}", ("sku",))
POWERBI = TieredService("capacity", "powerbi:{tier}", SKU)
FABRIC = TieredService("capacity", "fabric:{tier}", SKU)
STATIC_SITE = TieredService("site", "static_web_app:{tier}", SKU, "Free", free_tiers=FREE)
HSM = TieredService("pool", "key_vault:hsm_pool")
KEY_VAULT = TieredService(
    "vault",
    "",
    meters=(UsageMeter("operations", "key_vault:operation", "monthly_secrets_operations"),),
)
LOG_WORKSPACE = TieredService(
    "workspace",
    "",
    meters=(
        UsageMeter("ingestion", "log_analytics:gib", "monthly_log_data_ingestion_gb"),
        UsageMeter("retention", "log_analytics:retained", "monthly_additional_log_data_retention_gb", True),
    ),
)
INSIGHTS = TieredService(
    "insights",
    "",
    meters=(UsageMeter("ingestion", "application_insights:gib", "monthly_data_ingested_gb"),),
)
DATABRICKS = TieredService(
    "workspace",
    "",
    SKU,
    meters=tuple(
        UsageMeter(kind, f"databricks:{kind}_dbu:{{tier}}", f"monthly_{kind}_compute_dbu_hrs")
        for kind in ("all_purpose", "jobs", "jobs_light")
    ),
)
DATA_FACTORY = TieredService(
    "factory",
    "",
    meters=(
        UsageMeter("read_write", "data_factory:read_write", "monthly_read_write_operation_entities"),
        UsageMeter("monitoring", "data_factory:monitoring", "monthly_monitoring_operation_entities"),
    ),
)
SYNAPSE_WORKSPACE = TieredService(
    "workspace",
    "",
    meters=(UsageMeter("serverless_sql", "synapse:serverless_sql_tib", "serverless_sql_pool_size_tb"),),
)
AUTOMATION = TieredService(
    "account",
    "",
    meters=(
        UsageMeter("jobs", "automation:minute", "monthly_job_run_mins"),
        UsageMeter("watchers", "automation:watcher_hour", "monthly_watcher_hrs"),
    ),
)
COGNITIVE_ACCOUNT = TieredService(
    "account",
    "",
    ("kind",),
    "unknown kind",
    meters=(
        UsageMeter(
            "speech",
            "speech:hour",
            "monthly_speech_to_text_standard_hrs",
            tiers=frozenset({"speechservices"}),
        ),
        UsageMeter(
            "records",
            "language:record",
            "monthly_language_text_analytics_records",
            tiers=frozenset({"textanalytics"}),
        ),
    ),
)
STREAM_JOB = TieredService(
    "streaming_units", "stream_analytics:{tier}", ("sku.name",), "Standard", units_path="streamingUnits"
)
WORKFLOW = TieredService(
    "workflow",
    "",
    meters=(
        UsageMeter(
            "standard_connectors", "logic_apps:standard_connector", "monthly_standard_connector_calls"
        ),
        UsageMeter(
            "enterprise_connectors", "logic_apps:enterprise_connector", "monthly_enterprise_connector_calls"
        ),
    ),
)
CDN_ENDPOINT = TieredService(
    "endpoint", "", meters=(UsageMeter("outbound", "cdn:gib", "monthly_outbound_gb"),), is_global=True
)
GRAFANA = TieredService("workspace", "managed_grafana:{tier}", SKU, "Standard")
FRONT_DOOR = TieredService(
    "profile",
    "front_door:{tier}",
    SKU,
    free_tiers=frozenset({"standard_microsoft", "standard_akamai", "standard_verizon", "premium_verizon"}),
    meters=(
        UsageMeter(
            "outbound",
            "front_door:gib:{tier}",
            "monthly_outbound_gb",
            tiers=frozenset({"standard_azurefrontdoor", "premium_azurefrontdoor"}),
        ),
        UsageMeter(
            "requests",
            "front_door:request:{tier}",
            "monthly_requests",
            tiers=frozenset({"standard_azurefrontdoor", "premium_azurefrontdoor"}),
        ),
    ),
    is_global=True,
)


def _with_split_sku(inputs: Any) -> Any:
    """Return inputs whose ``skuName``, such as Developer_1, is a name and a number of units."""
    sku = read_input(inputs, "skuName")
    if not isinstance(sku, str):
        return {**inputs, "sku": {"name": sku}}
    name, _, units = sku.partition("_")
    return {**inputs, "sku": {"name": name, "capacity": units or None}}


_SKU_NAME, _SKU = {"skuName": "sku.name"}, {"sku": "sku.name"}
_SKU_CAPACITY = {"sku": "sku.name", "capacity": "sku.capacity"}

PRICERS: dict[str, Pricer] = {
    "azure-native:aad:DomainService": tiered_service_pricer(DOMAIN_SERVICE),
    "azure-native:apimanagement:ApiManagementService": tiered_service_pricer(API_MANAGEMENT),
    "azure-native:appconfiguration:ConfigurationStore": tiered_service_pricer(APP_CONFIGURATION),
    "azure-native:applicationinsights:Component": tiered_service_pricer(INSIGHTS),
    "azure-native:automation:AutomationAccount": tiered_service_pricer(AUTOMATION),
    "azure-native:cdn:Endpoint": tiered_service_pricer(CDN_ENDPOINT),
    "azure-native:cdn:Profile": tiered_service_pricer(FRONT_DOOR),
    "azure-native:cognitiveservices:Account": tiered_service_pricer(COGNITIVE_ACCOUNT),
    "azure-native:dashboard:Grafana": tiered_service_pricer(GRAFANA),
    "azure-native:databricks:Workspace": tiered_service_pricer(DATABRICKS),
    "azure-native:datafactory:Factory": tiered_service_pricer(DATA_FACTORY),
    "azure-native:devices:IotHubResource": tiered_service_pricer(IOT_HUB),
    "azure-native:eventgrid:Domain": tiered_service_pricer(EVENT_GRID),
    "azure-native:eventgrid:SystemTopic": tiered_service_pricer(EVENT_GRID),
    "azure-native:eventgrid:Topic": tiered_service_pricer(EVENT_GRID),
    "azure-native:eventhub:Cluster": tiered_service_pricer(EVENT_HUBS_CLUSTER),
    "azure-native:eventhub:Namespace": tiered_service_pricer(EVENT_HUBS),
    "azure-native:fabric:FabricCapacity": tiered_service_pricer(FABRIC),
    "azure-native:insights:Component": tiered_service_pricer(INSIGHTS),
    "azure-native:iothub:IotHubResource": tiered_service_pricer(IOT_HUB),
    "azure-native:keyvault:ManagedHsm": tiered_service_pricer(HSM),
    "azure-native:keyvault:Vault": tiered_service_pricer(KEY_VAULT),
    "azure-native:logic:IntegrationAccount": tiered_service_pricer(INTEGRATION_ACCOUNT),
    "azure-native:logic:Workflow": tiered_service_pricer(WORKFLOW),
    "azure-native:notificationhubs:Namespace": tiered_service_pricer(NOTIFICATION_HUBS),
    "azure-native:operationalinsights:Workspace": tiered_service_pricer(LOG_WORKSPACE),
    "azure-native:powerbidedicated:CapacityDetails": tiered_service_pricer(POWERBI),
    "azure-native:search:Service": tiered_service_pricer(SEARCH),
    "azure-native:servicebus:Namespace": tiered_service_pricer(SERVICE_BUS),
    "azure-native:signalrservice:SignalR": tiered_service_pricer(SIGNALR),
    "azure-native:streamanalytics:StreamingJob": tiered_service_pricer(STREAM_JOB),
    "azure-native:synapse:Workspace": tiered_service_pricer(SYNAPSE_WORKSPACE),
    "azure-native:web:StaticSite": tiered_service_pricer(STATIC_SITE),
    "azure-native:webpubsub:WebPubSub": tiered_service_pricer(WEB_PUBSUB),
    "azure:apimanagement/service:Service": with_inputs(
        tiered_service_pricer(API_MANAGEMENT), _with_split_sku
    ),
    "azure:appconfiguration/configurationStore:ConfigurationStore": translated(
        tiered_service_pricer(APP_CONFIGURATION), _SKU
    ),
    "azure:appinsights/insights:Insights": tiered_service_pricer(INSIGHTS),
    "azure:appservice/staticSite:StaticSite": translated(
        tiered_service_pricer(STATIC_SITE), {"skuSize": "sku.name"}
    ),
    "azure:appservice/staticWebApp:StaticWebApp": translated(
        tiered_service_pricer(STATIC_SITE), {"skuSize": "sku.name"}
    ),
    "azure:automation/account:Account": tiered_service_pricer(AUTOMATION),
    "azure:cdn/endpoint:Endpoint": tiered_service_pricer(CDN_ENDPOINT),
    "azure:cdn/frontdoorProfile:FrontdoorProfile": translated(tiered_service_pricer(FRONT_DOOR), _SKU_NAME),
    "azure:cdn/profile:Profile": translated(tiered_service_pricer(FRONT_DOOR), _SKU),
    "azure:cognitive/account:Account": tiered_service_pricer(COGNITIVE_ACCOUNT),
    "azure:dashboard/grafana:Grafana": translated(tiered_service_pricer(GRAFANA), _SKU),
    "azure:databricks/workspace:Workspace": translated(tiered_service_pricer(DATABRICKS), _SKU),
    "azure:datafactory/factory:Factory": tiered_service_pricer(DATA_FACTORY),
    "azure:domainservices/service:Service": tiered_service_pricer(DOMAIN_SERVICE),
    "azure:eventgrid/domain:Domain": tiered_service_pricer(EVENT_GRID),
    "azure:eventgrid/systemTopic:SystemTopic": tiered_service_pricer(EVENT_GRID),
    "azure:eventgrid/topic:Topic": tiered_service_pricer(EVENT_GRID),
    "azure:eventhub/cluster:Cluster": tiered_service_pricer(EVENT_HUBS_CLUSTER),
    "azure:eventhub/eventHubNamespace:EventHubNamespace": translated(
        tiered_service_pricer(EVENT_HUBS), _SKU_CAPACITY
    ),
    "azure:fabric/capacity:Capacity": tiered_service_pricer(FABRIC),
    "azure:iot/ioTHub:IoTHub": tiered_service_pricer(IOT_HUB),
    "azure:iot/iotHubDps:IotHubDps": tiered_service_pricer(IOT_PROVISIONING),
    "azure:keyvault/keyVault:KeyVault": tiered_service_pricer(KEY_VAULT),
    "azure:keyvault/managedHardwareSecurityModule:ManagedHardwareSecurityModule": tiered_service_pricer(HSM),
    "azure:logicapps/integrationAccount:IntegrationAccount": translated(
        tiered_service_pricer(INTEGRATION_ACCOUNT), _SKU_NAME
    ),
    "azure:logicapps/workflow:Workflow": tiered_service_pricer(WORKFLOW),
    "azure:notificationhub/namespace:Namespace": translated(
        tiered_service_pricer(NOTIFICATION_HUBS), _SKU_NAME
    ),
    "azure:operationalinsights/analyticsWorkspace:AnalyticsWorkspace": tiered_service_pricer(LOG_WORKSPACE),
    "azure:powerbi/embedded:Embedded": translated(tiered_service_pricer(POWERBI), _SKU_NAME),
    "azure:search/service:Service": translated(tiered_service_pricer(SEARCH), _SKU),
    "azure:servicebus/namespace:Namespace": translated(tiered_service_pricer(SERVICE_BUS), _SKU_CAPACITY),
    "azure:signalr/service:Service": tiered_service_pricer(SIGNALR),
    "azure:streamanalytics/job:Job": translated(tiered_service_pricer(STREAM_JOB), _SKU_NAME),
    "azure:synapse/workspace:Workspace": tiered_service_pricer(SYNAPSE_WORKSPACE),
    "azure:webpubsub/service:Service": translated(tiered_service_pricer(WEB_PUBSUB), _SKU_CAPACITY),
}
