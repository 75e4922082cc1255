"""Cloud SQL: instances by tier, their standby, disk, licence and backups.

Tiers and editions: cloud.google.com/sql/docs/mysql/instance-settings and /sql/docs/editions-intro, read 2026-11-23.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    is_input_true,
    read_input_choice,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import HOURS_PER_MONTH, Range
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.service import exact_count, service_context
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, text_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

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


@dataclass(frozen=True)
class SqlInstanceInputs:
    """The inputs of a Cloud SQL instance."""

    tier: Text
    edition: Text
    availability: Text
    disk_size_gib: Number
    disk_type: Text
    database_version: Text
    node_count: Number
    is_stopped: bool
    has_backups: bool


def parse_sql_instance_inputs(inputs: Any) -> SqlInstanceInputs:
    """Parse a Cloud SQL instance."""
    return SqlInstanceInputs(
        tier=read_input_text(inputs, "settings", "tier"),
        edition=read_input_text(inputs, "settings", "edition"),
        availability=read_input_choice(inputs, ("REGIONAL", "ZONAL"), "settings", "availabilityType"),
        disk_size_gib=read_input_number(inputs, "settings", "diskSize"),
        disk_type=read_input_text(inputs, "settings", "diskType"),
        database_version=read_input_text(inputs, "databaseVersion"),
        node_count=read_input_number(inputs, "nodeCount"),
        is_stopped=read_input_text(inputs, "settings", "activationPolicy") == "NEVER",
        has_backups=is_input_true(inputs, "settings", "backupConfiguration", "enabled"),
    )


def price_sql_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an instance with its standby: REGIONAL availability runs and stores everything twice."""
    instance = parse_sql_instance_inputs(resource.inputs)
    count = _copy_count(instance)
    if isinstance(count, UnpricedComponent):
        return [count]
    context = service_context(resource, graph, count=count)
    usage = graph.usage_of_resource(resource)
    components = [] if instance.is_stopped else _machine_components(instance, context)
    components.append(_disk_component(instance, context.with_billed_hours(HOURS_PER_MONTH)))
    if instance.has_backups:
        components.append(
            context.make_usage_component(
                "backups", "cloud_sql:backup", "backup_storage_gb", usage, is_stored=True
            )
        )
    return components


def _copy_count(instance: SqlInstanceInputs) -> Range | UnpricedComponent:
    """Return how many copies run: the nodes of a read pool, twice with a standby; a range if that is hidden."""
    nodes = number_or_unpriced(instance.node_count, "its number of nodes", "machine", Decimal(1))
    if isinstance(nodes, UnpricedComponent):
        return nodes
    if instance.availability is None or isinstance(instance.availability, str):
        return exact_count(nodes * (2 if instance.availability == "REGIONAL" else 1))
    return Range(nodes, nodes * 2, nodes * 2)


def _machine_components(instance: SqlInstanceInputs, context: MachinePartContext) -> Components:
    tier = text_or_unpriced(instance.tier, "its tier")
    if isinstance(tier, UnpricedComponent):
        return [tier]
    if tier in SHARED_CORE_TIERS:
        return [context.make_part_component("machine", f"cloud_sql:{tier}")]
    size = _parse_tier_size(tier)
    if size is None:
        return [UnpricedComponent(f"no price for the Cloud SQL tier {tier}", "machine")]
    vcpus, memory_gib = size
    is_plus = instance.edition == "ENTERPRISE_PLUS" or tier.startswith("db-perf-optimized-")
    family = "cloud_sql:enterprise_plus" if is_plus else "cloud_sql"
    return [
        context.make_part_component("vcpus", f"{family}:vcpu", vcpus),
        context.make_part_component("memory", f"{family}:memory", memory_gib),
        *_licence_components(instance, vcpus, context),
    ]


def _parse_tier_size(tier: str) -> tuple[Decimal, Decimal] | None:
    """Return the vCPUs and the GiB of memory that a tier's name says; None for a name of another form."""
    if match := _CUSTOM_TIER.match(tier):
        return Decimal(match[1]), Decimal(match[2]) / MIB_PER_GIB
    match = _PREDEFINED_TIER.match(tier)
    if match is None or match[1] not in GIB_PER_VCPU:
        return None
    vcpus = Decimal(match[2])
    return vcpus, vcpus * GIB_PER_VCPU[match[1]]


def _licence_components(
    instance: SqlInstanceInputs, vcpus: Decimal, context: MachinePartContext
) -> Components:
    """Return SQL Server's licence, billed for at least four vCPUs; other databases have none."""
    version = instance.database_version
    if isinstance(version, UnreadableValue) or not (version or DATABASES[0]).startswith(DATABASES):
        reason = MARKER_REASONS[version] if isinstance(version, UnreadableValue) else "none that we know"
        return [UnpricedComponent(f"its database is {reason}: SQL Server bills a licence", "licence")]
    if version is None or not version.startswith(SQL_SERVER):
        return []
    edition = version.rpartition("_")[2].lower()
    if edition not in SERVER_LICENCES:
        return [UnpricedComponent(f"no licence price for {version}", "licence")]
    if edition == "express":
        return []
    return [
        context.make_part_component("licence", f"cloud_sql:sqlserver_{edition}:vcpu", max(vcpus, Decimal(4)))
    ]


def _disk_component(
    instance: SqlInstanceInputs, context: MachinePartContext
) -> CostComponent | UnpricedComponent:
    size_gib = number_or_unpriced(instance.disk_size_gib, "disk size", "disk", DEFAULT_DISK_GIB)
    if isinstance(size_gib, UnpricedComponent):
        return size_gib
    if instance.disk_type is not None and not isinstance(instance.disk_type, str):
        return UnpricedComponent("disk type is not known until deployment", "disk")
    item = DISK_ITEMS.get(instance.disk_type or "PD_SSD", f"cloud_sql:{(instance.disk_type or '').lower()}")
    return context.make_part_component("disk", item, size_gib)
