"""Cases of AWS services: inputs, usage, and what AWS's list prices of us-east-1 make of them by hand.

A charge is component: (item, quantity, USD of the list price, hours or months). ``usd_per_month`` is calculated by
hand from these prices: hours times 730, months and amounts of use as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ServiceCase:
    """One resource with what it costs."""

    type: str
    inputs: dict[str, Any]
    charges: dict[str, tuple[str, str, str, str]]
    usd_per_month: str
    amounts: dict[str, str] = field(default_factory=dict)


HOUR, MONTH, USE = "hour", "month", "use"

DATABASE_CASES = {
    "rds-mysql-micro": ServiceCase(
        "aws:rds/instance:Instance",
        {"engine": "mysql", "instanceClass": "db.t3.micro", "allocatedStorage": 20},
        {
            "instance": ("rds:mysql:db.t3.micro", "1", "0.017", HOUR),
            "storage": ("rds:storage:gp2", "20", "0.115", MONTH),
        },
        "14.71",  # 12.41 + 2.30
    ),
    "rds-multi-az-doubles-instance-storage-and-iops": ServiceCase(
        "aws:rds/instance:Instance",
        {
            "engine": "postgres",
            "instanceClass": "db.t3.large",
            "allocatedStorage": 100,
            "storageType": "io1",
            "iops": 1000,
            "multiAz": True,
        },
        {
            "instance": ("rds:postgresql:db.t3.large", "2", "0.145", HOUR),
            "storage": ("rds:storage:io1", "200", "0.125", MONTH),
            "storage:iops": ("rds:storage:io1:iops", "2000", "0.10", MONTH),
        },
        "436.70",  # 211.70 + 25.00 + 200.00
    ),
    "rds-gp3-includes-3000-iops-of-a-small-volume": ServiceCase(
        "aws:rds/instance:Instance",
        {
            "engine": "mysql",
            "instanceClass": "db.t4g.small",
            "allocatedStorage": 20,
            "storageType": "gp3",
            "iops": 4000,
        },
        {
            "instance": ("rds:mysql:db.t4g.small", "1", "0.032", HOUR),
            "storage": ("rds:storage:gp3", "20", "0.115", MONTH),
            "storage:iops": ("rds:storage:gp3:iops", "1000", "0.02", MONTH),
        },
        "45.66",  # 23.36 + 2.30 + 20.00
    ),
    "rds-gp3-includes-12000-iops-of-a-striped-volume": ServiceCase(
        "aws:rds/instance:Instance",
        {
            "engine": "mysql",
            "instanceClass": "db.t4g.small",
            "allocatedStorage": 400,
            "storageType": "gp3",
            "iops": 14000,
        },
        {
            "instance": ("rds:mysql:db.t4g.small", "1", "0.032", HOUR),
            "storage": ("rds:storage:gp3", "400", "0.115", MONTH),
            "storage:iops": ("rds:storage:gp3:iops", "2000", "0.02", MONTH),
        },
        "109.36",  # 23.36 + 46.00 + 40.00
    ),
    "rds-oracle-with-its-own-licence": ServiceCase(
        "aws:rds/instance:Instance",
        {
            "engine": "oracle-se2",
            "licenseModel": "bring-your-own-license",
            "instanceClass": "db.t3.large",
            "allocatedStorage": 20,
        },
        {
            "instance": ("rds:oracle-se2-byol:db.t3.large", "1", "0.136", HOUR),
            "storage": ("rds:storage:gp2", "20", "0.115", MONTH),
        },
        "101.58",  # 99.28 + 2.30
    ),
    "rds-oracle-with-the-licence-included": ServiceCase(
        "aws:rds/instance:Instance",
        {
            "engine": "oracle-se2",
            "licenseModel": "license-included",
            "instanceClass": "db.t3.large",
            "allocatedStorage": 20,
        },
        {
            "instance": ("rds:oracle-se2-li:db.t3.large", "1", "0.30", HOUR),
            "storage": ("rds:storage:gp2", "20", "0.115", MONTH),
        },
        "221.30",  # 219.00 + 2.30
    ),
    "rds-backups-of-the-usage-file": ServiceCase(
        "aws:rds/instance:Instance",
        {
            "engine": "mysql",
            "instanceClass": "db.t3.large",
            "allocatedStorage": 40,
            "storageType": "standard",
        },
        {
            "instance": ("rds:mysql:db.t3.large", "1", "0.136", HOUR),
            "storage": ("rds:storage:standard", "40", "0.10", MONTH),
            "backup": ("rds:backup", "1000", "0.095", MONTH),
        },
        "198.28",  # 99.28 + 4.00 + 95.00
        {"additional_backup_storage_gb": "1000"},
    ),
    "aurora-instance": ServiceCase(
        "aws:rds/clusterInstance:ClusterInstance",
        {"engine": "aurora-mysql", "instanceClass": "db.r4.large", "clusterIdentifier": "elsewhere"},
        {"instance": ("rds:aurora-mysql:db.r4.large", "1", "0.29", HOUR)},
        "211.70",
    ),
    "aurora-cluster-storage-and-io": ServiceCase(
        "aws:rds/cluster:Cluster",
        {"engine": "aurora-postgresql"},
        {
            "storage": ("aurora:storage", "200", "0.10", MONTH),
            "io": ("aurora:io_request", "50000000", "0.0000002", USE),
        },
        "30.00",  # 20.00 + 10.00
        {"storage_gb": "200", "monthly_io_requests": "50000000"},
    ),
    "documentdb-instance": ServiceCase(
        "aws:docdb/clusterInstance:ClusterInstance",
        {"instanceClass": "db.t3.medium", "clusterIdentifier": "elsewhere"},
        {"instance": ("docdb:db.t3.medium", "1", "0.078", HOUR)},
        "56.94",
    ),
    "neptune-instance": ServiceCase(
        "aws:neptune/clusterInstance:ClusterInstance",
        {"instanceClass": "db.r4.large", "clusterIdentifier": "elsewhere"},
        {"instance": ("neptune:db.r4.large", "1", "0.408", HOUR)},
        "297.84",
    ),
    "elasticache-two-memcached-nodes": ServiceCase(
        "aws:elasticache/cluster:Cluster",
        {"engine": "memcached", "nodeType": "cache.m4.large", "numCacheNodes": 2},
        {"node": ("elasticache:memcached:cache.m4.large", "2", "0.156", HOUR)},
        "227.76",
    ),
    "elasticache-group-of-two-shards-with-one-replica-each": ServiceCase(
        "aws:elasticache/replicationGroup:ReplicationGroup",
        {"nodeType": "cache.m6g.large", "numNodeGroups": 2, "replicasPerNodeGroup": 1},
        {"node": ("elasticache:redis:cache.m6g.large", "4", "0.149", HOUR)},
        "435.08",
    ),
    "elasticache-group-of-three-valkey-nodes-with-snapshots": ServiceCase(
        "aws:elasticache/replicationGroup:ReplicationGroup",
        {"nodeType": "cache.r6g.4xlarge", "numCacheClusters": 3, "engine": "valkey"},
        {
            "node": ("elasticache:valkey:cache.r6g.4xlarge", "3", "1.3136", HOUR),
            "snapshots": ("elasticache:snapshot", "100", "0.085", MONTH),
        },
        "2885.284",  # 2,876.784 + 8.50
        {"snapshot_storage_size_gb": "100"},
    ),
    "memorydb-has-one-replica-by-default": ServiceCase(
        "aws:memorydb/cluster:Cluster",
        {"nodeType": "db.r6g.large", "numShards": 2},
        {"node": ("memorydb:redis:db.r6g.large", "4", "0.30", HOUR)},
        "876.00",
    ),
    "opensearch-with-masters-and-volumes": ServiceCase(
        "aws:opensearch/domain:Domain",
        {
            "clusterConfig": {
                "instanceType": "c4.2xlarge.search",
                "instanceCount": 3,
                "dedicatedMasterEnabled": True,
                "dedicatedMasterType": "c4.8xlarge.search",
                "dedicatedMasterCount": 1,
                "warmEnabled": True,
                "warmCount": 2,
                "warmType": "ultrawarm1.medium.search",
            },
            "ebsOptions": {"ebsEnabled": True, "volumeSize": 400},
        },
        {
            "node": ("opensearch:c4.2xlarge.search", "3", "0.587", HOUR),
            "master": ("opensearch:c4.8xlarge.search", "1", "2.347", HOUR),
            "warm": ("opensearch:ultrawarm1.medium.search", "2", "0.238", HOUR),
            "storage": ("opensearch:storage:gp2", "1200", "0.135", MONTH),
        },
        "3508.32",  # 1,285.53 + 1,713.31 + 347.48 + 162.00
    ),
    "elasticsearch-gp3-throughput-above-what-is-included": ServiceCase(
        "aws:elasticsearch/domain:Domain",
        {
            "clusterConfig": {"instanceType": "c4.2xlarge.elasticsearch", "instanceCount": 2},
            "ebsOptions": {"ebsEnabled": True, "volumeSize": 150, "volumeType": "gp3", "throughput": 200},
        },
        {
            "node": ("opensearch:c4.2xlarge.search", "2", "0.587", HOUR),
            "storage": ("opensearch:storage:gp3", "300", "0.122", MONTH),
            "storage:throughput": ("opensearch:storage:gp3:throughput", "150", "0.064", MONTH),
        },
        "903.22",  # 857.02 + 36.60 + 9.60
    ),
    "redshift-four-nodes": ServiceCase(
        "aws:redshift/cluster:Cluster",
        {"nodeType": "dc2.large", "numberOfNodes": 4},
        {"node": ("redshift:dc2.large", "4", "0.25", HOUR)},
        "730.00",
    ),
    "redshift-managed-storage-of-ra3": ServiceCase(
        "aws:redshift/cluster:Cluster",
        {"nodeType": "ra3.4xlarge", "numberOfNodes": 2, "multiAz": True},
        {
            "node": ("redshift:ra3.4xlarge", "4", "3.26", HOUR),
            "storage": ("redshift:managed_storage", "1000", "0.024", MONTH),
        },
        "9543.20",  # 9,519.20 + 24.00
        {"managed_storage_gb": "1000"},
    ),
    "kafka-brokers-and-their-volumes": ServiceCase(
        "aws:msk/cluster:Cluster",
        {
            "numberOfBrokerNodes": 2,
            "brokerNodeGroupInfo": {
                "instanceType": "kafka.t3.small",
                "storageInfo": {"ebsStorageInfo": {"volumeSize": 500}},
            },
        },
        {
            "broker": ("msk:kafka.t3.small", "2", "0.0456", HOUR),
            "storage": ("msk:storage", "1000", "0.10", MONTH),
        },
        "166.576",  # 66.576 + 100.00
    ),
    "mq-cluster-of-three": ServiceCase(
        "aws:mq/broker:Broker",
        {
            "engineType": "RabbitMQ",
            "hostInstanceType": "mq.m5.xlarge",
            "deploymentMode": "CLUSTER_MULTI_AZ",
        },
        {
            "instance": ("mq:rabbitmq:mq.m5.xlarge", "3", "0.576", HOUR),
            "storage": ("mq:rabbitmq:storage:ebs", "30", "0.10", MONTH),
        },
        "1264.44",  # 1,261.44 + 3.00
        {"storage_size_gb": "30"},
    ),
}
