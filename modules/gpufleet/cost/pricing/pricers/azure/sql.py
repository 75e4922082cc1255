"""Azure SQL: databases, elastic pools and managed instances, by vCores or by DTUs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    is_input_true,
    number_if_known,
    read_input,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import standalone_part_context
from gpufleet.cost.pricing.pricers.azure.service import sized_component, translated
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

GIB = Decimal(2**30)
# DTUs of each size (learn.microsoft.com, "Resources limits for single databases using the DTU purchasing model").
DTUS = {"S0": 10, "S1": 20, "S2": 50, "S3": 100, "S4": 200, "S6": 400, "S7": 800, "S9": 1600, "S12": 3000}
DTUS |= {"P1": 125, "P2": 250, "P4": 500, "P6": 1000}
DTU_TIERS = {"S": "standard", "P": "premium"}
DEFAULT_STORAGE_GIB = Decimal(32)  # of a database by vCores (the same page, for the vCore model)
LOG_FACTOR = Decimal("1.3")  # space of the log that is billed with the data: 30 % ("vCore purchasing model")
INCLUDED_INSTANCE_GIB = Decimal(32)  # in a managed instance's price
LICENSED = ("gp", "bc")  # tiers whose price has the licence apart
_VCORE_SKU = re.compile(r"^(gp|bc|hs)(_s)?_([a-z][a-z0-9]*?)(?:_(\d{1,3}))?$")


@dataclass(frozen=True)
class SqlDatabaseInputs:
    """The inputs of a database or of an elastic pool. ``replicas`` are high-availability ones of Hyperscale."""

    sku: Text
    capacity: Number
    is_in_pool: bool
    size_gib: Number
    brings_licence: bool
    is_zone_redundant: bool
    replicas: Number
    is_free: bool


@dataclass(frozen=True)
class SqlInstanceInputs:
    """The inputs of a managed instance."""

    sku: Text
    vcores: Number
    storage_gib: Number
    brings_licence: bool


@dataclass(frozen=True)
class VcoreSku:
    """A SKU of the vCore model, such as GP_S_Gen5_2; ``vcores`` is None without a number at its end."""

    tier: str
    is_serverless: bool
    hardware: str
    vcores: Decimal | None


def parse_sql_database_inputs(inputs: Any) -> SqlDatabaseInputs:
    """Parse a database or an elastic pool."""
    size = read_input_number(inputs, "maxSizeGb")
    size_bytes = _read_large_number(inputs, "maxSizeBytes")
    return SqlDatabaseInputs(
        sku=read_input_text(inputs, "sku", "name"),
        capacity=read_input_number(inputs, "sku", "capacity"),
        is_in_pool=read_input(inputs, "elasticPoolId") is not None,
        size_gib=size_bytes / GIB if isinstance(size_bytes, Decimal) else size_bytes or size,
        brings_licence=read_input_text(inputs, "licenseType") == "BasePrice",
        is_zone_redundant=is_input_true(inputs, "zoneRedundant"),
        replicas=read_input_number(inputs, "highAvailabilityReplicaCount"),
        is_free=is_input_true(inputs, "useFreeLimit"),
    )


def parse_sql_instance_inputs(inputs: Any) -> SqlInstanceInputs:
    """Parse a managed instance."""
    return SqlInstanceInputs(
        sku=read_input_text(inputs, "sku", "name"),
        vcores=read_input_number(inputs, "vCores"),
        storage_gib=read_input_number(inputs, "storageSizeInGB"),
        brings_licence=read_input_text(inputs, "licenseType") == "BasePrice",
    )


def parse_vcore_sku(sku: str) -> VcoreSku | None:
    """Parse a SKU of the vCore model; None for one of the DTU model."""
    match = _VCORE_SKU.match(sku.lower())
    if not match:
        return None
    tier, serverless, hardware, vcores = match.groups()
    return VcoreSku(tier, bool(serverless), hardware, Decimal(vcores) if vcores else None)


def price_sql_database(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a database: its vCores or DTUs, its licence and storage. One in a pool is billed with the pool."""
    database = parse_sql_database_inputs(resource.inputs)
    if database.is_in_pool or database.is_free:
        return []
    sku = text_or_unpriced(database.sku, "its SKU", "compute")
    if isinstance(sku, UnpricedComponent):
        return [sku]
    context = standalone_part_context(resource, graph)
    usage = graph.usage_of_resource(resource)
    backups: Components = [
        context.make_usage_component(
            "backup", "sql_database:backup", "backup_storage_gb", usage, is_stored=True
        ),
        context.make_usage_component(
            "retention",
            "sql_database:retention",
            "long_term_retention_storage_gb",
            usage,
            is_stored=True,
        ),
    ]
    vcore_sku = parse_vcore_sku(sku)
    if vcore_sku is None:
        return [*_dtu_components(sku, context), *backups]
    if vcore_sku.is_serverless:
        item = f"sql_database:serverless_vcore_hour:{vcore_sku.hardware}"
        compute: Components = [context.make_usage_component("compute", item, "monthly_vcore_hours", usage)]
    else:
        compute = _vcore_components(vcore_sku, database, context)
    return [*compute, _storage_component(vcore_sku, database, context), *backups]


