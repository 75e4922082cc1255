"""RDS databases: instances with their storage, and the licence that their price includes."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.inputs.values import Text
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import CostComponent
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.aws.rds_support import COMPONENT, DISABLED, make_extended_support
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

INSTANCE = "aws:rds/instance:Instance"
PRICED_ENGINES = {"postgres": "postgresql", "aurora": "aurora-mysql", "oracle-ee": "oracle-ee-byol"}
OWN_LICENCE = "bring-your-own-license"
FREE_INSIGHTS_DAYS = 7  # of Performance Insights
# Of a gp3 volume, and of one that RDS stripes, which is larger. Throughput is MiB/s.
GP3_INCLUDED = {"iops": (Decimal(3000), Decimal(12000)), "throughput": (Decimal(125), Decimal(500))}
TYPES_WITH_IOPS = ("io1", "io2", "gp3")
SIZE = ("allocatedStorage", "allocated storage")
INHERITED = (
    "engine",
    "engineVersion",
    "licenseModel",
    "allocatedStorage",
    "storageType",
    "iops",
    "storageThroughput",
)  # by a replica from its source; it has a standby of its own only if it asks for one


@pricer("aws:rds/instance:Instance")
def price_rds_instance(database: Reader) -> Parts:
    """Yield a database instance, its standby, its storage and its backups."""
    source = database.find_resource("replicateSourceDb", INSTANCE)
    inherited = {key: source.inputs[key] for key in INHERITED if key in source.inputs} if source else {}
    database = replace(database, inputs={**inherited, **database.inputs})
    with database.of("instance") as instance:
        kind = instance.text("instanceClass", "instance class")
        engine = rds_engine_name(instance.text("engine", "engine"), instance.find_text("licenseModel"))
        yield instance.instances(f"rds:{engine}:{kind}", instance.copies("multiAz"))
    with database.of(COMPONENT) as support:
        if support.find_text("engineLifecycleSupport") != DISABLED:
            engine, version = support.text("engine", "engine"), support.find_text("engineVersion")
            copies = support.copies("multiAz")
            yield make_extended_support(support, engine, version, "instanceClass", copies)
    yield from list_insights(database)
    if not str(database.find_text("engine")).startswith("aurora"):  # its cluster has the storage
        yield from _list_storage(database)
    with database.of("log_volume") as log:
        if log.flag("dedicatedLogVolume", "whether it has a log volume"):
            raise log.refuse("a dedicated log volume is not in the price list")
    yield database.of("backup").used("rds:backup", "additional_backup_storage_gb", stored=True, listed=False)


def rds_engine_name(engine: str, license_model: Text) -> str:
    """Return an engine as price lists name it, with its licence where that changes the price."""
    name = engine.removesuffix("-cdb")
    if name == "oracle-se2":
        return f"{name}-byol" if license_model == OWN_LICENCE else f"{name}-li"
    return PRICED_ENGINES.get(name, name)


def list_insights(database: Reader) -> Parts:
    """Yield the monitoring that bills each vCPU (RDS User Guide, "Pricing and data retention" of insights)."""
    with database.of("insights") as insights:
        if insights.find_text("databaseInsightsMode") == "advanced":
            reason = "Database Insights in advanced mode bills each vCPU, and is not in the price list"
            raise insights.refuse(reason)
        if insights.number("performanceInsightsRetentionPeriod", "its retention", 0) > FREE_INSIGHTS_DAYS:
            reason = f"Performance Insights kept for more than {FREE_INSIGHTS_DAYS} days bills each vCPU"
            raise insights.refuse(f"{reason}, and is not in the price list")
    yield from ()


def _list_storage(database: Reader) -> Parts:
    with database.of("storage") as storage:
        size = storage.number(*SIZE)
        largest = storage.find_number("maxAllocatedStorage")
        sizes = Range.spanning(size, size, largest if isinstance(largest, Decimal) else size)
        yield storage.kept(f"rds:storage:{_find_type(storage)}", sizes * storage.copies("multiAz"))
    for unit, path in (("iops", "iops"), ("throughput", "storageThroughput")):
        with database.of(f"storage:{unit}") as speed:
            if amount := speed.number(path, f"provisioned {unit}", 0):
                yield _make_speed(speed, unit, amount)


def _make_speed(speed: Reader, unit: str, amount: Decimal) -> CostComponent | None:
    """Return the speed that is bought in addition to what a volume includes."""
    kind = _find_type(speed)
    if kind not in TYPES_WITH_IOPS:
        return None
    included = Decimal(0)
    if kind == "gp3":
        is_striped = _is_striped(speed.find_text("engine"), speed.number(*SIZE))
        included = GP3_INCLUDED[unit][is_striped]
    billed = max(amount - included, Decimal(0))
    return speed.kept(f"rds:storage:{kind}:{unit}", speed.copies("multiAz") * billed)


def _find_type(database: Reader) -> str:
    return database.text("storageType", "storage type", "io1" if database.has("iops") else "gp2")


def _is_striped(engine: Text, size_gib: Decimal) -> bool:
    """Return whether RDS stripes a gp3 volume (RDS User Guide, "gp3 storage")."""
    if not isinstance(engine, str) or engine.startswith("sqlserver"):
        return False
    return size_gib >= (200 if engine.startswith("oracle") else 400)
