"""Extended support of RDS and Aurora: an old MySQL or PostgreSQL bills each vCPU for it, more in its third year.

It begins by itself, also for a new database, unless ``engineLifecycleSupport`` disables it (RDS User Guide, "Using
Amazon RDS Extended Support"). A version newer than those in the table counts as supported, an older one as the oldest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache

from gpufleet.boundary import read_packaged_rows
from gpufleet.cost.inputs.values import Text
from gpufleet.cost.money import ONE, Range
from gpufleet.cost.pricing.component import CostComponent
from gpufleet.cost.pricing.pricers.reader import Reader
from gpufleet.engine import UnreadableValue

COMPONENT = "extended_support"
DISABLED = "open-source-rds-extended-support-disabled"
# vCPUs by the size of a class; "DB instance classes" of the RDS User Guide. Larger sizes are multiples of xlarge.
VCPUS = {"micro": 2, "small": 2, "medium": 2, "large": 2, "xlarge": 4}
SINGLE_VCPU_CLASSES = ("db.t2.micro", "db.t2.small", "db.m3.medium", "db.m1.small", "db.m1.medium")


@dataclass(frozen=True)
class SupportDates:
    """The last day of standard support of a version, and the first day of the dearer third year after it."""

    standard_support_ends: date
    year_3_begins: date


def make_extended_support(
    database: Reader, engine: str, version: Text, class_path: str, copies: Range = ONE
) -> CostComponent | None:
    """Return what the version of a database bills for extended support on a day; nothing while it is supported."""
    if engine not in {name for name, _ in load_rds_support_dates()}:
        return None
    if isinstance(version, UnreadableValue):
        raise database.refuse("its version is not known until deployment: an old one bills more")
    if version and not version[0].isdecimal():
        raise database.refuse(f"{version} is not a version: an old one bills more")
    dates, on_date = find_support_dates(engine, version), database.graph.on_date
    if dates is None or on_date <= dates.standard_support_ends:
        return None
    instance_class = database.text(class_path, "instance class")
    vcpus = count_class_vcpus(instance_class)
    if vcpus is None:
        raise database.refuse(f"the vCPUs of {instance_class} are not in our table")
    year = "year_3" if on_date >= dates.year_3_begins else "year_1"
    return database.part(f"rds:extended_support:{year}", copies * Decimal(vcpus))


def find_support_dates(engine: str, version: str | None) -> SupportDates | None:
    """Return the dates of a version, those of the oldest known one if it is older; None if it is newer or not set."""
    key = _major_version(engine, version or "")
    known = {each: dates for (name, each), dates in load_rds_support_dates().items() if name == engine}
    return known.get(key, known[min(known)] if key < min(known) else None) if key else None


def count_class_vcpus(instance_class: str) -> int | None:
    """Return the vCPUs of a class such as ``db.m5.2xlarge``; None for a size without a number of them."""
    if instance_class in SINGLE_VCPU_CLASSES:
        return 1
    size = instance_class.rpartition(".")[2]
    multiple = re.fullmatch(r"([1-9][0-9]?)xlarge", size)
    return int(multiple[1]) * VCPUS["xlarge"] if multiple else VCPUS.get(size)


@cache
def load_rds_support_dates() -> dict[tuple[str, tuple[int, ...]], SupportDates]:
    """Return the support dates by engine and major version."""
    rows = read_packaged_rows("gpufleet.cost", "data/rds_support.csv")
    return {
        (row["engine"], _major_version(row["engine"], row["version"])): SupportDates(
            row.get_date("standard_support_ends"),
            row.get_date("year_3_begins") if row["year_3_begins"] else date.max,
        )
        for row in rows
    }


def _major_version(engine: str, version: str) -> tuple[int, ...]:
    """Return what support depends on: two numbers of MySQL, one of PostgreSQL from 10 on; () if it is none."""
    numbers = [int(part) for part in re.findall(r"^\d{1,4}|(?<=\.)\d{1,4}", version)]
    return tuple(numbers[: 2 if engine.endswith("mysql") else 1])
