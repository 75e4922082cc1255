"""Pricers of Google Cloud resources. ``reader`` says how they are written."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.charge_table import load_charges, make_table_pricers
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.gcp import (
    bucket,
    database,
    disk,
    file_storage,
    group,
    instance,
    kubernetes,
    load_balancer,
    managed_machine,
    memorystore,
    network,
    reservation,
    resize_request,
    security,
    serverless,
    sql,
    tpu,
)
from gpufleet.cost.pricing.pricers.gcp.location import pricer

PRICERS: dict[str, Pricer] = {
    **make_table_pricers(load_charges("gcp:"), pricer),
    "gcp:compute/instance:Instance": instance.price_compute_instance,
    "gcp:compute/instanceGroupManager:InstanceGroupManager": group.price_instance_group,
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager": group.price_instance_group,
    "gcp:compute/instanceFromTemplate:InstanceFromTemplate": instance.price_instance_from_template,
    "gcp:compute/resizeRequest:ResizeRequest": resize_request.price_resize_request,
    "gcp:compute/regionResizeRequest:RegionResizeRequest": resize_request.price_resize_request,
    "gcp:compute/routerNat:RouterNat": network.price_cloud_nat,
    "gcp:compute/forwardingRule:ForwardingRule": load_balancer.price_forwarding_rule,
    "gcp:compute/globalForwardingRule:GlobalForwardingRule": load_balancer.price_forwarding_rule,
    "gcp:compute/globalAddress:GlobalAddress": network.price_global_address,
    "gcp:container/cluster:Cluster": kubernetes.price_gke_cluster,
    "gcp:container/nodePool:NodePool": kubernetes.price_gke_node_pool,
    "gcp:compute/reservation:Reservation": reservation.price_reservation,
    "gcp:compute/disk:Disk": disk.price_persistent_disk,
    "gcp:compute/regionDisk:RegionDisk": disk.price_regional_persistent_disk,
    "gcp:compute/address:Address": network.price_static_address,
    "gcp:alloydb/instance:Instance": database.price_alloydb_instance,
    "gcp:bigtable/instance:Instance": database.price_bigtable_instance,
    "gcp:filestore/instance:Instance": file_storage.price_filestore,
    "gcp:memcache/instance:Instance": memorystore.price_memcache_instance,
    "gcp:memorystore/instance:Instance": memorystore.price_valkey_instance,
    "gcp:redis/cluster:Cluster": memorystore.price_redis_cluster,
    "gcp:redis/instance:Instance": memorystore.price_redis_instance,
    "gcp:spanner/instance:Instance": database.price_spanner_instance,
    "gcp:sql/databaseInstance:DatabaseInstance": sql.price_sql_instance,
    "gcp:secretmanager/regionalSecretVersion:RegionalSecretVersion": security.price_secret_version,
    "gcp:secretmanager/secretVersion:SecretVersion": security.price_secret_version,
    "gcp:storage/bucket:Bucket": bucket.price_bucket,
    "gcp:tpu/v2QueuedResource:V2QueuedResource": tpu.price_queued_tpu,
    "gcp:tpu/v2Vm:V2Vm": tpu.price_tpu_vm,
    "gcp:certificateauthority/authority:Authority": security.price_certificate_authority,
    "gcp:cloudfunctions/function:Function": serverless.price_first_generation_function,
    "gcp:cloudfunctionsv2/function:Function": serverless.price_function,
    "gcp:cloudrun/service:Service": serverless.price_knative_service,
    "gcp:cloudrunv2/job:Job": serverless.price_run_job,
    "gcp:cloudrunv2/service:Service": serverless.price_run_service,
    "gcp:cloudrunv2/workerPool:WorkerPool": serverless.price_worker_pool,
    "gcp:compute/organizationSecurityPolicy:OrganizationSecurityPolicy": security.price_security_policy,
    "gcp:compute/regionSecurityPolicy:RegionSecurityPolicy": security.price_security_policy,
    "gcp:compute/regionSecurityPolicyRule:RegionSecurityPolicyRule": security.price_security_rule,
    "gcp:compute/securityPolicy:SecurityPolicy": security.price_security_policy,
    "gcp:compute/securityPolicyRule:SecurityPolicyRule": security.price_security_rule,
    "gcp:dataproc/cluster:Cluster": managed_machine.price_dataproc_cluster,
    "gcp:vertex/aiDeploymentResourcePool:AiDeploymentResourcePool": managed_machine.price_deployment_pool,
    "gcp:vertex/aiEndpointWithModelGardenDeployment:AiEndpointWithModelGardenDeployment": (
        managed_machine.price_model_garden_endpoint
    ),
    "gcp:vertex/aiIndexEndpointDeployedIndex:AiIndexEndpointDeployedIndex": (
        managed_machine.price_deployed_index
    ),
    "gcp:vpcaccess/connector:Connector": managed_machine.price_vpc_connector,
    "gcp:workbench/instance:Instance": managed_machine.price_workbench,
    "gcp:workstations/workstationConfig:WorkstationConfig": managed_machine.price_workstation_config,
}
