"""The disks of a GCP node: the boot disk, local SSDs, and disks for the volumes of its template."""

from __future__ import annotations

from typing import Any

import pulumi_gcp as gcp

from gpufleet.cloud.gcp_parts import GcpPoolParts
from gpufleet.cloud.pool_plan import PoolPlan

PREFERRED_DISK_KIND = "pd-balanced"
LOCAL_SSD_GIB = 375  # of every local SSD that Google attached before it made larger ones


def choose_disk_kind(plan: PoolPlan) -> str:
    """Return pd-balanced, or what the machine boots from instead (Hyperdisk)."""
    kinds = plan.facts.boot_disk_kinds
    return PREFERRED_DISK_KIND if not kinds or PREFERRED_DISK_KIND in kinds else kinds[0]


def has_fixed_local_disks(plan: PoolPlan) -> bool:
    """Return whether Google attaches local SSDs without being asked."""
    return bool(plan.facts.local_disk_count) and not plan.facts.local_disk_counts


def build_scratch_disks(plan: PoolPlan) -> list[dict[str, Any]]:
    """Return the local SSDs to attach; machines with fixed ones take none."""
    size = int(plan.facts.local_disk_gib or LOCAL_SSD_GIB)
    return [{"interface": "NVME", "size": size} for _ in range(plan.volumes.local_disk_count)]


def build_boot_disk(parts: GcpPoolParts, labels: dict[str, str]) -> dict[str, Any]:
    """Return the boot disk of an instance, encrypted at rest with Google's own keys as every disk there."""
    parameters = {
        "image": parts.image.self_link,
        "size": parts.plan.pool.disk.size_gib,
        "type": choose_disk_kind(parts.plan),
        "labels": labels,
    }
    return {"auto_delete": True, "initialize_params": parameters}


def declare_volume_disks(parts: GcpPoolParts, index: int, node: str, zone: str) -> list[dict[str, Any]]:
    """Declare a disk for each volume that is not on local SSDs; return them as an instance attaches them."""
    plan, attached = parts.plan, []
    for volume in plan.volumes.disks:
        disk = gcp.compute.Disk(
            f"{plan.pool.name}-{index + 1}-{volume.name}",
            name=f"{node}-{volume.name}",
            zone=zone,
            size=volume.size_gib,
            type=choose_disk_kind(plan),
            labels=plan.build_tags(node),
            project=parts.network.project,
            opts=parts.child_options(delete_before_replace=True),
        )
        attached.append({"source": disk.self_link, "device_name": volume.name})
    return attached


def build_template_disks(parts: GcpPoolParts) -> list[dict[str, Any]]:
    """Return the disks of an instance template: they are created and deleted with each node."""
    plan, labels = parts.plan, parts.plan.build_tags()
    kind = choose_disk_kind(plan)
    boot = {"boot": True, "source_image": parts.image.self_link, "disk_size_gb": plan.pool.disk.size_gib}
    volumes = [
        {"device_name": volume.name, "disk_size_gb": volume.size_gib, "type": "PERSISTENT"}
        for volume in plan.volumes.disks
    ]
    scratch = [
        {
            "type": "SCRATCH",
            "disk_type": "local-ssd",
            "disk_size_gb": disk["size"],
            "interface": disk["interface"],
            "auto_delete": True,
        }
        for disk in build_scratch_disks(plan)
    ]
    return [
        *({**disk, "auto_delete": True, "disk_type": kind, "labels": labels} for disk in (boot, *volumes)),
        *scratch,
    ]
