"""RDS databases: instances with their storage, and the licence that their price includes."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    is_input_true,
    number_if_known,
    parse_input_flag,
    read_input,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import ONE, Range
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.rds_support import DISABLED as EXTENDED_SUPPORT_DISABLED
from gpufleet.cost.pricing.pricers.aws.rds_support import price_extended_support
from gpufleet.cost.pricing.pricers.aws.service import (
    make_counted_component,
    make_instance_component,
    make_service_context,
)
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, text_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

INSTANCE = "aws:rds/instance:Instance"
PRICED_ENGINES = {"postgres": "postgresql", "aurora": "aurora-mysql", "oracle-ee": "oracle-ee-byol"}
OWN_LICENCE = "bring-your-own-license"
OPEN_SOURCE_ENGINES = ("mysql", "postgres", "mariadb")
FREE_INSIGHTS_DAYS = 7  # of Performance Insights
GP3_INCLUDED_IOPS = Decimal(3000)
GP3_STRIPED_IOPS = Decimal(12000)  # of volumes that RDS stripes, which are larger
GP3_INCLUDED_THROUGHPUT = Decimal(125)  # MiB/s
GP3_STRIPED_THROUGHPUT = Decimal(500)
TYPES_WITH_IOPS = ("io1", "io2", "gp3")


@dataclass(frozen=True)
class RdsInstanceInputs:
    """The inputs of a database instance. A replica or a restored one may leave out what its source has."""

    instance_class: Text
    engine: Text
    engine_version: Text
    has_extended_support: bool
    license_model: Text
    copies: Range  # a standby in another zone doubles instance and storage
    storage_gib: Number
    max_storage_gib: Number
    storage_type: Text
    iops: Number
    throughput: Number
    has_log_volume: bool


def parse_rds_instance_inputs(inputs: Any) -> RdsInstanceInputs:
    """Parse a database instance."""
    return RdsInstanceInputs(
        instance_class=read_input_text(inputs, "instanceClass"),
        engine=read_input_text(inputs, "engine"),
        engine_version=read_input_text(inputs, "engineVersion"),
        has_extended_support=read_input(inputs, "engineLifecycleSupport") != EXTENDED_SUPPORT_DISABLED,
        license_model=read_input_text(inputs, "licenseModel"),
        copies=parse_copies(read_input(inputs, "multiAz")),
        storage_gib=read_input_number(inputs, "allocatedStorage"),
        max_storage_gib=read_input_number(inputs, "maxAllocatedStorage"),
        storage_type=read_input_text(inputs, "storageType"),
        iops=read_input_number(inputs, "iops"),
        throughput=read_input_number(inputs, "storageThroughput"),
        has_log_volume=is_input_true(inputs, "dedicatedLogVolume"),
    )


def parse_copies(multi_az: Any) -> Range:
    """Return one copy, two in several zones, or their range with the upper bound expected if it is not known."""
    flag = parse_input_flag(multi_az)
    if isinstance(flag, UnreadableValue):
        return Range(Decimal(1), Decimal(2), Decimal(2))
    return Range.from_exact_value(2) if flag else ONE


def rds_engine_name(engine: str, license_model: Text) -> str:
    """Return an engine as price lists name it, with its licence where that changes the price."""
    name = engine.removesuffix("-cdb")
    if name == "oracle-se2":
        return f"{name}-byol" if license_model == OWN_LICENCE else f"{name}-li"
    return PRICED_ENGINES.get(name, name)


def price_rds_instance(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a database instance, its standby, its storage and its backups."""
    source = graph.find_referenced_resource(resource, ("replicateSourceDb",), INSTANCE)
    database = parse_rds_instance_inputs({**_inherited_inputs(source), **resource.inputs})
    context = make_service_context(resource, graph)
    components: Components = []
    instance_class = text_or_unpriced(database.instance_class, "instance class", "instance")
    engine = text_or_unpriced(database.engine, "engine", "instance")
    if isinstance(instance_class, UnpricedComponent):
        components.append(instance_class)
    elif isinstance(engine, UnpricedComponent):
        components.append(engine)
    else:
        item = f"rds:{rds_engine_name(engine, database.license_model)}:{instance_class}"
        components.append(make_instance_component(resource, graph, item, database.copies))
        if database.has_extended_support:
            components += price_extended_support(
                engine,
                database.engine_version,
                instance_class,
                database.copies,
                context,
                on_date=graph.on_date,
            )
    components += insights_components(resource.inputs)
    components += _storage_components(database, context)
    if database.has_log_volume:
        components.append(UnpricedComponent("a dedicated log volume is not in the price list", "log_volume"))
    usage = graph.usage_of_resource(resource)
    if "additional_backup_storage_gb" in usage.amounts:
        key = "additional_backup_storage_gb"
        components.append(context.make_usage_component("backup", "rds:backup", key, usage, is_stored=True))
    return components


