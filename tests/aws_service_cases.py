"""Cases of AWS services other than databases, in the form of ``aws_database_cases``; ``CASES`` has all."""

from __future__ import annotations

from aws_database_cases import DATABASE_CASES, HOUR, MONTH, USE, ServiceCase

CASES = {
    **DATABASE_CASES,
    "lambda-calls-of-512-mib-for-350-ms": ServiceCase(
        "aws:lambda/function:Function",
        {"memorySize": 512},
        {
            "requests": ("lambda:request", "1000000", "0.0000002", USE),
            "duration": ("lambda:x86:gib_second", "175000", "0.0000166667", USE),
        },
        "3.1166725",  # 0.20 + 2.9166725
        {"monthly_requests": "1000000", "request_duration_ms": "350"},
    ),
    "dynamodb-provisioned-with-an-index": ServiceCase(
        "aws:dynamodb/table:Table",
        {
            "readCapacity": 30,
            "writeCapacity": 20,
            "globalSecondaryIndexes": [{"name": "by-name", "readCapacity": 10, "writeCapacity": 10}],
        },
        {
            "read_capacity": ("dynamodb:read_capacity", "30", "0.0949", MONTH),
            "write_capacity": ("dynamodb:write_capacity", "20", "0.4745", MONTH),
            "read_capacity:1": ("dynamodb:read_capacity", "10", "0.0949", MONTH),
            "write_capacity:1": ("dynamodb:write_capacity", "10", "0.4745", MONTH),
            "storage": ("dynamodb:storage", "230", "0.25", MONTH),
        },
        "75.531",  # 2.847 + 9.49 + 0.949 + 4.745 + 57.50
        {"storage_gb": "230"},
    ),
    "dynamodb-by-request": ServiceCase(
        "aws:dynamodb/table:Table",
        {"billingMode": "PAY_PER_REQUEST"},
        {
            "writes": ("dynamodb:write_request", "3000000", "0.000000625", USE),
            "reads": ("dynamodb:read_request", "8000000", "0.000000125", USE),
            "storage": ("dynamodb:storage", "100", "0.25", MONTH),
        },
        "27.875",  # 1.875 + 1.00 + 25.00
        {
            "monthly_write_request_units": "3000000",
            "monthly_read_request_units": "8000000",
            "storage_gb": "100",
        },
    ),
    "flow-logs-to-the-default-destination": ServiceCase(
        "aws:ec2/flowLog:FlowLog",
        {"trafficType": "ALL"},
        {"delivered": ("cloudwatch:logs:vended:cloud-watch-logs", "120", "0.50", USE)},
        "60.00",
        {"monthly_data_ingested_gb": "120"},
    ),
    "flow-logs-to-a-bucket": ServiceCase(
        "aws:ec2/flowLog:FlowLog",
        {"trafficType": "ALL", "logDestinationType": "s3"},
        {"delivered": ("cloudwatch:logs:vended:s3", "120", "0.25", USE)},
        "30.00",
        {"monthly_data_ingested_gb": "120"},
    ),
    "contributor-insights-rule": ServiceCase(
        "aws:cloudwatch/contributorInsightRule:ContributorInsightRule",
        {"ruleState": "ENABLED"},
        {"rule": ("cloudwatch:contributor_insights:rule", "1", "0.50", MONTH)},
        "0.50",
    ),
    "efs-provisioned-throughput": ServiceCase(
        "aws:efs/fileSystem:FileSystem",
        {"throughputMode": "provisioned", "provisionedThroughputInMibps": 100},
        {
            "storage": ("efs:standard", "230", "0.30", MONTH),
            "throughput": ("efs:throughput", "100", "6.00", MONTH),
        },
        "669.00",  # 69.00 + 600.00
        {"storage_gb": "230"},
    ),
    "fsx-windows-in-two-zones": ServiceCase(
        "aws:fsx/windowsFileSystem:WindowsFileSystem",
        {"deploymentType": "MULTI_AZ_1", "storageCapacity": 300, "throughputCapacity": 1024},
        {
            "storage": ("fsx_windows:multi_az:ssd", "300", "0.23", MONTH),
            "throughput": ("fsx_windows:multi_az:throughput", "1024", "4.50", MONTH),
        },
        "4677.00",  # 69.00 + 4,608.00
    ),
    "fsx-openzfs-iops-above-three-per-gib": ServiceCase(
        "aws:fsx/openZfsFileSystem:OpenZfsFileSystem",
        {
            "deploymentType": "SINGLE_AZ_1",
            "storageCapacity": 300,
            "throughputCapacity": 1024,
            "diskIopsConfiguration": {"mode": "USER_PROVISIONED", "iops": 1000},
        },
        {
            "storage": ("fsx_openzfs:single_az:ssd", "300", "0.09", MONTH),
            "throughput": ("fsx_openzfs:single_az:throughput", "1024", "0.26", MONTH),
            "iops": ("fsx_openzfs:single_az:iops", "100", "0.006", MONTH),
        },
        "293.84",  # 27.00 + 266.24 + 0.60
    ),
    "kinesis-shards-with-longer-retention": ServiceCase(
        "aws:kinesis/stream:Stream",
        {"shardCount": 4, "retentionPeriod": 48},
        {
            "shards": ("kinesis:shard", "4", "0.015", HOUR),
            "retention": ("kinesis:shard:retention", "4", "0.02", HOUR),
        },
        "102.20",  # 43.80 + 58.40
    ),
    "web-acl-with-two-rules": ServiceCase(
        "aws:wafv2/webAcl:WebAcl",
        {"scope": "REGIONAL", "rules": [{"name": "a"}, {"name": "b"}]},
        {
            "web_acl": ("waf:web_acl", "1", "5", MONTH),
            "rules": ("waf:rule", "2", "1", MONTH),
            "requests": ("waf:request", "1000000", "0.0000006", USE),
        },
        "7.60",
        {"monthly_requests": "1000000"},
    ),
    "alarm-of-high-resolution": ServiceCase(
        "aws:cloudwatch/metricAlarm:MetricAlarm",
        {"period": 10},
        {"alarm": ("cloudwatch:alarm:high", "1", "0.30", MONTH)},
        "0.30",
    ),
    "alarm-over-two-metrics": ServiceCase(
        "aws:cloudwatch/metricAlarm:MetricAlarm",
        {
            "metricQueries": [
                {"metric": {"period": 300}},
                {"metric": {"period": 300}},
                {"expression": "m1/m2"},
            ]
        },
        {"alarm": ("cloudwatch:alarm:standard", "2", "0.10", MONTH)},
        "0.20",
    ),
    "health-check-of-https-and-a-text": ServiceCase(
        "aws:route53/healthCheck:HealthCheck",
        {"type": "HTTPS_STR_MATCH", "fqdn": "example.com"},
        {
            "check": ("route53:health_check:outside", "1", "0.75", MONTH),
            "options": ("route53:health_check:outside:option", "2", "2", MONTH),
        },
        "4.75",
    ),
    "vpn-on-a-transit-gateway": ServiceCase(
        "aws:ec2/vpnConnection:VpnConnection",
        {"transitGatewayId": "tgw-1"},
        {
            "connection": ("vpn:connection", "1", "0.05", HOUR),
            "attachment": ("transit_gateway:attachment", "1", "0.05", HOUR),
        },
        "73.00",
    ),
    "sagemaker-notebook-with-a-gpu": ServiceCase(
        "aws:sagemaker/notebookInstance:NotebookInstance",
        {"instanceType": "ml.g5.xlarge", "volumeSize": 100},
        {
            "instance": ("sagemaker:notebook:ml.g5.xlarge", "1", "1.408", HOUR),
            "storage": ("sagemaker:notebook:storage", "100", "0.112", MONTH),
        },
        "1039.04",  # 1,027.84 + 11.20
    ),
    "hosted-zone": ServiceCase(
        "aws:route53/zone:Zone", {}, {"zone": ("route53:zone", "1", "0.50", MONTH)}, "0.50"
    ),
    "fifo-queue": ServiceCase(
        "aws:sqs/queue:Queue",
        {"fifoQueue": True},
        {"requests": ("sqs:request:fifo", "2000000", "0.0000005", USE)},
        "1.00",
        {"monthly_requests": "2000000"},
    ),
    "standard-queue": ServiceCase(
        "aws:sqs/queue:Queue",
        {},
        {"requests": ("sqs:request", "2000000", "0.0000004", USE)},
        "0.80",
        {"monthly_requests": "2000000"},
    ),
    "bucket-with-storage-and-requests": ServiceCase(
        "aws:s3/bucketV2:BucketV2",
        {},
        {
            "storage": ("s3:standard:storage", "1000", "0.023", MONTH),
            "tier_1_requests": ("s3:standard:tier_1_request", "1000000", "0.000005", USE),
        },
        "28.00",  # 23.00 + 5.00
        {"standard.storage_gb": "1000", "standard.monthly_tier_1_requests": "1000000"},
    ),
    "network-firewall-in-two-subnets": ServiceCase(
        "aws:networkfirewall/firewall:Firewall",
        {"subnetMappings": [{"subnetId": "a"}, {"subnetId": "b"}]},
        {"endpoints": ("network_firewall:endpoint", "2", "0.395", HOUR)},
        "576.70",
    ),
    "directory-of-microsoft": ServiceCase(
        "aws:directoryservice/directory:Directory",
        {"type": "MicrosoftAD", "edition": "Standard"},
        {"controllers": ("directory:microsoftad:standard:any", "2", "43.80", MONTH)},
        "87.60",
    ),
    "migration-instance-in-two-zones": ServiceCase(
        "aws:dms/replicationInstance:ReplicationInstance",
        {"replicationInstanceClass": "dms.t2.micro", "multiAz": True},
        {"instance": ("dms:dms.t2.micro", "2", "0.018", HOUR)},
        "26.28",
    ),
    "api-stage-with-a-cache": ServiceCase(
        "aws:apigateway/stage:Stage",
        {"cacheClusterEnabled": True, "cacheClusterSize": "0.5"},
        {"cache": ("api_gateway:cache:0.5", "1", "0.02", HOUR)},
        "14.60",
    ),
    "express-state-machine": ServiceCase(
        "aws:sfn/stateMachine:StateMachine",
        {"type": "EXPRESS"},
        {"requests": ("step_functions:request", "5000000", "0.000001", USE)},
        "5.00",
        {"monthly_requests": "5000000"},
    ),
}
