"""How many nodes an engine can use, and nodes that are paid for whole."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.sizing.legality.rule import Case, rule


@rule(
    "nodes-power-of-two",
    reason="distributed-llama runs on 1, 2, 4 ... 2^n nodes, at most as many as the model has KV heads",
    source="b4rtaz/distributed-llama README, known limitations; issue 70",
)
def nodes_power_of_two(case: Case) -> Iterator[str]:
    used, asked, kv_heads = case.layout.devices, case.devices, case.workload.model.kv_heads
    if case.engine.rule == "powers" and used < asked:
        yield (
            f"{case.engine.name} uses {used} of {asked} nodes: 2^n of them, at most the {kv_heads} KV heads of "
            f"{case.workload.model.name}; {asked - used} stand idle"
        )


@rule(
    "nodes-paid-whole",
    reason="a cloud's machine is rented with all its devices",
    source="catalog/data/machines.csv, column accelerator_count",
)
def nodes_paid_whole(case: Case) -> Iterator[str]:
    per_node = case.hardware.devices_per_node
    used = case.used or case.devices
    if case.hardware.origin == "cloud" and used % per_node:
        nodes = -(-used // per_node)
        yield f"{used} devices take {nodes} {case.hardware.name} of {per_node} devices each: all are paid"


@rule(
    "more-than-there-are",
    reason="what we own ends somewhere",
    source="the rack's file in inventory/, or the stack's workstations",
    blocks=True,
)
def more_than_there_are(case: Case) -> Iterator[str]:
    limit = case.hardware.node_limit
    if limit is not None and case.devices > limit * case.hardware.devices_per_node:
        has = limit * case.hardware.devices_per_node
        yield f"{case.hardware.name} has {has} device{'s'[: has != 1]}, {case.devices} were asked for"