def price_sql_pool(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an elastic pool: the vCores or DTUs that its databases share, and its storage."""
    pool = parse_sql_database_inputs(resource.inputs)
    sku = text_or_unpriced(pool.sku, "its SKU", "compute")
    if isinstance(sku, UnpricedComponent):
        return [sku]
    context = standalone_part_context(resource, graph)
    if vcore_sku := parse_vcore_sku(sku):
        return [*_vcore_components(vcore_sku, pool, context), _storage_component(vcore_sku, pool, context)]
    item = f"sql_pool:dtu:{sku.lower().removesuffix('pool')}"
    return [sized_component("compute", item, pool.capacity, context, "number of DTUs")]


def price_sql_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a managed instance: its vCores, its licence, and the storage beyond what its price includes."""
    instance = parse_sql_instance_inputs(resource.inputs)
    sku = text_or_unpriced(instance.sku, "its SKU", "compute")
    if isinstance(sku, UnpricedComponent):
        return [sku]
    context = standalone_part_context(resource, graph)
    vcore_sku = parse_vcore_sku(sku)
    name = sku.lower() if vcore_sku is None else f"{vcore_sku.tier}_{vcore_sku.hardware}"
    compute = sized_component(
        "compute", f"sql_instance:vcore:{name}", instance.vcores, context, "number of vCores"
    )
    components: Components = [compute]
    if isinstance(instance.vcores, Decimal) and not instance.brings_licence and vcore_sku:
        item = f"sql_database:licence:{vcore_sku.tier}"
        components.append(context.make_part_component("licence", item, instance.vcores))
    storage = instance.storage_gib
    if isinstance(storage, Decimal) and storage > INCLUDED_INSTANCE_GIB:
        size = storage - INCLUDED_INSTANCE_GIB
        components.append(context.make_part_component("storage", "sql_instance:storage", size))
    elif isinstance(storage, UnreadableValue):
        components.append(sized_component("storage", "sql_instance:storage", storage, context))
    usage = graph.usage_of_resource(resource)
    item, key = "sql_instance:backup", "backup_storage_gb"
    return [*components, context.make_usage_component("backup", item, key, usage, is_stored=True)]


def _dtu_components(sku: str, context: MachinePartContext) -> Components:
    name = sku.upper()
    if name not in DTUS:  # Basic, and P11 and P15, have prices of their own
        return [context.make_part_component("compute", f"sql_database:{sku.lower()}")]
    item = f"sql_database:dtu:{DTU_TIERS[name[0]]}"
    return [context.make_part_component("compute", item, Decimal(DTUS[name]))]


def _vcore_components(sku: VcoreSku, database: SqlDatabaseInputs, context: MachinePartContext) -> Components:
    vcores = database.capacity if sku.vcores is None else sku.vcores
    if not isinstance(vcores, Decimal):
        return [sized_component("compute", "", vcores, context, "number of vCores")]
    item = f"sql_database:vcore:{sku.tier}_{sku.hardware}"
    replicas = number_if_known(database.replicas) or Decimal(0)
    components: Components = [context.make_part_component("compute", item, vcores)]
    if sku.tier == "hs" and replicas:
        components.append(context.make_part_component("replicas", item, vcores * replicas))
    if database.is_zone_redundant and sku.tier == "gp":
        name = f"sql_database:zone_redundancy:{sku.tier}_{sku.hardware}"
        components.append(context.make_part_component("zone_redundancy", name, vcores))
    if sku.tier in LICENSED and not database.brings_licence:
        components.append(context.make_part_component("licence", f"sql_database:licence:{sku.tier}", vcores))
    return components


def _storage_component(sku: VcoreSku, database: SqlDatabaseInputs, context: MachinePartContext) -> Any:
    """Return the storage: the maximum size with its log; of Hyperscale what is used, which is not declared."""
    if sku.tier == "hs":
        return UnpricedComponent("Hyperscale bills the storage that its data uses", "storage")
    size = DEFAULT_STORAGE_GIB if database.size_gib is None else database.size_gib
    item = f"sql_database:storage:{sku.tier}" + ("_zone_redundant" if database.is_zone_redundant else "")
    return sized_component("storage", item, size * LOG_FACTOR if isinstance(size, Decimal) else size, context)


def _read_large_number(inputs: Any, key: str) -> Number:
    """Return a number of bytes, which may be above the limit of other numbers."""
    value = read_input(inputs, key)
    if value is None or isinstance(value, UnreadableValue):
        return value
    text = str(value).removesuffix(".0")
    return Decimal(text) if text.isdigit() and len(text) < 17 else UnreadableValue.UNKNOWN  # noqa: PLR2004 - 16 PB


_CLASSIC_DATABASE = translated(price_sql_database, {"skuName": "sku.name"})

PRICERS: dict[str, Pricer] = {
    "azure-native:sql:Database": price_sql_database,
    "azure-native:sql:ElasticPool": price_sql_pool,
    "azure-native:sql:ManagedInstance": price_sql_instance,
    "azure:mssql/database:Database": _CLASSIC_DATABASE,
    "azure:mssql/elasticPool:ElasticPool": price_sql_pool,
    "azure:mssql/managedInstance:ManagedInstance": translated(
        price_sql_instance,
        {"skuName": "sku.name", "vcores": "vCores", "storageSizeInGb": "storageSizeInGB"},
    ),
}
