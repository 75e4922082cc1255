"""The registry of AWS services: types with a pricer of their own, and those of the table of charges."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.aws import (
    batch,
    beanstalk,
    broker,
    cache,
    database_cluster,
    fargate,
    file_system,
    gateway,
    machine_learning,
    monitoring,
    rds,
    search,
    serverless,
    stream,
    warehouse,
)
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.aws.native import COUNTERPARTS
from gpufleet.cost.pricing.pricers.charge_table import load_charges, make_table_pricers
from gpufleet.cost.pricing.pricers.extensions import Pricer

EARLIER_NAMES = {"aws:s3/bucketV2:BucketV2": "aws:s3/bucket:Bucket"}  # of version 6 of the provider
_PRICERS: dict[str, Pricer] = {
    **make_table_pricers(load_charges("aws:"), pricer, EARLIER_NAMES | COUNTERPARTS),
    "aws:acm/certificate:Certificate": gateway.price_certificate,
    "aws:apigateway/stage:Stage": gateway.price_api_stage,
    "aws:batch/computeEnvironment:ComputeEnvironment": batch.price_batch_environment,
    "aws:cloudwatch/metricAlarm:MetricAlarm": monitoring.price_metric_alarm,
    "aws:dax/cluster:Cluster": cache.price_dax_cluster,
    "aws:dms/replicationInstance:ReplicationInstance": gateway.price_replication_instance,
    "aws:docdb/cluster:Cluster": database_cluster.price_documentdb_cluster,
    "aws:docdb/clusterInstance:ClusterInstance": database_cluster.price_documentdb_instance,
    "aws:dynamodb/table:Table": serverless.price_dynamo_table,
    "aws:ec2/vpnConnection:VpnConnection": gateway.price_vpn_connection,
    "aws:ecs/service:Service": fargate.price_ecs_service,
    "aws:efs/fileSystem:FileSystem": file_system.price_efs_file_system,
    "aws:elasticache/cluster:Cluster": cache.price_cache_cluster,
    "aws:elasticache/replicationGroup:ReplicationGroup": cache.price_replication_group,
    "aws:elasticbeanstalk/environment:Environment": beanstalk.price_beanstalk_environment,
    "aws:elasticsearch/domain:Domain": search.price_search_domain,
    "aws:emr/cluster:Cluster": batch.price_emr_cluster,
    "aws:emr/instanceGroup:InstanceGroup": batch.price_emr_instance_group,
    "aws:fsx/lustreFileSystem:LustreFileSystem": file_system.price_fsx_lustre,
    "aws:fsx/ontapFileSystem:OntapFileSystem": file_system.price_fsx_ontap,
    "aws:fsx/openZfsFileSystem:OpenZfsFileSystem": file_system.price_fsx_openzfs,
    "aws:fsx/windowsFileSystem:WindowsFileSystem": file_system.price_fsx_windows,
    "aws:kinesis/stream:Stream": stream.price_stream,
    "aws:lambda/function:Function": serverless.price_lambda_function,
    "aws:lambda/provisionedConcurrencyConfig:ProvisionedConcurrencyConfig": (
        serverless.price_provisioned_concurrency
    ),
    "aws:memorydb/cluster:Cluster": cache.price_memorydb_cluster,
    "aws:mq/broker:Broker": broker.price_mq_broker,
    "aws:msk/cluster:Cluster": broker.price_kafka_cluster,
    "aws:neptune/cluster:Cluster": database_cluster.price_neptune_cluster,
    "aws:neptune/clusterInstance:ClusterInstance": database_cluster.price_neptune_instance,
    "aws:opensearch/domain:Domain": search.price_search_domain,
    "aws:rds/cluster:Cluster": database_cluster.price_aurora_cluster,
    "aws:rds/clusterInstance:ClusterInstance": database_cluster.price_aurora_instance,
    "aws:rds/instance:Instance": rds.price_rds_instance,
    "aws:redshift/cluster:Cluster": warehouse.price_redshift_cluster,
    "aws:route53/healthCheck:HealthCheck": monitoring.price_health_check,
    "aws:sagemaker/app:App": machine_learning.price_studio_app,
    "aws:sagemaker/endpoint:Endpoint": machine_learning.price_endpoint,
    "aws:sagemaker/notebookInstance:NotebookInstance": machine_learning.price_notebook,
    "aws:sfn/stateMachine:StateMachine": stream.price_state_machine,
    "aws:ssm/parameter:Parameter": monitoring.price_ssm_parameter,
    "aws:wafv2/webAcl:WebAcl": gateway.price_web_acl,
}
SERVICE_PRICERS = _PRICERS | {native: _PRICERS[name] for native, name in COUNTERPARTS.items()}