def insights_components(inputs: Any) -> Components:
    """Return the monitoring that bills each vCPU (RDS User Guide, "Pricing and data retention" of insights)."""
    if read_input(inputs, "databaseInsightsMode") == "advanced":
        reason = "Database Insights in advanced mode bills each vCPU, and is not in the price list"
        return [UnpricedComponent(reason, "insights")]
    days = number_if_known(read_input_number(inputs, "performanceInsightsRetentionPeriod"))
    if days is None or days <= FREE_INSIGHTS_DAYS:
        return []
    reason = f"Performance Insights kept for more than {FREE_INSIGHTS_DAYS} days bills each vCPU"
    return [UnpricedComponent(f"{reason}, and is not in the price list", "insights")]


def _inherited_inputs(source: StateResource | None) -> dict[str, Any]:
    """Return what a replica takes from its source. It has a standby of its own only if it asks for one."""
    keys = (
        "engine",
        "engineVersion",
        "licenseModel",
        "allocatedStorage",
        "storageType",
        "iops",
        "storageThroughput",
    )
    return {key: source.inputs[key] for key in keys if key in source.inputs} if source else {}


def _storage_components(database: RdsInstanceInputs, context: MachinePartContext) -> Components:
    if isinstance(database.engine, str) and database.engine.startswith("aurora"):
        return []  # the cluster has the storage
    size_gib = number_or_unpriced(database.storage_gib, "allocated storage", "storage")
    if isinstance(size_gib, UnpricedComponent):
        return [size_gib]
    if isinstance(database.storage_type, UnreadableValue):
        return [UnpricedComponent("storage type is not known until deployment", "storage")]
    storage_type = database.storage_type or ("gp2" if database.iops is None else "io1")
    largest = number_if_known(database.max_storage_gib) or size_gib
    sizes = Range.spanning(size_gib, size_gib, max(size_gib, largest))
    item = f"rds:storage:{storage_type}"
    components: Components = [
        make_counted_component(context, "storage", item, sizes * database.copies),
    ]
    if storage_type in TYPES_WITH_IOPS:
        is_striped = _is_striped(database.engine, size_gib)
        components += _provisioned_components(database, storage_type, context, is_striped=is_striped)
    return components


def _is_striped(engine: Text, size_gib: Decimal) -> bool:
    """Return whether RDS stripes a gp3 volume (RDS User Guide, "gp3 storage")."""
    if not isinstance(engine, str) or engine.startswith("sqlserver"):
        return False
    return size_gib >= (200 if engine.startswith("oracle") else 400)


def _provisioned_components(
    database: RdsInstanceInputs, storage_type: str, context: MachinePartContext, *, is_striped: bool
) -> Components:
    included = {"iops": Decimal(0), "throughput": Decimal(0)}
    if storage_type == "gp3":
        included = {
            "iops": GP3_STRIPED_IOPS if is_striped else GP3_INCLUDED_IOPS,
            "throughput": GP3_STRIPED_THROUGHPUT if is_striped else GP3_INCLUDED_THROUGHPUT,
        }
    components: Components = []
    for unit, number in (("iops", database.iops), ("throughput", database.throughput)):
        name = f"storage:{unit}"
        amount = number_or_unpriced(number, f"provisioned {unit}", name, Decimal(0))
        if isinstance(amount, UnpricedComponent):
            components.append(amount)
        elif amount > included[unit]:
            item = f"rds:storage:{storage_type}:{unit}"
            billed = database.copies * (amount - included[unit])
            components.append(make_counted_component(context, name, item, billed))
    return components
