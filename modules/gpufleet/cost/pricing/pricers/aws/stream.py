"""Kinesis streams by the shard or on demand, and state machines by transitions or requests."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    read_input_choice,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.service import (
    make_counted_component,
    make_service_context,
)
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

INCLUDED_RETENTION_HOURS = Decimal(24)
ON_DEMAND_USAGE = (
    ("ingested", "kinesis:on_demand:ingested", "monthly_on_demand_data_in_gb", True),
    ("retrieved", "kinesis:on_demand:retrieved", "monthly_on_demand_data_out_gb", False),
)
PROVISIONED_USAGE = (("puts", "kinesis:put_unit", "monthly_provisioned_put_units", False),)


@dataclass(frozen=True)
class StreamInputs:
    """The inputs of a stream."""

    is_on_demand: bool
    shard_count: Number
    retention_hours: Number


def parse_stream_inputs(inputs: Any) -> StreamInputs:
    """Parse a stream."""
    mode = read_input_text(inputs, "streamModeDetails", "streamMode")
    return StreamInputs(
        is_on_demand=mode == "ON_DEMAND",
        shard_count=read_input_number(inputs, "shardCount"),
        retention_hours=read_input_number(inputs, "retentionPeriod"),
    )


def price_stream(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a stream's shards, their longer retention, and what passes through it by use."""
    stream = parse_stream_inputs(resource.inputs)
    context = make_service_context(resource, graph)
    usage = graph.usage_of_resource(resource)
    components: Components = []
    if stream.is_on_demand:
        components.append(make_counted_component(context, "stream", "kinesis:on_demand", Decimal(1)))
    else:
        shards = number_or_unpriced(stream.shard_count, "shard count", "shards", Decimal(1))
        if isinstance(shards, UnpricedComponent):
            return [shards]
        components.append(make_counted_component(context, "shards", "kinesis:shard", shards))
        hours = number_or_unpriced(stream.retention_hours, "retention", "retention", INCLUDED_RETENTION_HOURS)
        if isinstance(hours, UnpricedComponent):
            components.append(hours)
        elif hours > INCLUDED_RETENTION_HOURS:
            components.append(make_counted_component(context, "retention", "kinesis:shard:retention", shards))
    rows = ON_DEMAND_USAGE if stream.is_on_demand else PROVISIONED_USAGE
    components += [
        context.make_usage_component(component, item, key, usage)
        for component, item, key, is_listed in rows
        if is_listed or key in usage.amounts
    ]
    return components


def price_state_machine(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the transitions of a standard state machine, or the requests of an express one."""
    kind = read_input_choice(resource.inputs, ("STANDARD", "EXPRESS"), "type")
    if isinstance(kind, UnreadableValue):
        return [UnpricedComponent("its type is not known until deployment", "requests")]
    unit = "request" if kind == "EXPRESS" else "transition"
    context = make_service_context(resource, graph)
    usage = graph.usage_of_resource(resource)
    return [context.make_usage_component(f"{unit}s", f"step_functions:{unit}", f"monthly_{unit}s", usage)]
