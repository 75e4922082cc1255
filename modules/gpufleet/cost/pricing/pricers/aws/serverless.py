"""Lambda functions by calls and their length, and DynamoDB tables by capacity or by requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.usage import ResourceUsage
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    is_input_true,
    number_if_known,
    read_input,
    read_input_choice,
    read_input_list,
    read_input_marker,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent, UsageComponent
from gpufleet.cost.pricing.pricers.aws.service import (
    make_counted_component,
    make_derived_usage,
    make_service_context,
)
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, unpriced_if_unreadable
from gpufleet.engine import StateResource, UnreadableValue

FUNCTION = "aws:lambda/function:Function"
DEFAULT_MEMORY_MIB = Decimal(128)  # the provider's documentation of memorySize
MIB_PER_GIB, MS_PER_SECOND = Decimal(1024), Decimal(1000)
INCLUDED_DISK_MIB = Decimal(512)
TABLE_USAGE = (  # component, item, usage key, stored, listed without an amount
    ("storage", "dynamodb:storage", "storage_gb", True, True),
    ("backups", "dynamodb:backup", "on_demand_backup_storage_gb", True, False),
    ("point_in_time_recovery", "dynamodb:point_in_time_recovery", "pitr_backup_storage_gb", True, False),
    ("restore", "dynamodb:restore", "monthly_data_restored_gb", False, False),
    ("streams", "dynamodb:stream_read", "monthly_streams_read_request_units", False, False),
)


@dataclass(frozen=True)
class LambdaFunctionInputs:
    """The inputs of a function."""

    memory_mib: Number
    disk_mib: Number
    platform: str


@dataclass(frozen=True)
class DynamoTableInputs:
    """The inputs of a table. ``capacities`` are its own and those of its global indices: reads and writes."""

    billing_mode: Text
    capacities: tuple[tuple[str, Number, Number], ...]
    hidden_indices: UnreadableValue | None
    table_class: Text
    replica_count: int
    has_point_in_time_recovery: bool


def parse_lambda_function_inputs(inputs: Any) -> LambdaFunctionInputs:
    """Parse a function."""
    return LambdaFunctionInputs(
        memory_mib=read_input_number(inputs, "memorySize"),
        disk_mib=read_input_number(inputs, "ephemeralStorage", "size"),
        platform=_parse_platform(inputs),
    )


def _parse_platform(inputs: Any) -> str:
    """Return the architecture as price lists name it, the dearer one if it is not known."""
    entries = read_input_list(inputs, "architectures")
    return "arm" if read_input_choice(entries, ("arm64", "x86_64"), 0) == "arm64" else "x86"


def parse_dynamo_table_inputs(inputs: Any) -> DynamoTableInputs:
    """Parse a table with its global indices."""
    indices = read_input_list(inputs, "globalSecondaryIndexes")
    owners = [("", inputs), *((f":{index}", each) for index, each in enumerate(indices, start=1))]
    return DynamoTableInputs(
        billing_mode=read_input_text(inputs, "billingMode"),
        capacities=tuple(
            (name, read_input_number(owner, "readCapacity"), read_input_number(owner, "writeCapacity"))
            for name, owner in owners
        ),
        hidden_indices=read_input_marker(inputs, "globalSecondaryIndexes"),
        table_class=read_input_text(inputs, "tableClass"),
        replica_count=len(read_input_list(inputs, "replicas")),
        has_point_in_time_recovery=is_input_true(read_input(inputs, "pointInTimeRecovery"), "enabled"),
    )


def price_lambda_function(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the calls of a function and the memory that they hold while they run."""
    function = parse_lambda_function_inputs(resource.inputs)
    usage = graph.usage_of_resource(resource)
    context = make_service_context(resource, graph)
    memory_mib = number_or_unpriced(function.memory_mib, "memory size", "duration", DEFAULT_MEMORY_MIB)
    calls = context.make_usage_component("requests", "lambda:request", "monthly_requests", usage)
    if isinstance(memory_mib, UnpricedComponent):
        return [calls, memory_mib]
    seconds = _run_seconds(usage)
    gib_seconds = None if seconds is None else seconds * memory_mib / MIB_PER_GIB
    item = f"lambda:{function.platform}:gib_second"
    components: Components = [
        calls,
        make_derived_usage(context, "duration", item, "request_duration_ms", gib_seconds),
    ]
    disk_mib = number_if_known(function.disk_mib) or INCLUDED_DISK_MIB
    if disk_mib > INCLUDED_DISK_MIB and seconds is not None:
        disk = seconds * (disk_mib - INCLUDED_DISK_MIB) / MIB_PER_GIB
        key = "request_duration_ms"
        components.append(make_derived_usage(context, "disk", "lambda:disk_gib_second", key, disk))
    return components


