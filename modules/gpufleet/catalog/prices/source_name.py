"""The names of the price sources for the command line, without imports of the sources."""

from __future__ import annotations

from gpufleet import catalog

CLOUDS = tuple(catalog.CLOUDS)
GPUHUNT_CLOUDS = ("aws", "gcp", "azure")  # of those, the ones that gpuhunt covers
GPUHUNT_SOURCES = tuple(f"gpuhunt-{cloud}" for cloud in GPUHUNT_CLOUDS)
# Read only if named: published by a third party, or the same prices as another source.
OPT_IN_SOURCES = (*GPUHUNT_SOURCES, "aws-price-list")
AWS_FILE_SOURCES = (
    "aws-file-ec2",
    "aws-file-vpc",
    "aws-file-elb",
    "aws-file-eks",
    "aws-file-ecs",
    "aws-file-rds",
    "aws-file-elasticache",
    "aws-file-opensearch",
    "aws-file-lambda",
    "aws-file-s3",
    "aws-file-ecr",
    "aws-file-cloudwatch",
)
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
