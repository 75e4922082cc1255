"""Policies that keep the nodes of a fabric on GCP close to each other."""

from __future__ import annotations

from typing import Any

import pulumi_gcp as gcp

from gpufleet.cloud.gcp_fabric import FABRIC_MTU
from gpufleet.cloud.gcp_parts import GcpPoolParts
from gpufleet.cloud.pool_plan import PoolPlan

# cluster-toolkit, slurm_files/scripts/resume.py: a distance of 2 holds 150 VMs (A3: 256), 3 holds 1,500; A3 forbids 1
MAX_NODES_AT_DISTANCE_2 = 150
TOPOLOGY_OF_DISTANCE = {
    2: "BLOCK",
    3: "CLUSTER",
}  # the same source; workload policies have names instead of numbers


def choose_max_distance(plan: PoolPlan) -> int:
    """Return the smallest distance, in network switches, at which all nodes of the pool fit."""
    return 2 if plan.pool.count.max <= MAX_NODES_AT_DISTANCE_2 else 3


def declare_placement(parts: GcpPoolParts, *, in_group: bool) -> Any:
    """Declare the policy that keeps the nodes of a fabric close; None if the pool needs or may have none.

    Ordinary reservations reject policies from outside: nodes that use one are where the reservation is.
    """
    plan = parts.plan
    if plan.fabric not in FABRIC_MTU or any(rung.kind == "reserved" for rung in plan.rungs):
        return None
    distance = choose_max_distance(plan)
    policy: dict[str, Any] = {
        "group_placement_policy": {"collocation": "COLLOCATED", "max_distance": distance}
    }
    if in_group:
        topology = TOPOLOGY_OF_DISTANCE[distance]
        policy = {"workload_policy": {"type": "HIGH_THROUGHPUT", "max_topology_distance": topology}}
    return gcp.compute.ResourcePolicy(
        plan.pool.name,
        name=plan.node_name_prefix,
        region=plan.pool.region,
        **policy,
        project=parts.network.project,
        opts=parts.child_options(delete_before_replace=True),
    )
