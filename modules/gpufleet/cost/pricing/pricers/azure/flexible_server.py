"""Azure Database for PostgreSQL, MySQL and MariaDB: flexible servers and the older single servers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    read_input,
    read_input_choice,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import standalone_part_context
from gpufleet.cost.pricing.pricers.azure.service import sized_component, with_inputs
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

REPLICATED, NOT_REPLICATED = ("ZoneRedundant", "SameZone"), "Disabled"
FREE_IOPS, FREE_IOPS_PER_GIB = Decimal(300), Decimal(3)  # of MySQL (learn.microsoft.com, "Service tiers")
MIB_PER_GIB = 1024
_SIZE = re.compile(r"^standard_([a-z]+)(\d+)([a-z]*)(?:_(v\d+))?$")
_SINGLE_SIZE = re.compile(r"^(b|gp|mo)_(gen\d)_(\d{1,3})$")


@dataclass(frozen=True)
class FlexibleServerInputs:
    """The inputs of a flexible server. ``is_replicated``: a standby takes as much compute and storage."""

    size: Text
    storage_gib: Number
    iops: Number
    copies: Range


@dataclass(frozen=True)
class SingleServerInputs:
    """The inputs of a single server."""

    sku: Text
    storage_gib: Number


def parse_flexible_server_inputs(inputs: Any) -> FlexibleServerInputs:
    """Parse a flexible server."""
    return FlexibleServerInputs(
        size=read_input_text(inputs, "sku", "name"),
        storage_gib=read_input_number(inputs, "storage", "storageSizeGB"),
        iops=read_input_number(inputs, "storage", "iops"),
        copies=_parse_copies(inputs),
    )


def _parse_copies(inputs: Any) -> Range:
    """Return one copy, two with high availability, or their range if that is not known."""
    mode = read_input_choice(inputs, (*REPLICATED, NOT_REPLICATED), "highAvailability", "mode")
    if isinstance(mode, UnreadableValue):
        return Range(Decimal(1), Decimal(2), Decimal(2))
    return Range.from_exact_value(2 if mode in REPLICATED else 1)


def parse_single_server_inputs(inputs: Any) -> SingleServerInputs:
    """Parse a single server, whose storage is in MiB."""
    storage = read_input_number(inputs, "storageMb")
    return SingleServerInputs(
        read_input_text(inputs, "skuName"),
        storage / MIB_PER_GIB if isinstance(storage, Decimal) else storage,
    )


def compute_item(engine: str, size: str) -> tuple[str, Decimal]:
    """Return the item of a size and how many of it bill: vCores of a series; a burstable size is one item."""
    match = _SIZE.match(size.lower())
    if not match or match[1] == "b":
        return f"{engine}_flexible:{size.lower().removeprefix('standard_')}", Decimal(1)
    family, vcores, suffix, version = match.groups()
    return f"{engine}_flexible:vcore:{family}{suffix}{version or ''}", Decimal(vcores)


def price_flexible_server(engine: str, resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a flexible server: compute and storage, twice with high availability, and backups by use."""
    server = parse_flexible_server_inputs(resource.inputs)
    size = text_or_unpriced(server.size, "its size", "compute")
    if isinstance(size, UnpricedComponent):
        return [size]
    context = replace(standalone_part_context(resource, graph), count=server.copies)
    item, quantity = compute_item(engine, size)
    components: Components = [
        context.make_part_component("compute", item, quantity),
        sized_component("storage", f"{engine}_flexible:storage", server.storage_gib, context),
    ]
    if isinstance(server.iops, Decimal) and isinstance(server.storage_gib, Decimal) and engine == "mysql":
        extra = server.iops - FREE_IOPS - FREE_IOPS_PER_GIB * server.storage_gib
        if extra > 0:
            components.append(context.make_part_component("iops", "mysql_flexible:iops", extra))
    if isinstance(server.iops, UnreadableValue) and engine == "mysql":
        components.append(UnpricedComponent(f"provisioned iops is {MARKER_REASONS[server.iops]}", "iops"))
    usage = graph.usage_of_resource(resource)
    item, key = f"{engine}_flexible:backup", "additional_backup_storage_gb"
    return [*components, context.make_usage_component("backup", item, key, usage, is_stored=True)]


def price_single_server(engine: str, resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a single server: the vCores of its tier and its storage."""
    server = parse_single_server_inputs(resource.inputs)
    sku = text_or_unpriced(server.sku, "its SKU", "compute")
    if isinstance(sku, UnpricedComponent):
        return [sku]
    context = standalone_part_context(resource, graph)
    match = _SINGLE_SIZE.match(sku.lower())
    if not match:
        return [UnpricedComponent(f"unknown SKU {sku}", "compute")]
    tier, generation, vcores = match.groups()
    storage = f"{engine}_single:storage" + (":basic" if tier == "b" else "")
    usage = graph.usage_of_resource(resource)
    return [
        context.make_part_component("compute", f"{engine}_single:vcore:{tier}_{generation}", Decimal(vcores)),
        sized_component("storage", storage, server.storage_gib, context),
        context.make_usage_component(
            "backup", f"{engine}_single:backup", "additional_backup_storage_gb", usage, is_stored=True
        ),
    ]


def _flexible_from_classic(inputs: Any) -> Any:
    """Return the inputs of azure-native: the classic SKU has the tier before the size."""
    sku, storage_mib = read_input_text(inputs, "skuName"), read_input_number(inputs, "storageMb")
    size = sku.partition("_")[2] if isinstance(sku, str) and sku.startswith(("B_", "GP_", "MO_")) else sku
    gib = storage_mib / MIB_PER_GIB if isinstance(storage_mib, Decimal) else storage_mib
    storage = {
        "storageSizeGB": read_input(inputs, "storage", "sizeGb") if gib is None else gib,
        "iops": read_input(inputs, "storage", "iops"),
    }
    return {**inputs, "sku": {"name": size}, "storage": storage}


def _single_from_native(inputs: Any) -> Any:
    return {
        **inputs,
        "skuName": read_input(inputs, "sku", "name"),
        "storageMb": read_input(inputs, "properties", "storageProfile", "storageMB"),
    }


def _by_engine(pricer: Any, engine: str) -> Pricer:
    priced: Pricer = partial(pricer, engine)
    return priced


_POSTGRESQL = _by_engine(price_flexible_server, "postgresql")
_MYSQL = _by_engine(price_flexible_server, "mysql")

PRICERS: dict[str, Pricer] = {
    "azure-native:dbformariadb:Server": with_inputs(
        _by_engine(price_single_server, "mariadb"), _single_from_native
    ),
    "azure-native:dbformysql:Server": _MYSQL,
    "azure-native:dbformysql:SingleServer": with_inputs(
        _by_engine(price_single_server, "mysql"), _single_from_native
    ),
    "azure-native:dbforpostgresql:Server": _POSTGRESQL,
    "azure:mysql/flexibleServer:FlexibleServer": with_inputs(_MYSQL, _flexible_from_classic),
    "azure:postgresql/flexibleServer:FlexibleServer": with_inputs(_POSTGRESQL, _flexible_from_classic),
    "azure:postgresql/server:Server": _by_engine(price_single_server, "postgresql"),
}
