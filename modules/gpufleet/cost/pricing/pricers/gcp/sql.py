"""Cloud SQL: instances by tier, their standby, disk, licence and backups.

Tiers and editions: cloud.google.com/sql/docs/mysql/instance-settings and /sql/docs/editions-intro, read 2026-11-23.
"""

from __future__ import annotations

import re
from decimal import Decimal

from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.gcp.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import UnreadableValue

DEFAULT_DISK_GIB = Decimal(10)  # what Cloud SQL makes of an instance without a disk size
SQL_SERVER = "SQLSERVER_"
DATABASES = ("MYSQL_", "POSTGRES_", SQL_SERVER)
SHARED_CORE_TIERS = ("db-f1-micro", "db-g1-small")
MIB_PER_GIB = Decimal(1024)
# GiB of memory for each vCPU of a predefined tier.
GIB_PER_VCPU = {
    "db-n1-standard": Decimal("3.75"),
    "db-n1-highmem": Decimal("6.5"),
    "db-perf-optimized-N": Decimal(8),
}
DISK_ITEMS = {"PD_SSD": "cloud_sql:ssd", "PD_HDD": "cloud_sql:hdd"}
SERVER_LICENCES = ("enterprise", "standard", "web", "express")
_CUSTOM_TIER = re.compile(r"db-custom-(\d{1,4})-(\d{1,8})\Z")
_PREDEFINED_TIER = re.compile(r"(db-[a-zA-Z0-9-]+?)-(\d{1,4})\Z")
AVAILABILITIES = ("REGIONAL", "ZONAL")


@pricer("gcp:sql/databaseInstance:DatabaseInstance")
def price_sql_instance(instance: Reader) -> Parts:
    """Yield an instance with its standby: REGIONAL availability runs and stores everything twice."""
    if instance.find_text("settings.activationPolicy") != "NEVER":
        yield from _list_machine(instance.bought())
    with instance.of("disk") as disk:
        kind = disk.text("settings.diskType", "disk type", "PD_SSD")
        size = disk.number("settings.diskSize", "disk size", DEFAULT_DISK_GIB)
        yield disk.kept(DISK_ITEMS.get(kind, f"cloud_sql:{kind.lower()}"), _count_copies(disk), size)
    with instance.of("backups") as backups:
        if backups.flag("settings.backupConfiguration.enabled", "whether it has backups"):
            yield backups.used("cloud_sql:backup", "backup_storage_gb", stored=True)


def _list_machine(instance: Reader) -> Parts:
    """Yield what bills while an instance runs: a shared core, or vCPUs, memory and a licence."""
    with instance.of("machine") as machine:
        tier = machine.text("settings.tier", "its tier")
        if tier in SHARED_CORE_TIERS:
            yield machine.part(f"cloud_sql:{tier}", _count_copies(machine))
            return
        vcpus, gib = _find_size(machine, tier)
        for name, item, size in (("vcpus", "vcpu", vcpus), ("memory", "memory", gib)):
            with instance.of(name) as part:
                yield part.part(f"{_find_family(part, tier)}:{item}", _count_copies(part), size)
        with instance.of("licence") as licence:
            if edition := _find_licence(licence):
                size = max(vcpus, Decimal(4))
                yield licence.part(f"cloud_sql:sqlserver_{edition}:vcpu", _count_copies(licence), size)


def _count_copies(instance: Reader) -> Range:
    """Return how many copies run: the nodes of a read pool, twice with a standby; a range if that is hidden."""
    nodes = instance.number("nodeCount", "its number of nodes", 1)
    availability = instance.find_choice("settings.availabilityType", AVAILABILITIES)
    if isinstance(availability, UnreadableValue):
        return Range(nodes, nodes * 2, nodes * 2)
    return Range.from_exact_value(nodes * (2 if availability == "REGIONAL" else 1))


def _find_family(instance: Reader, tier: str) -> str:
    edition = instance.text("settings.edition", "its edition", "ENTERPRISE")
    is_plus = edition == "ENTERPRISE_PLUS" or tier.startswith("db-perf-optimized-")
    return "cloud_sql:enterprise_plus" if is_plus else "cloud_sql"


def _find_size(machine: Reader, tier: str) -> tuple[Decimal, Decimal]:
    """Return the vCPUs and the GiB of memory that a tier's name says."""
    if match := _CUSTOM_TIER.match(tier):
        return Decimal(match[1]), Decimal(match[2]) / MIB_PER_GIB
    match = _PREDEFINED_TIER.match(tier)
    if match is None or match[1] not in GIB_PER_VCPU:
        raise machine.refuse(f"no price for the Cloud SQL tier {tier}")
    vcpus = Decimal(match[2])
    return vcpus, vcpus * GIB_PER_VCPU[match[1]]


def _find_licence(instance: Reader) -> str:
    """Return the edition of SQL Server whose licence bills; empty for databases without one."""
    version = instance.text(
        "databaseVersion", "its database, of which SQL Server bills a licence,", DATABASES[0]
    )
    if not version.startswith(DATABASES):
        raise instance.refuse("its database is none that we know: SQL Server bills a licence")
    edition = version.rpartition("_")[2].lower() if version.startswith(SQL_SERVER) else ""
    if edition and edition not in SERVER_LICENCES:
        raise instance.refuse(f"no licence price for {version}")
    return "" if edition == "express" else edition
