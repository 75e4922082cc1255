"""Declare the resources of a fleet: racks and workstations, then the pools cloud by cloud."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, cast

import pulumi

from gpufleet import catalog
from gpufleet.cloud.onprem import RackArgs, RackComponent, WorkstationArgs, WorkstationComponent
from gpufleet.cloud.pool_plan import PoolPlan
from gpufleet.fleet import Fleet

NodeFacts = pulumi.Output[list[dict[str, Any]]]
PoolBuilder = Callable[[Fleet, Sequence[PoolPlan]], list[NodeFacts]]


def declare_fleet(fleet: Fleet) -> None:
    """Declare every resource of the fleet and export the stack output ``nodes``."""
    for rack in fleet.racks:
        RackComponent(rack.name, RackArgs.from_rack(rack))
    for station in fleet.workstations:
        WorkstationComponent(station.name, WorkstationArgs.from_spec(station))
    facts: list[NodeFacts] = []
    for cloud in catalog.CLOUDS:
        plans = [PoolPlan(fleet, pool) for pool in fleet.pools if pool.cloud == cloud]
        if plans:
            facts += load_pool_builder(cloud)(fleet, plans)
    pulumi.export(
        "nodes", pulumi.Output.all(*facts).apply(lambda pools: [node for nodes in pools for node in nodes])
    )


def load_pool_builder(cloud: str) -> PoolBuilder:
    """Return ``declare_pools`` of the cloud's module ``<cloud>_pool``; only now is its SDK imported."""
    module = import_module(f"gpufleet.cloud.{cloud}_pool")
    return cast("PoolBuilder", module.declare_pools)
