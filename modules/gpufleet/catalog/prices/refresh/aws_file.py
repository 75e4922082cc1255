"""Amazon's published price files: one file for each service and region, without credentials.

``/offers/v1.0/aws/<service>/current/<region>/index.csv`` has five lines of metadata, a header line, and one row for
each price dimension ("Reading the service price list file for an AWS service", AWS Billing user guide). The EC2 file of
a region has hundreds of megabytes: it is streamed, and only the rows that price something here are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpufleet.boundary import CsvRow, stream_csv_rows
from gpufleet.catalog.cloud import CLOUDS
from gpufleet.catalog.prices.refresh import aws_file_machine, aws_file_part
from gpufleet.catalog.prices.refresh.http_client import HttpClient
from gpufleet.catalog.prices.refresh.source import (
    RefreshScope,
    RegionPrices,
    RequestRejected,
    SourceUnavailable,
    build_region_prices,
)
from gpufleet.errors import InputError

BASE_URL = "https://pricing.us-east-1.amazonaws.com"
PREAMBLE_LINES = 5
COMMON_COLUMNS = (
    "SKU", "OfferTermCode", "TermType", "StartingRange", "Unit", "PricePerUnit", "Currency", "Product Family",
    "usageType", "Region Code",
)  # fmt: skip


@dataclass(frozen=True)
class AwsPriceFile:
    """The file of one service: its code in the address, the columns that are read besides the common ones."""

    service: str
    columns: tuple[str, ...] = ()


SERVICES = {
    "ec2": "AmazonEC2", "vpc": "AmazonVPC", "elb": "AWSELB", "eks": "AmazonEKS", "ecs": "AmazonECS", "rds": "AmazonRDS",
    "elasticache": "AmazonElastiCache", "opensearch": "AmazonES", "lambda": "AWSLambda", "s3": "AmazonS3",
    "ecr": "AmazonECR", "cloudwatch": "AmazonCloudWatch", "efs": "AmazonEFS", "dynamodb": "AmazonDynamoDB",
    "redshift": "AmazonRedshift", "msk": "AmazonMSK", "docdb": "AmazonDocDB", "neptune": "AmazonNeptune",
    "glacier": "AmazonGlacier", "deep-archive": "AmazonS3GlacierDeepArchive", "kinesis": "AmazonKinesis",
    "kinesis-analytics": "AmazonKinesisAnalytics", "kms": "awskms", "secrets": "AWSSecretsManager",
    "sqs": "AWSQueueService", "sns": "AmazonSNS", "api-gateway": "AmazonApiGateway", "events": "AWSEvents",
    "step-functions": "AmazonStates", "glue": "AWSGlue", "athena": "AmazonAthena", "waf": "awswaf",
    "config": "AWSConfig", "network-firewall": "AWSNetworkFirewall", "ssm": "AWSSystemsManager",
    "dms": "AWSDatabaseMigrationSvc", "cloudtrail": "AWSCloudTrail", "cloudhsm": "CloudHSM", "codebuild": "CodeBuild",
    "mwaa": "AmazonMWAA", "sagemaker": "AmazonSageMaker",
}  # fmt: skip
SERVICE_COLUMNS = {
    "AmazonEC2": aws_file_machine.COLUMNS,
    "AmazonRDS": (
        "Instance Type", "Database Engine", "Database Edition", "License Model", "Deployment Option",
    ),
    "AmazonElastiCache": ("Instance Type", "Cache Engine"),
    "AmazonES": ("Instance Type",),
    "AWSLambda": ("Group",),
    "AmazonS3": ("Volume Type",),
}  # fmt: skip


def list_service_columns(service: str) -> tuple[str, ...]:
    """Return the columns that the rules of a service read besides the common ones."""
    operations = any(rule.operation for rule in aws_file_part.PART_RULES if rule.service == service)
    return (*SERVICE_COLUMNS.get(service, ()), *(("operation",) if operations else ()))


PRICE_FILES = {
    f"aws-file-{name}": AwsPriceFile(service, list_service_columns(service))
    for name, service in SERVICES.items()
}


@dataclass
class AwsPriceFileSource:
    """The source of one service's prices. ``base_url`` is Amazon's address, except in tests."""

    source_name: str
    http: HttpClient = field(default_factory=HttpClient)
    base_url: str = BASE_URL
    cloud_name: str = "aws"

    def fetch_region_prices(self, region: str, scope: RefreshScope) -> RegionPrices:
        """Return the prices of a service in a region."""
        if not CLOUDS["aws"].is_region_name(region):
            raise RequestRejected(f"{region!r} is not a region of AWS")
        file = PRICE_FILES[self.source_name]
        url = f"{self.base_url}/offers/v1.0/aws/{file.service}/current/{region}/index.csv"
        rows = stream_csv_rows(
            self.http.stream_bytes(url),
            f"{file.service}/{region}/index.csv",
            (*COMMON_COLUMNS, *file.columns),
            preamble_lines=PREAMBLE_LINES,
        )
        try:
            return self._read_rows(rows, region, scope.day.isoformat())
        except InputError as error:  # of the vendor's file, not of the user
            raise SourceUnavailable(f"{self.source_name}: {error.message}") from None

    def _read_rows(self, rows: Iterable[CsvRow], region: str, day: str) -> RegionPrices:
        machines = aws_file_machine.AwsMachineCollector(region, day, self.source_name)
        parts = aws_file_part.AwsPartCollector(
            PRICE_FILES[self.source_name].service, region, day, self.source_name
        )
        for row in rows:
            if row["Region Code"] != region or row["Currency"] != "USD":
                continue
            if "Operating System" in row and row["Product Family"].startswith(
                aws_file_machine.PRODUCT_FAMILY
            ):
                machines.add_row(row)
            else:
                parts.add_row(row)
        return build_region_prices(
            [*machines.build_price_rows(), *parts.build_price_rows()], [*machines.left_out, *parts.left_out]
        )