def _run_seconds(usage: ResourceUsage) -> Decimal | None:
    calls, length_ms = usage.amounts.get("monthly_requests"), usage.amounts.get("request_duration_ms")
    return None if calls is None or length_ms is None else calls * length_ms / MS_PER_SECOND


def price_provisioned_concurrency(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the memory that instances of a function hold while they wait for calls."""
    owner = graph.find_referenced_resource(resource, ("functionName",), FUNCTION)
    if owner is None:
        return [UnpricedComponent("its function is not in this stack", "concurrency")]
    function = parse_lambda_function_inputs(owner.inputs)
    count = read_input_number(resource.inputs, "provisionedConcurrentExecutions")
    instances = number_or_unpriced(count, "the number of instances", "concurrency")
    memory = number_or_unpriced(function.memory_mib, "memory size", "concurrency", DEFAULT_MEMORY_MIB)
    if isinstance(instances, UnpricedComponent):
        return [instances]
    if isinstance(memory, UnpricedComponent):
        return [memory]
    terms = graph.purchase_terms_of(resource)
    context = make_service_context(resource, graph).with_billed_hours(terms.hours)
    item = f"lambda:{function.platform}:provisioned_concurrency"
    return [make_counted_component(context, "concurrency", item, instances, memory / MIB_PER_GIB)]


def price_dynamo_table(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the capacity of a table and its indices, or its requests, and what it stores."""
    table = parse_dynamo_table_inputs(resource.inputs)
    usage = graph.usage_of_resource(resource)
    context = make_service_context(resource, graph)
    if isinstance(table.billing_mode, UnreadableValue):
        return [UnpricedComponent("billing mode is not known until deployment", "capacity")]
    suffix = ":infrequent_access" if table.table_class == "STANDARD_INFREQUENT_ACCESS" else ""
    components: Components = []
    if table.billing_mode == "PAY_PER_REQUEST":
        components += _request_components(context, usage, suffix)
    else:
        components += _capacity_components(table, context, suffix)
    if table.replica_count:
        reason = f"{table.replica_count} replicas bill the writes and the storage again, in their regions"
        components.append(UnpricedComponent(reason, "replicas"))
    return [*components, *_table_usage(table, context, usage, suffix)]


def _request_components(
    context: MachinePartContext, usage: ResourceUsage, suffix: str
) -> Iterator[UsageComponent]:
    for kind in ("write", "read"):
        key = f"monthly_{kind}_request_units"
        yield context.make_usage_component(f"{kind}s", f"dynamodb:{kind}_request{suffix}", key, usage)


def _capacity_components(table: DynamoTableInputs, context: MachinePartContext, suffix: str) -> Components:
    description = "the capacity of its indices is"
    components: Components = [*unpriced_if_unreadable(table.hidden_indices, description, "index_capacity")]
    for name, reads, writes in table.capacities:
        for kind, number in (("read", reads), ("write", writes)):
            component = f"{kind}_capacity{name}"
            amount = number_or_unpriced(number, f"{kind} capacity", component, Decimal(0))
            if isinstance(amount, UnpricedComponent):
                components.append(amount)
            elif amount:
                item = f"dynamodb:{kind}_capacity{suffix}"
                components.append(make_counted_component(context, component, item, amount))
    return components


def _table_usage(
    table: DynamoTableInputs, context: MachinePartContext, usage: ResourceUsage, suffix: str
) -> Iterator[UsageComponent]:
    for component, item, key, is_stored, is_listed in TABLE_USAGE:
        is_recovery = component == "point_in_time_recovery" and table.has_point_in_time_recovery
        if is_listed or is_recovery or key in usage.amounts:
            part = f"{item}{suffix}" if component == "storage" else item
            yield context.make_usage_component(component, part, key, usage, is_stored=is_stored)
