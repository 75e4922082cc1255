"""Kinesis streams by the shard or on demand, and state machines by transitions or requests."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

INCLUDED_RETENTION_HOURS = 24


@pricer("aws:kinesis/stream:Stream")
def price_stream(stream: Reader) -> Parts:
    """Yield a stream's shards, their longer retention, and what passes through it by use."""
    modes = ("PROVISIONED", "ON_DEMAND")
    mode = stream.choice("streamModeDetails.streamMode", modes, "PROVISIONED", "its mode")
    if mode == "ON_DEMAND":
        yield stream.of("stream").part("kinesis:on_demand")
        yield stream.of("ingested").used("kinesis:on_demand:ingested", "monthly_on_demand_data_in_gb")
        key = "monthly_on_demand_data_out_gb"
        yield stream.of("retrieved").used("kinesis:on_demand:retrieved", key, listed=False)
        return
    with stream.of("shards") as shards:
        yield shards.part("kinesis:shard", shards.number("shardCount", "shard count", 1))
    with stream.of("retention") as retention:
        hours = retention.number("retentionPeriod", "retention", INCLUDED_RETENTION_HOURS)
        if hours > INCLUDED_RETENTION_HOURS:
            yield retention.part("kinesis:shard:retention", retention.number("shardCount", "shard count", 1))
    yield stream.of("puts").used("kinesis:put_unit", "monthly_provisioned_put_units", listed=False)


@pricer("aws:sfn/stateMachine:StateMachine")
def price_state_machine(machine: Reader) -> Parts:
    """Yield the transitions of a standard state machine, or the requests of an express one."""
    kind = machine.of("requests").choice("type", ("STANDARD", "EXPRESS"), "STANDARD", "its type")
    unit = "request" if kind == "EXPRESS" else "transition"
    yield machine.of(f"{unit}s").used(f"step_functions:{unit}", f"monthly_{unit}s")
