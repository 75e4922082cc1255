"""Azure SQL: databases, elastic pools and managed instances, by vCores or by DTUs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

# DTUs of each size (learn.microsoft.com, "Resources limits for single databases using the DTU purchasing model").
DTUS = {"S0": 10, "S1": 20, "S2": 50, "S3": 100, "S4": 200, "S6": 400, "S7": 800, "S9": 1600, "S12": 3000}
DTUS |= {"P1": 125, "P2": 250, "P4": 500, "P6": 1000}
DTU_TIERS = {"S": "standard", "P": "premium"}
DEFAULT_STORAGE_GIB = Decimal(32)  # of a database by vCores (the same page, for the vCore model)
LOG_FACTOR = Decimal("1.3")  # space of the log that is billed with the data: 30 % ("vCore purchasing model")
INCLUDED_INSTANCE_GIB = Decimal(32)  # in a managed instance's price
LICENSED = ("gp", "bc")  # tiers whose price has the licence apart
_VCORE_SKU = re.compile(r"^(gp|bc|hs)(_s)?_([a-z][a-z0-9]*?)(?:_(\d{1,3}))?$")


LICENCES = ("BasePrice", "LicenseIncluded")
SKU = ("sku.name or skuName", "its SKU")


@dataclass(frozen=True)
class VcoreSku:
    """A SKU of the vCore model, such as GP_S_Gen5_2; ``vcores`` is None without a number at its end."""

    tier: str
    is_serverless: bool
    hardware: str
    vcores: Decimal | None


def parse_vcore_sku(sku: str) -> VcoreSku | None:
    """Parse a SKU of the vCore model; None for one of the DTU model."""
    match = _VCORE_SKU.match(sku.lower())
    if not match:
        return None
    tier, serverless, hardware, vcores = match.groups()
    return VcoreSku(tier, bool(serverless), hardware, Decimal(vcores) if vcores else None)


@pricer("azure-native:sql:Database", "azure:mssql/database:Database")
def price_sql_database(database: Reader) -> Parts:
    """Yield a database: its vCores or DTUs, its licence and storage. One in a pool is billed with the pool."""
    if database.has("elasticPoolId") or database.find_flag("useFreeLimit") is True:
        return
    with database.of("compute") as compute:
        name = compute.text(*SKU)
        sku = parse_vcore_sku(name)
        if sku is None and name.upper() in DTUS:
            size = name.upper()
            yield compute.part(f"sql_database:dtu:{DTU_TIERS[size[0]]}", size=Decimal(DTUS[size]))
        elif sku is None:  # Basic, and P11 and P15, have prices of their own
            yield compute.part(f"sql_database:{name.lower()}")
        elif sku.is_serverless:
            yield compute.used(f"sql_database:serverless_vcore_hour:{sku.hardware}", "monthly_vcore_hours")
    yield from _list_vcores(database)
    yield from _list_storage(database)
    yield database.of("backup").used("sql_database:backup", "backup_storage_gb", stored=True)
    key = "long_term_retention_storage_gb"
    yield database.of("retention").used("sql_database:retention", key, stored=True)


@pricer("azure-native:sql:ElasticPool", "azure:mssql/elasticPool:ElasticPool")
def price_sql_pool(pool: Reader) -> Parts:
    """Yield an elastic pool: the vCores or DTUs that its databases share, and its storage."""
    with pool.of("compute") as compute:
        name = compute.text(*SKU)
        if parse_vcore_sku(name) is None:
            number = compute.number("sku.capacity", "its number of DTUs")
            yield compute.part(f"sql_pool:dtu:{name.lower().removesuffix('pool')}", size=number)
    yield from _list_vcores(pool)
    yield from _list_storage(pool)


@pricer("azure-native:sql:ManagedInstance", "azure:mssql/managedInstance:ManagedInstance")
def price_sql_instance(instance: Reader) -> Parts:
    """Yield a managed instance: its vCores, its licence, and the storage beyond what its price includes."""
    vcores = ("vCores or vcores", "its number of vCores")
    with instance.of("compute") as compute:
        name = compute.text(*SKU)
        sku = parse_vcore_sku(name)
        model = f"{sku.tier}_{sku.hardware}" if sku else name.lower()
        yield compute.part(f"sql_instance:vcore:{model}", size=compute.number(*vcores))
    with instance.of("licence") as licence:
        sku = parse_vcore_sku(licence.text(*SKU))
        if sku and _pays_licence(licence):
            yield licence.part(f"sql_database:licence:{sku.tier}", size=licence.number(*vcores))
    with instance.of("storage") as storage:
        gib = storage.number("storageSizeInGB or storageSizeInGb", "its size", 0)
        yield storage.kept("sql_instance:storage", size=max(gib - INCLUDED_INSTANCE_GIB, Decimal(0)))
    yield instance.of("backup").used("sql_instance:backup", "backup_storage_gb", stored=True)


def _list_vcores(database: Reader) -> Parts:
    """Yield the vCores that a SKU of that model always has, and what bills with each of them."""
    with database.of("compute") as compute:
        if sku := _find_provisioned(compute):
            yield compute.part(
                f"sql_database:vcore:{sku.tier}_{sku.hardware}", size=_find_vcores(compute, sku)
            )
    with database.of("replicas") as replicas:
        number = replicas.number("highAvailabilityReplicaCount", "the number of its replicas", 0)
        if number and (sku := _find_provisioned(replicas)) and sku.tier == "hs":
            size = _find_vcores(replicas, sku) * number
            yield replicas.part(f"sql_database:vcore:{sku.tier}_{sku.hardware}", size=size)
    with database.of("zone_redundancy") as zones:
        if zones.flag("zoneRedundant") and (sku := _find_provisioned(zones)) and sku.tier == "gp":
            item = f"sql_database:zone_redundancy:{sku.tier}_{sku.hardware}"
            yield zones.part(item, size=_find_vcores(zones, sku))
    with database.of("licence") as licence:
        sku = _find_provisioned(licence)
        if sku and sku.tier in LICENSED and _pays_licence(licence):
            yield licence.part(f"sql_database:licence:{sku.tier}", size=_find_vcores(licence, sku))


def _list_storage(database: Reader) -> Parts:
    """Yield the storage: the maximum size with its log; of Hyperscale what is used, which is not declared."""
    with database.of("storage") as storage:
        sku = parse_vcore_sku(storage.text(*SKU))
        if sku and sku.tier == "hs":
            raise storage.refuse_use("Hyperscale bills the storage that its data uses")
        if sku:
            suffix = "_zone_redundant" if storage.flag("zoneRedundant") else ""
            if storage.has("maxSizeBytes"):
                gib = storage.bytes("maxSizeBytes", "its size") / 2**30
            else:
                gib = storage.number("maxSizeGb", "its size", DEFAULT_STORAGE_GIB)
            yield storage.kept(f"sql_database:storage:{sku.tier}{suffix}", size=gib * LOG_FACTOR)


def _find_provisioned(database: Reader) -> VcoreSku | None:
    """Return a SKU whose vCores bill all the time; a serverless one bills those that it uses."""
    sku = parse_vcore_sku(database.text(*SKU))
    return None if sku is None or sku.is_serverless else sku


def _find_vcores(database: Reader, sku: VcoreSku) -> Decimal:
    return database.number("sku.capacity", "its number of vCores") if sku.vcores is None else sku.vcores


def _pays_licence(database: Reader) -> bool:
    return database.choice("licenseType", LICENCES, "LicenseIncluded", "its licence") == "LicenseIncluded"
