"""Nodes of GCP's regional managed instance groups: elastic pools, large fixed ones, and flex-start."""

from __future__ import annotations

from typing import Any, Final

import pulumi_gcp as gcp

from gpufleet.cloud.gcp_disks import build_template_disks
from gpufleet.cloud.gcp_parts import GcpPoolParts, max_run_seconds
from gpufleet.cloud.pool_plan import PoolPlan

DEFAULT_ZONE_COUNT = 3  # over which a regional group spreads when none are named
# Google, "Ops Agent metrics": one series for each GPU, in percent. The autoscaler adds up the series of a node.
GPU_METRIC: Final = "agent.googleapis.com/gpu/utilization"
GPU_TARGET_PERCENT = 80
# A node that is being set up, or that waits for its burn-in, is not a failed one: only an evicted one is replaced.
KEEP_FAILED_NODES: Final = {"default_action_on_failure": "DO_NOTHING", "on_failed_health_check": "DO_NOTHING"}
REPLACE_EVICTED_NODES: Final = {"default_action_on_failure": "REPAIR", "on_failed_health_check": "DO_NOTHING"}

# What resize requests demand of their group: no size, one zone, no repairs. Sources: Google, "About resize requests in
# a MIG"; GoogleCloudPlatform/cluster-toolkit, mig_flex.py.
FLEX_START_ARGUMENTS: Final = {
    "distribution_policy_target_shape": "ANY_SINGLE_ZONE",
    "instance_lifecycle_policy": KEEP_FAILED_NODES,
}


def declare_instance_group(parts: GcpPoolParts) -> dict[str, Any]:
    """Declare template, group and what sets its size; return the group's entry of the stack output ``groups``."""
    plan = parts.plan
    is_flexible_start = plan.rungs[0].kind == "flex_start"
    manager = gcp.compute.RegionInstanceGroupManager(
        plan.pool.name,
        name=plan.node_name_prefix,
        base_instance_name=plan.node_name_prefix,
        region=plan.pool.region,
        versions=[{"instance_template": _declare_template(parts).self_link}],
        distribution_policy_zones=list(plan.pool.zones) or None,
        update_policy=_update_policy(plan.pool.zones),
        # Missing capacity does not fail the deployment: the group keeps trying.
        wait_for_instances=False,
        resource_policies={"workload_policy": parts.placement.self_link} if parts.placement else None,
        **(FLEX_START_ARGUMENTS if is_flexible_start else _size_arguments(plan)),
        project=parts.network.project,
        opts=parts.child_options(
            delete_before_replace=True,
            # The autoscaler owns the number between the bounds, resize requests that of flex-start.
            ignore_changes=["targetSize"] if plan.pool.count.is_elastic or is_flexible_start else None,
            # A new template changes no running node, so another purchase needs another group.
            replacement_trigger=_group_identity(plan),
            depends_on=[parts.reservation] if parts.reservation else None,
        ),
    )
    if is_flexible_start:
        _declare_resize_requests(parts, manager)
    elif plan.pool.count.is_elastic:
        _declare_autoscaler(parts, manager)
    return plan.build_group_facts(
        "instance_group",
        id=manager.instance_group,
        name=manager.name,
        purchase=plan.pool.purchase.tag_value,
    )


def _size_arguments(plan: PoolPlan) -> dict[str, Any]:
    purchase = plan.pool.purchase
    arguments: dict[str, Any] = {
        "target_size": plan.pool.count.desired,
        # Google, "Set a target distribution shape": an autoscaler needs EVEN or BALANCED. EVEN waits for the fullest
        # zone, and instance flexibility refuses it.
        "distribution_policy_target_shape": "BALANCED",
        "instance_lifecycle_policy": REPLACE_EVICTED_NODES
        if purchase.rungs[0].kind == "spot"
        else KEEP_FAILED_NODES,
    }
    if purchase.machines:
        machines = (plan.pool.machine, *purchase.machines)
        selections = [
            {"name": f"choice-{rank + 1}", "rank": rank + 1, "machine_types": [machine]}
            for rank, machine in enumerate(machines)
        ]
        arguments["instance_flexibility_policy"] = {"instance_selections": selections}
    return arguments


