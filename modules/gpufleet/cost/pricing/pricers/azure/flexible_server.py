"""Azure Database for PostgreSQL, MySQL and MariaDB: flexible servers and the older single servers."""

from __future__ import annotations

import re
from decimal import Decimal

from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.reader import UNKNOWN_COPIES, Parts, Reader
from gpufleet.engine import UnreadableValue

ENGINES = ("mariadb", "mysql", "postgresql")
REPLICATED, NOT_REPLICATED = ("ZoneRedundant", "SameZone"), "Disabled"
FREE_IOPS, FREE_IOPS_PER_GIB = Decimal(300), Decimal(3)  # of MySQL (learn.microsoft.com, "Service tiers")
MIB_PER_GIB = 1024
CLASSIC_TIERS = ("B_", "GP_", "MO_")  # which the classic provider writes before a size
BACKUP_KEY = "additional_backup_storage_gb"
_SIZE = re.compile(r"^standard_([a-z]+)(\d+)([a-z]*)(?:_(v\d+))?$")
_SINGLE_SIZE = re.compile(r"^(b|gp|mo)_(gen\d)_(\d{1,3})$")


@pricer(
    "azure-native:dbformysql:Server",
    "azure-native:dbforpostgresql:Server",
    "azure:mysql/flexibleServer:FlexibleServer",
    "azure:postgresql/flexibleServer:FlexibleServer",
)
def price_flexible_server(server: Reader) -> Parts:
    """Yield a flexible server: compute and storage, twice with high availability, and backups by use."""
    engine = _find_engine(server)
    with server.of("compute") as compute:
        item, quantity = compute_item(engine, _find_size(compute))
        yield compute.part(item, _find_copies(compute), quantity)
    with server.of("storage") as storage:
        yield storage.kept(f"{engine}_flexible:storage", _find_copies(storage), _find_gib(storage))
    with server.of("iops") as iops:
        if engine == "mysql" and iops.has("storage.iops"):
            number = iops.number("storage.iops", "provisioned iops")
            extra = number - FREE_IOPS - FREE_IOPS_PER_GIB * _find_gib(iops)
            yield iops.kept("mysql_flexible:iops", _find_copies(iops), max(extra, Decimal(0)))
    yield server.of("backup").used(f"{engine}_flexible:backup", BACKUP_KEY, stored=True)


@pricer(
    "azure-native:dbformariadb:Server",
    "azure-native:dbformysql:SingleServer",
    "azure:postgresql/server:Server",
)
def price_single_server(server: Reader) -> Parts:
    """Yield a single server: the vCores of its tier, its storage, and backups by use."""
    engine = _find_engine(server)
    with server.of("compute") as compute:
        tier, generation, vcores = _split_single_size(compute)
        yield compute.part(f"{engine}_single:vcore:{tier}_{generation}", size=Decimal(vcores))
    with server.of("storage") as storage:
        basic = ":basic" if _split_single_size(storage)[0] == "b" else ""
        mib = storage.number("properties.storageProfile.storageMB or storageMb", "its size")
        yield storage.kept(f"{engine}_single:storage{basic}", size=mib / MIB_PER_GIB)
    yield server.of("backup").used(f"{engine}_single:backup", BACKUP_KEY, stored=True)


def _find_engine(server: Reader) -> str:
    return next(engine for engine in ENGINES if engine in server.resource.type)


def compute_item(engine: str, size: str) -> tuple[str, Decimal]:
    """Return the item of a size and how many of it bill: vCores of a series; a burstable size is one item."""
    match = _SIZE.match(size.lower())
    if not match or match[1] == "b":
        return f"{engine}_flexible:{size.lower().removeprefix('standard_')}", Decimal(1)
    family, vcores, suffix, version = match.groups()
    return f"{engine}_flexible:vcore:{family}{suffix}{version or ''}", Decimal(vcores)


def _find_size(server: Reader) -> str:
    size = server.text("sku.name or skuName", "its size")
    return size.partition("_")[2] if size.startswith(CLASSIC_TIERS) else size


def _find_copies(server: Reader) -> Range:
    """Return one copy, two with high availability, or their range if that is not known."""
    mode = server.find_choice("highAvailability.mode", (*REPLICATED, NOT_REPLICATED))
    return (
        UNKNOWN_COPIES
        if isinstance(mode, UnreadableValue)
        else Range.from_exact_value(1 + (mode in REPLICATED))
    )


def _find_gib(server: Reader) -> Decimal:
    if server.has("storageMb"):
        return server.number("storageMb", "its size") / MIB_PER_GIB
    return server.number("storage.storageSizeGB or storage.sizeGb", "its size")


def _split_single_size(server: Reader) -> tuple[str, str, str]:
    """Return the tier, the generation and the vCores of a single server."""
    sku = server.text("sku.name or skuName", "its SKU")
    match = _SINGLE_SIZE.match(sku.lower())
    if not match:
        raise server.refuse(f"unknown SKU {sku}")
    return match[1], match[2], match[3]
