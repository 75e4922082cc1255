"""How many nodes an engine can use, and nodes that are only partly used."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.sizing.placement_rules.rule import PLACEMENT_RULES, PlacementCase


@PLACEMENT_RULES.register_rule(
    "nodes-power-of-two",
    reason="distributed-llama runs on 1, 2, 4 ... 2^n nodes, at most as many as the model has KV heads",
    source="b4rtaz/distributed-llama README, known limitations; issue 70",
    is_blocking=False,
)
def check_power_of_two_nodes(case: PlacementCase) -> Iterator[str]:
    used, requested, kv_heads = case.layout.devices, case.devices, case.workload.model.kv_heads
    if case.engine.rule == "powers" and used < requested:
        yield (
            f"{case.engine.name} uses {used} of {requested} nodes: 2^n of them, at most the {kv_heads} KV heads of "
            f"{case.workload.model.name}; {requested - used} are idle"
        )


@PLACEMENT_RULES.register_rule(
    "partly-used-nodes",
    reason="a cloud's machine is rented with all its devices",
    source="catalog/data/machines.csv, column accelerator_count",
    is_blocking=False,
)
def check_partly_used_nodes(case: PlacementCase) -> Iterator[str]:
    per_node = case.hardware.devices_per_node
    used = case.total_devices or case.devices
    if case.hardware.origin == "cloud" and used % per_node:
        nodes = -(-used // per_node)
        yield f"{used} devices take {nodes} {case.hardware.name} of {per_node} devices each: all of them are paid for"


@PLACEMENT_RULES.register_rule(
    "too-many-devices",
    reason="a rack or a stack's workstations have a fixed number of devices",
    source="the rack's file in inventory/, or the stack's workstations",
)
def check_node_limit(case: PlacementCase) -> Iterator[str]:
    limit = case.hardware.node_limit
    if limit is not None and case.devices > limit * case.hardware.devices_per_node:
        available = limit * case.hardware.devices_per_node
        yield f"{case.hardware.name} has {available} device{'s'[: available != 1]}, {case.devices} were requested"
