"""A pool on Toy Cloud, which sells one machine by the hour (tests/cloud/test_new_cloud.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi

from gpufleet.cloud.pool_plan import PoolPlan
from gpufleet.fleet import Fleet


class ToyServer(pulumi.CustomResource):
    """A server: one resource per node."""

    address: pulumi.Output[str]

    def __init__(self, name: str, inputs: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        """Register the server; the provider computes its address."""
        super().__init__("toy:compute:Server", name, {**inputs, "address": None}, opts)


class ToyPool(pulumi.ComponentResource):
    """Servers one by one."""

    def __init__(self, plan: PoolPlan) -> None:
        """Declare the pool and, as ``nodes``, the facts of its nodes."""
        super().__init__("gpufleet:cloud:ToyPool", plan.pool.name, plan.build_component_inputs())
        self.nodes = pulumi.Output.from_input(
            [self._declare_node(plan, index, node) for index, node in enumerate(plan.node_names)]
        )
        self.groups: pulumi.Output[list[dict[str, Any]]] = pulumi.Output.from_input([])
        self.register_outputs({"nodes": self.nodes, "groups": self.groups})

    def _declare_node(self, plan: PoolPlan, index: int, node: str) -> dict[str, Any]:
        inputs = {
            "name": node,
            "size": plan.pool.machine,
            "region": plan.pool.region,
            "zone": plan.zone_of_node(index),
            "tags": plan.build_tags(node),
        }
        server = ToyServer(f"{plan.pool.name}-{index + 1}", inputs, pulumi.ResourceOptions(parent=self))
        return plan.build_node_facts(node, id=server.id, private=server.address)


def declare_pools(fleet: Fleet, plans: Sequence[PoolPlan]) -> list[ToyPool]:
    """Declare the pools."""
    return [ToyPool(plan) for plan in plans]
