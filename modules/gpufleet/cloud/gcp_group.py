"""Nodes that Google keeps in number: a regional managed instance group between two bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi_gcp as gcp

if TYPE_CHECKING:
    from gpufleet.cloud.gcp_pool import GcpPool

ZONES_BY_DEFAULT = 3  # over which a regional group spreads when none are named
CPU_TARGET = 0.6  # Google's own default; an autoscaler must have some signal


def group(pool: GcpPool) -> None:
    """Declare template, group and autoscaler of an elastic pool."""
    plan = pool.plan
    manager = gcp.compute.RegionInstanceGroupManager(
        plan.pool.name,
        name=plan.prefix,
        base_instance_name=plan.prefix,
        region=plan.pool.region,
        versions=[{"instance_template": _template(pool).self_link}],
        target_size=plan.pool.count.desired,
        distribution_policy_zones=list(plan.pool.zones) or None,
        # Take machines in whichever of the zones has them; an even spread would wait for the fullest.
        distribution_policy_target_shape="ANY",
        update_policy=_updates(plan.pool.zones),
        # Missing capacity is no failure of the deployment: the group goes on trying.
        wait_for_instances=False,
        project=pool.network.project,
        # The autoscaler owns the number between the bounds.
        opts=pool.child(delete_before_replace=True, ignore_changes=["targetSize"]),
    )
    gcp.compute.RegionAutoscaler(
        plan.pool.name,
        name=plan.prefix,
        region=plan.pool.region,
        target=manager.id,
        autoscaling_policy={
            "min_replicas": plan.pool.count.min,
            "max_replicas": plan.pool.count.max,
            "cpu_utilization": {"target": CPU_TARGET},
        },
        project=pool.network.project,
        opts=pool.child(delete_before_replace=True),
    )


def _updates(zones: tuple[str, ...]) -> dict[str, Any]:
    # OPPORTUNISTIC: a new template is for new nodes, it replaces no running one.
    return {
        "type": "OPPORTUNISTIC",
        "minimal_action": "REPLACE",
        "instance_redistribution_type": "NONE",
        "max_surge_fixed": 0,
        "max_unavailable_fixed": len(zones) or ZONES_BY_DEFAULT,  # Google wants at least one per zone
    }


def _template(pool: GcpPool) -> Any:
    plan = pool.plan
    return gcp.compute.RegionInstanceTemplate(
        plan.pool.name,
        # Templates can't be changed, only replaced: the generated name lets the new one exist beside the old.
        name_prefix=f"{plan.prefix[:30]}-",
        region=plan.pool.region,
        disks=[
            {
                "boot": True,
                "auto_delete": True,
                "source_image": pool.image.self_link,
                "disk_size_gb": plan.pool.disk.size_gib,
                "disk_type": "pd-balanced",
            }
        ],
        network_interfaces=[pool.interface()],
        labels=plan.tags(),
        **pool.description(),
        opts=pool.child(ignore_changes=["disks[0].sourceImage"]),
    )