def _group_identity(plan: PoolPlan) -> list[str]:
    """Return what needs another group when it changes.

    Resize requests are for nodes of one machine. One for a whole fabric that became larger would add all its nodes
    a second time.
    """
    kinds: list[str] = [rung.kind for rung in plan.rungs]
    if kinds[0] != "flex_start":
        return kinds
    size = [str(plan.pool.count.desired)] if _starts_all_at_once(plan) else []
    return [*kinds, plan.pool.machine, *size]


def _starts_all_at_once(plan: PoolPlan) -> bool:
    """Return whether no node of the pool is of use without the others."""
    return plan.fabric is not None


def _declare_resize_requests(parts: GcpPoolParts, manager: Any) -> None:
    """Declare one request for each node, so that a larger count adds nodes; one for all if a fabric joins them."""
    plan = parts.plan
    sizes = [1] * plan.pool.count.desired
    if _starts_all_at_once(plan):
        sizes = [plan.pool.count.desired] if plan.pool.count.desired else []
    for index, size in enumerate(sizes):
        gcp.compute.RegionResizeRequest(
            f"{plan.pool.name}-{index + 1}",
            name=f"{plan.node_name_prefix}-{index + 1}",
            region=plan.pool.region,
            instance_group_manager=manager.name,
            resize_by=size,
            requested_run_duration={"seconds": str(max_run_seconds(plan))},
            project=parts.network.project,
            opts=parts.child_options(
                delete_before_replace=True,
                # Nodes that run keep their duration. A new request would start further ones.
                ignore_changes=["requestedRunDuration"],
                replace_with=[manager],
            ),
        )


def _declare_autoscaler(parts: GcpPoolParts, manager: Any) -> None:
    """Declare the bounds, and growth by GPU load. Nothing shrinks the group: a busy node must not be removed."""
    plan = parts.plan
    gcp.compute.RegionAutoscaler(
        plan.pool.name,
        name=plan.node_name_prefix,
        region=plan.pool.region,
        target=manager.id,
        autoscaling_policy={
            "mode": "ONLY_SCALE_OUT",
            "min_replicas": plan.pool.count.min,
            "max_replicas": plan.pool.count.max,
            # Without a metric of its own, an autoscaler takes the CPU load, which says nothing about GPUs.
            "metrics": [
                {
                    "name": GPU_METRIC,
                    "type": "GAUGE",
                    "target": GPU_TARGET_PERCENT * max(1, parts.count_accelerators()),
                }
            ],
        },
        project=parts.network.project,
        opts=parts.child_options(delete_before_replace=True),
    )


def _update_policy(zones: tuple[str, ...]) -> dict[str, Any]:
    # OPPORTUNISTIC: a new template is for new nodes and does not replace running ones.
    return {
        "type": "OPPORTUNISTIC",
        "minimal_action": "REPLACE",
        "instance_redistribution_type": "NONE",  # Google demands it of every shape but EVEN
        "max_surge_fixed": 0,
        "max_unavailable_fixed": len(zones) or DEFAULT_ZONE_COUNT,  # Google wants at least one per zone
    }


def _declare_template(parts: GcpPoolParts) -> Any:
    plan = parts.plan
    return gcp.compute.RegionInstanceTemplate(
        plan.pool.name,
        # Templates cannot be changed, only replaced: the generated name lets old and new exist together.
        name_prefix=f"{plan.node_name_prefix[:30]}-",
        region=plan.pool.region,
        disks=build_template_disks(parts),
        network_interfaces=parts.network_interfaces(),
        labels=plan.build_tags(),
        **parts.instance_arguments(),
        opts=parts.child_options(ignore_changes=["disks[0].sourceImage"]),
    )
