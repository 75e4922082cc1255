"""Services whose bill follows from their existence and a usage file: each has a list of parts.

A part without a usage key bills by the hour or month for as long as the resource exists. One with a key bills by use.
The usage keys are Infracost's where it has them.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import read_input_text, text_if_known
from gpufleet.cost.pricing.component import Components
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.gcp.service import GLOBAL, service_context
from gpufleet.engine import StateResource

DATASET = "gcp:bigquery/dataset:Dataset"
TABLE = "gcp:bigquery/table:Table"
FIRESTORE = "gcp:firestore/database:Database"
DEFAULT_DATASET_LOCATION = "us"  # the multi-region (cloud.google.com/bigquery/docs/locations)


@dataclass(frozen=True)
class ServicePart:
    """One part of a service. ``is_stored``: it is kept during the month. ``is_global``: it has one price everywhere.

    ``is_traffic``: as of all traffic, only what the usage file has is a component.
    """

    component: str
    item: str
    usage_key: str = ""
    is_stored: bool = False
    is_global: bool = False
    is_traffic: bool = False


def _stored(
    item: str, usage_key: str = "storage_gb", component: str = "storage", *, is_global: bool = False
) -> ServicePart:
    return ServicePart(component, item, usage_key, is_stored=True, is_global=is_global)


def _used(component: str, item: str, usage_key: str, *, is_global: bool = False) -> ServicePart:
    return ServicePart(component, item, usage_key, is_global=is_global)


_LOGGING = (_used("ingestion", "logging:ingestion", "monthly_logging_data_gb", is_global=True),)
_DATAFLOW = (
    _used("vcpus", "dataflow:batch:vcpu", "monthly_vcpu_hours"),
    _used("memory", "dataflow:batch:memory", "monthly_memory_gib_hours"),
)
_VPN_EGRESS = ServicePart("egress", "vpn:egress_gib", "monthly_egress_data_transfer_gb", is_traffic=True)
_PROXY = (
    _used("proxies", "load_balancer:proxy_instance", "monthly_proxy_instances"),
    _used("data", "load_balancer:data", "monthly_data_processed_gb"),
)
PARTS: dict[str, tuple[ServicePart, ...]] = {
    "gcp:apigateway/gateway:Gateway": (_used("calls", "api_gateway:call", "monthly_calls", is_global=True),),
    "gcp:appengine/flexibleAppVersion:FlexibleAppVersion": (
        _used("vcpus", "app_engine:flexible_vcpu_hour", "monthly_vcpu_hours"),
        _used("memory", "app_engine:flexible_gib_hour", "monthly_memory_gib_hours"),
    ),
    "gcp:appengine/standardAppVersion:StandardAppVersion": (
        _used("instances", "app_engine:instance_hour", "instance_hrs"),
    ),
    "gcp:artifactregistry/repository:Repository": (_stored("artifact_registry:storage", is_global=True),),
    DATASET: (_used("queries", "bigquery:query_tib", "monthly_queries_tb"),),
    TABLE: (
        _stored("bigquery:active_storage", "monthly_active_storage_gb", "active_storage"),
        _stored("bigquery:long_term_storage", "monthly_long_term_storage_gb", "long_term_storage"),
        _used("streaming_inserts", "bigquery:streaming_insert_mib", "monthly_streaming_inserts_mb"),
        _used("storage_write_api", "bigquery:storage_write_gib", "monthly_storage_write_api_gb"),
        _used("storage_read_api", "bigquery:storage_read_tib", "monthly_storage_read_api_tb"),
    ),
    "gcp:certificateauthority/certificate:Certificate": (
        ServicePart("certificate", "certificate_authority:certificate"),
    ),
    "gcp:cloudbuild/trigger:Trigger": (
        _used("builds", "cloud_build:minute", "monthly_build_minutes", is_global=True),
    ),
    "gcp:cloudbuild/workerPool:WorkerPool": (
        _used("builds", "cloud_build:private_pool_minute", "monthly_build_minutes", is_global=True),
    ),
    "gcp:cloudscheduler/job:Job": (ServicePart("job", "cloud_scheduler:job", is_global=True),),
    "gcp:cloudtasks/queue:Queue": (
        _used("operations", "cloud_tasks:operation", "monthly_operations", is_global=True),
    ),
    "gcp:compute/haVpnGateway:HaVpnGateway": (_VPN_EGRESS,),
    "gcp:compute/vPNGateway:VPNGateway": (_VPN_EGRESS,),
    "gcp:compute/vPNTunnel:VPNTunnel": (ServicePart("tunnel", "vpn:tunnel"),),
    "gcp:compute/image:Image": (_stored("image"),),
    "gcp:compute/machineImage:MachineImage": (_stored("machine_image"),),
    "gcp:compute/snapshot:Snapshot": (_stored("snapshot"),),
    "gcp:compute/packetMirroring:PacketMirroring": (
        _used("data", "packet_mirroring:gib", "monthly_data_processed_gb"),
    ),
    "gcp:compute/regionTargetHttpProxy:RegionTargetHttpProxy": _PROXY,
    "gcp:compute/regionTargetHttpsProxy:RegionTargetHttpsProxy": _PROXY,
    "gcp:compute/targetGrpcProxy:TargetGrpcProxy": _PROXY,
    "gcp:compute/targetSSLProxy:TargetSSLProxy": _PROXY,
    "gcp:compute/targetTCPProxy:TargetTCPProxy": _PROXY,
    "gcp:container/registry:Registry": (_stored("container_registry:storage"),),
    "gcp:dataflow/flexTemplateJob:FlexTemplateJob": _DATAFLOW,
    "gcp:dataflow/job:Job": _DATAFLOW,
    "gcp:dataproc/batch:Batch": (_used("compute", "dataproc:serverless_dcu_hour", "monthly_dcu_hours"),),
    "gcp:dns/managedZone:ManagedZone": (
        ServicePart("zone", "dns:zone", is_global=True),
        _used("queries", "dns:query", "monthly_queries", is_global=True),
    ),
    "gcp:filestore/backup:Backup": (_stored("filestore:backup"),),
    FIRESTORE: (
        _stored("firestore:storage"),
        _used("reads", "firestore:read", "monthly_document_reads"),
        _used("writes", "firestore:write", "monthly_document_writes"),
        _used("deletes", "firestore:delete", "monthly_document_deletes"),
    ),
    "gcp:gkebackup/backupPlan:BackupPlan": (
        _used("pods", "gke_backup:pod", "monthly_protected_pods"),
        _stored("gke_backup:storage"),
    ),
    "gcp:logging/billingAccountBucketConfig:BillingAccountBucketConfig": _LOGGING,
    "gcp:logging/billingAccountSink:BillingAccountSink": _LOGGING,
    "gcp:logging/folderBucketConfig:FolderBucketConfig": _LOGGING,
    "gcp:logging/folderSink:FolderSink": _LOGGING,
    "gcp:logging/organizationBucketConfig:OrganizationBucketConfig": _LOGGING,
    "gcp:logging/organizationSink:OrganizationSink": _LOGGING,
    "gcp:logging/projectBucketConfig:ProjectBucketConfig": _LOGGING,
    "gcp:logging/projectSink:ProjectSink": _LOGGING,
    "gcp:monitoring/metricDescriptor:MetricDescriptor": (
        _used("data", "monitoring:mib", "monthly_monitoring_data_mb", is_global=True),
        _used("api_calls", "monitoring:api_call", "monthly_api_calls", is_global=True),
    ),
    "gcp:netapp/backup:Backup": (_stored("netapp:backup"),),
    "gcp:pubsub/subscription:Subscription": (
        _used("delivery", "pubsub:tib", "monthly_message_data_tb", is_global=True),
        _stored("pubsub:storage", is_global=True),
    ),
    "gcp:pubsub/topic:Topic": (_used("ingestion", "pubsub:tib", "monthly_message_data_tb", is_global=True),),
    "gcp:servicenetworking/connection:Connection": (_VPN_EGRESS,),
    "gcp:vertex/aiTensorboard:AiTensorboard": (_stored("vertex:tensorboard_storage"),),
    "gcp:workflows/workflow:Workflow": (
        _used("steps", "workflows:internal_step", "monthly_internal_steps", is_global=True),
    ),
}


def price_simple_service(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the parts of a service that bill because it exists, or by what the usage file has."""
    usage = graph.usage_of_resource(resource)
    components: Components = []
    place = _find_place(resource, graph)
    for part in PARTS[resource.type]:
        if part.is_traffic and part.usage_key not in usage.amounts:
            continue
        context = service_context(resource, graph, GLOBAL if part.is_global else place)
        components.append(
            context.make_usage_component(
                part.component, part.item, part.usage_key, usage, is_stored=part.is_stored
            )
            if part.usage_key
            else context.make_part_component(part.component, part.item)
        )
    return components


def _find_place(resource: StateResource, graph: ResourceGraph) -> str | None:
    """Return where a service is if not in its region: a database's location, a table's dataset; None otherwise."""
    if resource.type == FIRESTORE:
        return text_if_known(read_input_text(resource.inputs, "locationId"))
    dataset = resource if resource.type == DATASET else None
    if resource.type == TABLE:
        dataset = graph.find_referenced_resource(resource, ("datasetId",), DATASET)
    if dataset is None:
        return None
    return text_if_known(read_input_text(dataset.inputs, "location")) or DEFAULT_DATASET_LOCATION


PRICERS: dict[str, Pricer] = dict.fromkeys(PARTS, price_simple_service)
