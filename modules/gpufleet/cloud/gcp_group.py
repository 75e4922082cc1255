"""Elastic pools on GCP: a regional managed instance group between two bounds."""

from __future__ import annotations

from typing import Any

import pulumi_gcp as gcp

from gpufleet.cloud.gcp_parts import GcpPoolParts

DEFAULT_ZONE_COUNT = 3  # over which a regional group spreads when none are named
CPU_TARGET = 0.6  # Google's own default; an autoscaler must have some signal


def declare_instance_group(parts: GcpPoolParts) -> None:
    """Declare template, group and autoscaler of an elastic pool."""
    plan = parts.plan
    manager = gcp.compute.RegionInstanceGroupManager(
        plan.pool.name,
        name=plan.node_name_prefix,
        base_instance_name=plan.node_name_prefix,
        region=plan.pool.region,
        versions=[{"instance_template": _declare_template(parts).self_link}],
        target_size=plan.pool.count.desired,
        distribution_policy_zones=list(plan.pool.zones) or None,
        # Take machines from any zone that has them; an even spread would wait for the fullest.
        distribution_policy_target_shape="ANY",
        update_policy=_update_policy(plan.pool.zones),
        # Missing capacity does not fail the deployment: the group keeps trying.
        wait_for_instances=False,
        project=parts.network.project,
        # The autoscaler owns the number between the bounds.
        opts=parts.child_options(delete_before_replace=True, ignore_changes=["targetSize"]),
    )
    gcp.compute.RegionAutoscaler(
        plan.pool.name,
        name=plan.node_name_prefix,
        region=plan.pool.region,
        target=manager.id,
        autoscaling_policy={
            "min_replicas": plan.pool.count.min,
            "max_replicas": plan.pool.count.max,
            "cpu_utilization": {"target": CPU_TARGET},
        },
        project=parts.network.project,
        opts=parts.child_options(delete_before_replace=True),
    )


def _update_policy(zones: tuple[str, ...]) -> dict[str, Any]:
    # OPPORTUNISTIC: a new template is for new nodes and does not replace running ones.
    return {
        "type": "OPPORTUNISTIC",
        "minimal_action": "REPLACE",
        "instance_redistribution_type": "NONE",
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
        disks=[
            {
                "boot": True,
                "auto_delete": True,
                "source_image": parts.image.self_link,
                "disk_size_gb": plan.pool.disk.size_gib,
                "disk_type": "pd-balanced",
            }
        ],
        network_interfaces=[parts.network_interface()],
        labels=plan.build_tags(),
        **parts.instance_arguments(),
        opts=parts.child_options(ignore_changes=["disks[0].sourceImage"]),
    )
