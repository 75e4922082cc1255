"""The names of the price sources for the command line, without imports of the sources."""

from __future__ import annotations

from gpufleet import catalog

CLOUDS = tuple(catalog.CLOUDS)
GPUHUNT_CLOUDS = ("aws", "gcp", "azure")  # of those, the ones that gpuhunt covers
GPUHUNT_SOURCES = tuple(f"gpuhunt-{cloud}" for cloud in GPUHUNT_CLOUDS)
# Read only if named: published by a third party, or the same prices as another source.
OPT_IN_SOURCES = (*GPUHUNT_SOURCES, "aws-price-list")
AWS_FILE_SERVICES = (
    "ec2", "vpc", "elb", "eks", "ecs", "rds", "elasticache", "opensearch", "lambda", "s3", "ecr", "cloudwatch", "efs",
    "dynamodb", "redshift", "msk", "docdb", "neptune", "glacier", "deep-archive", "kinesis", "kinesis-analytics", "kms",
    "secrets", "sqs", "sns", "api-gateway", "events", "step-functions", "glue", "athena", "waf", "config",
    "network-firewall", "ssm", "dms", "cloudtrail", "cloudhsm", "codebuild", "mwaa", "sagemaker",
)  # fmt: skip
AWS_FILE_SOURCES = tuple(f"aws-file-{name}" for name in AWS_FILE_SERVICES)
SOURCE_NAMES = (
    *AWS_FILE_SOURCES,
    "aws-price-list",
    "aws-spot-history",
    "aws-reserved-offerings",
    "aws-savings-plans",
    "aws-capacity-blocks",
    "gcp-billing-catalog",
    "azure-retail-prices",
    *GPUHUNT_SOURCES,
)
