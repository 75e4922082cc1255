"""What the role storage mounts on a node of a cloud pool: volumes, each with the disks that it is made of. Pure.

Nothing here comes from a report: which disks a node has is what its stack declares, and the components attach them
under names that do not depend on the order in which the node's kernel finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from gpufleet import fleet
from gpufleet.fleet.application import VOLUMES_FOLDER
from gpufleet.fleet.profile import LocalDriveLayout
from gpufleet.nodes.model import Node

StorageLookup = Callable[[Node], tuple[dict[str, Any], ...]]

# Local drives, as patterns of the role storage. Sources, all read 2026-11-23:
# AWS: EC2 user guide, "NVMe instance store volumes" and amazonlinux/amazon-ec2-utils, 70-ec2-nvme-devices.rules (model)
# Google: docs.cloud.google.com/compute/docs/disks/disk-symlinks
# Azure: Azure/azure-vm-utils, udev/80-azure-disk.rules (models "Microsoft NVMe Direct Disk" and "… v2")
LOCAL_DRIVES = {
    "aws": ["model:Amazon EC2 NVMe Instance Storage"],
    "gcp": ["/dev/disk/by-id/google-local-nvme-ssd-*"],
    "azure": ["model:Microsoft NVMe Direct Disk*"],
}
# Owner and mode of the folder are those that its containers need: the operator or podman's :U sets them.
DISK_SETTINGS: dict[str, Any] = {"count": 1, "mode": "keep"}


def build_pool_storage(
    declared: fleet.Fleet, pool: fleet.Pool, machine: str | None = None
) -> tuple[dict[str, Any], ...]:
    """Return the volumes of a pool's node; ``machine`` is the node's own, because a spot pool may have several."""
    is_declared = machine in (pool.machine, *pool.purchase.machines)
    node_machine = machine if machine and is_declared else pool.machine
    disks = [
        {
            "mount": f"{VOLUMES_FOLDER}/{disk.name}",
            "devices": list_disk_patterns(pool.cloud, number, disk.name),
            **DISK_SETTINGS,
        }
        for number, disk in enumerate(fleet.pool_volumes(declared, pool).disks)
    ]
    return (*_build_local_volume(declared, pool, node_machine), *disks)


def _build_local_volume(declared: fleet.Fleet, pool: fleet.Pool, machine: str) -> list[dict[str, Any]]:
    """Return the volume on the node's local drives, if its template uses them and it may have any."""
    count = fleet.count_local_drives(declared, pool, machine)
    if count == 0 or not fleet.uses_local_drives(declared, pool):
        return []
    layout = declared.resolve_blueprint(pool.template).hardware.storage
    if layout.layout == "none":
        layout = LocalDriveLayout(layout="raid0")
    return [
        {
            "mount": layout.mount,
            "devices": LOCAL_DRIVES[pool.cloud],
            "count": count or 0,  # 0: no source states it, so any number will do
            "layout": layout.layout,
            "filesystem": layout.filesystem,
        }
    ]


def list_disk_patterns(cloud: str, number: int, name: str) -> list[str]:
    """Return the patterns for a disk of the cloud, by what the component attaches it as. Sources: read 2026-11-23.

    AWS: EBS user guide, "Amazon EBS volumes and NVMe" (the mapping's device name is in the controller's vendor data);
    EC2 user guide, "Device names for volumes" (/dev/sdf is /dev/xvdf on Xen). Google: disk-symlinks, as above. Azure:
    learn.microsoft.com/azure/virtual-machines/linux/azure-virtual-machine-utilities (links of WALinuxAgent for SCSI,
    of azure-vm-utils for SCSI and NVMe).
    """
    if cloud == "aws":
        device = fleet.aws_device_name(number).removeprefix("/dev/")
        return [f"ebs:{device}", f"/dev/{device.replace('sd', 'xvd', 1)}"]
    if cloud == "gcp":
        return [f"/dev/disk/by-id/google-{name}"]
    return [f"/dev/disk/azure/scsi1/lun{number}", f"/dev/disk/azure/data/by-lun/{number}"]


def make_storage_lookup(
    stack_of: Callable[[Node], str | None], load: Callable[[str], fleet.Fleet]
) -> StorageLookup:
    """Return what gives a node's volumes; ``stack_of`` names the project's stack of a node."""

    @cache
    def build(stack: str, pool_name: str, cloud: str, machine: str | None) -> tuple[dict[str, Any], ...]:
        declared = load(stack)
        pool = declared.find_pool(pool_name)
        return build_pool_storage(declared, pool, machine) if pool and pool.cloud == cloud else ()

    def look_up(node: Node) -> tuple[dict[str, Any], ...]:
        stack = stack_of(node) if node.cloud and node.pool else None
        return build(stack, str(node.pool), str(node.cloud), node.machine) if stack else ()

    return look_up
