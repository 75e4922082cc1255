"""Parts of Amazon's price files.

``data/refresh_aws.csv`` has the rules that need no other column than usage type, product family and operation, each
with its source. Usage types and product families of those below are the price list's as Infracost's filters use them
(infracost/infracost@95ba4f49a, internal/resources/aws: ebs_volume.go, db_instance.go, elasticache_cluster.go,
lambda_function.go, s3_standard_storage_class.go).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpufleet.boundary import CsvRow
from gpufleet.catalog.data_file import Row
from gpufleet.catalog.entry import HOURS_PER_MONTH
from gpufleet.catalog.prices import part_rule
from gpufleet.catalog.prices.part_rule import PartName, find_first_paid
from gpufleet.catalog.prices.row import PriceRow

# A usage type begins with the region (EUW1-, EU-, KMS: eu-west-1-); of some services us-east-1 has none.
REGION_PREFIX = re.compile(r"\A(?:[A-Z]{3}\d|EU|[a-z]{2}(?:-[a-z]+)+-\d)-")
# What the amount of a unit is divided by, for USD per hour (or per use).
DIVISORS = {
    "Hrs": 1, "Hours": 1, "hours": 1, "Quantity": 1, "Requests": 1, "Lambda-GB-Second": 1, "Second": 1,
    "GB-Mo": HOURS_PER_MONTH, "MiBps-Mo": HOURS_PER_MONTH, "GiBps-mo": HOURS_PER_MONTH * 1024,
    "MBPS-Mo": HOURS_PER_MONTH,
}  # fmt: skip
# Units of the rules in the data file: they end in an hour (Hrs, ACU-Hr, ReadCapacityUnit-Hrs) or a month (GB-Mo), or
# count what bills by month. All others are of a use.
HOUR_ENDINGS, MONTH_ENDINGS = ("hrs", "hr", "hours", "hour"), ("-mo", "month", "months")
COUNTED_BY_MONTH = frozenset({"Keys", "Secrets", "Alarms", "Mo"})
STORAGE_TYPES = {
    "RDS:GP2-Storage": "gp2", "RDS:GP3-Storage": "gp3", "RDS:PIOPS-Storage": "io1",
    "RDS:PIOPS-Storage-IO2": "io2", "RDS:StorageUsage": "standard",
}  # fmt: skip
ENGINES = {
    "MySQL": "mysql", "PostgreSQL": "postgresql", "MariaDB": "mariadb", "Aurora MySQL": "aurora-mysql",
    "Aurora PostgreSQL": "aurora-postgresql",
}  # fmt: skip
LICENSED_ENGINES = {
    ("Oracle", "Enterprise", "Bring your own license"): "oracle-ee-byol",
    ("Oracle", "Standard Two", "Bring your own license"): "oracle-se2-byol",
    ("Oracle", "Standard Two", "License included"): "oracle-se2-li",
    ("SQL Server", "Enterprise", "License included"): "sqlserver-ee",
    ("SQL Server", "Express", "License included"): "sqlserver-ex",
    ("SQL Server", "Standard", "License included"): "sqlserver-se",
    ("SQL Server", "Web", "License included"): "sqlserver-web",
}
FUNCTION_GROUPS = {
    "AWS-Lambda-Requests": ("lambda:request", "request"),
    "AWS-Lambda-Duration": ("lambda:x86:gib_second", "gib_second"),
    "AWS-Lambda-Duration-ARM": ("lambda:arm:gib_second", "gib_second"),
    "AWS-Lambda-Storage-Duration": ("lambda:disk_gib_second", "gib_second"),
}
DATABASE_CLASS = re.compile(r"db\.[a-z0-9]+(?:-[a-z0-9]+)*\.[a-z0-9.-]+\Z")
CACHE_NODE = re.compile(r"cache\.[a-z0-9]+\.[a-z0-9]+\Z")
SEARCH_NODE = re.compile(r"[a-z0-9]+\.[a-z0-9]+\.(?:search|elasticsearch)\Z")
Part = tuple[str, str]  # name and unit
PartFinder = Callable[[CsvRow, re.Match[str]], Part | None]


@dataclass(frozen=True)
class AwsPartRule:
    """The rows of a service whose usage type and product family match are this part."""

    service: str
    family: str
    usage: re.Pattern[str]
    find: PartFinder
    operation: str = ""
    name: PartName | None = None  # of a rule in the data file

    def find_priced_part(self, row: CsvRow, usage: str) -> Part | None:
        """Return the part that a row prices, None for another row."""
        match = self.usage.fullmatch(usage)
        is_product = not self.family or row["Product Family"] == self.family
        if not match or not is_product or (self.operation and row["operation"] != self.operation):
            return None
        return self.find(row, match)

    def find_divisor(self, unit: str) -> float | None:
        """Return what an amount is divided by for USD per hour or use; None for a unit of something else."""
        if self.name is None:
            return DIVISORS.get(unit)
        is_monthly = unit.lower().endswith(MONTH_ENDINGS) or unit in COUNTED_BY_MONTH
        is_hourly = unit.lower().endswith(HOUR_ENDINGS)
        if self.name.per == "time":
            return HOURS_PER_MONTH if is_monthly else 1 if is_hourly else None
        return 1 if not is_monthly and (not is_hourly or self.name.unit.endswith("hour")) else None


def read_part_rules() -> tuple[AwsPartRule, ...]:
    """Return the rules of the data file."""
    return tuple(_build_rule(row) for row in part_rule.load_rule_rows("aws"))


def _build_rule(row: Row) -> AwsPartRule:
    name = part_rule.read_part_name(row)

    def find_part(_: CsvRow, match: re.Match[str]) -> Part:
        return name.format_name(match.groupdict()), name.unit

    return AwsPartRule(
        row["service"], row["family"], re.compile(row["usage"]), find_part, row["operation"], name
    )


def _find_throughput(row: CsvRow, match: re.Match[str]) -> Part:  # noqa: ARG001 - all finders have the same signature
    return "ebs:gp3:throughput", "mib_per_s"


def _find_database(row: CsvRow, match: re.Match[str]) -> Part | None:
    engine_cells = (row["Database Engine"], row["Database Edition"], row["License Model"])
    engine = LICENSED_ENGINES.get(engine_cells) or ENGINES.get(row["Database Engine"])
    is_class = DATABASE_CLASS.match(row["Instance Type"]) and match["class"] == row["Instance Type"]
    if not engine or not is_class or row["Deployment Option"] != "Single-AZ":
        return None
    return f"rds:{engine}:{row['Instance Type']}", "instance"


def _find_database_storage(row: CsvRow, match: re.Match[str]) -> Part | None:
    storage = STORAGE_TYPES.get(match[0])
    if not storage or (row["Deployment Option"], row["Database Engine"]) != ("Single-AZ", "Any"):
        return None
    return f"rds:storage:{storage}", "gib"


def _find_cache_node(row: CsvRow, match: re.Match[str]) -> Part | None:
    engine = row["Cache Engine"].lower()
    if engine not in {"redis", "valkey", "memcached"} or match["node"] != row["Instance Type"]:
        return None
    return (f"elasticache:{engine}:{match['node']}", "node") if CACHE_NODE.match(match["node"]) else None


def _find_search_node(row: CsvRow, match: re.Match[str]) -> Part | None:  # noqa: ARG001
    name = row["Instance Type"]
    return (
        (f"opensearch:{name.replace('.elasticsearch', '.search')}", "node")
        if SEARCH_NODE.match(name)
        else None
    )


def _find_function_part(row: CsvRow, match: re.Match[str]) -> Part | None:  # noqa: ARG001
    return FUNCTION_GROUPS.get(row["Group"])


def _find_bucket_storage(row: CsvRow, match: re.Match[str]) -> Part | None:  # noqa: ARG001
    return ("s3:standard:storage", "gib") if row["Volume Type"] == "Standard" else None


_RULES = (
    ("AmazonEC2", "Provisioned Throughput", r"EBS:VolumeP-Throughput\.gp3", _find_throughput),
    ("AmazonRDS", "Database Instance", r"InstanceUsage:(?P<class>db\..+)", _find_database),
    ("AmazonRDS", "Database Storage", "RDS:.+", _find_database_storage),
    ("AmazonElastiCache", "Cache Instance", r"NodeUsage:(?P<node>cache\..+)", _find_cache_node),
    ("AWSLambda", "Serverless", r"(?:Request|Lambda-(?:Storage-)?GB-Second)(?:-ARM)?", _find_function_part),
    ("AmazonS3", "Storage", "TimedStorage-ByteHrs", _find_bucket_storage),
    ("AmazonES", "Amazon OpenSearch Service Instance", "ESInstance:.+", _find_search_node),
)  # fmt: skip
PART_RULES = (
    *(AwsPartRule(service, family, re.compile(usage), find) for service, family, usage, find in _RULES),
    *read_part_rules(),
)


class AwsPartCollector:
    """Collects the on-demand prices of one service's parts in a region. ``left_out`` lists parts with two prices."""

    def __init__(self, service: str, region: str, day: str, source: str) -> None:
        self.region = region
        self.day = day
        self.source = source
        self.left_out: list[str] = []
        self._rules = tuple(rule for rule in PART_RULES if rule.service == service)
        self._tiers: dict[Part, dict[str, dict[float, float]]] = {}  # by SKU and start of the tier

    def add_row(self, row: CsvRow) -> None:
        """Keep a row that prices a part."""
        tier_start = row["StartingRange"] or "0"
        if row["TermType"] != "OnDemand" or not tier_start.isdecimal():
            return
        usage = REGION_PREFIX.sub("", row["usageType"])
        for rule in self._rules:
            part = rule.find_priced_part(row, usage)
            divisor = rule.find_divisor(row["Unit"]) if part else None
            if part and divisor:
                tiers = self._tiers.setdefault(part, {}).setdefault(row["SKU"], {})
                tiers[float(tier_start)] = row.get_number("PricePerUnit") / divisor
                return

    def build_price_rows(self) -> Iterator[PriceRow]:
        """Yield one price for each part: of tiers the first that is not free."""
        for (part, unit), products in sorted(self._tiers.items()):
            paid_prices = {usd for tiers in products.values() if (usd := find_first_paid(tiers)) is not None}
            if len(paid_prices) != 1:
                self.left_out.append(f"aws {self.region} {part}: {len(paid_prices)} prices above zero")
                continue
            yield PriceRow(
                "aws", self.region, part, "on_demand", paid_prices.pop(), self.day, self.source, kind="part", unit=unit
            )  # fmt: skip
