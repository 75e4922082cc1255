"""Which disks a cloud pool's nodes need for the volumes of their template."""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet import catalog
from gpufleet.fleet.pool_facts import find_pool_facts
from gpufleet.fleet.spec import FleetSpec, Pool

FIRST_DATA_DEVICE = "f"  # AWS recommends /dev/sdf to /dev/sdp for data volumes


@dataclass(frozen=True)
class PoolDisk:
    """A disk of the cloud that each node of a pool gets for one volume."""

    name: str
    size_gib: int


@dataclass(frozen=True)
class PoolVolumes:
    """What must be attached to each node, besides the boot disk and the drives that the machine always has.

    ``disks`` hold volumes of kind ssd. ``local_disk_count`` is the number of local drives to attach for volumes of
    kind nvme where the cloud sells a machine without them (GCP's scratch disks).
    """

    disks: tuple[PoolDisk, ...] = ()
    local_disk_count: int = 0


def pool_volumes(fleet: FleetSpec, pool: Pool) -> PoolVolumes:
    """Return what the volumes of a pool's template need beyond what its machine has."""
    volumes = fleet.resolve_blueprint(pool.template).application.volumes
    disks = tuple(PoolDisk(volume.name, volume.size_gib) for volume in volumes if volume.kind == "ssd")
    local_gib = sum(volume.size_gib for volume in volumes if volume.kind == "nvme")
    return PoolVolumes(disks, _count_local_disks(find_pool_facts(pool), local_gib))


def aws_device_name(number: int) -> str:
    """Return the device name that the disk of this number (0 for the first volume) is attached as on AWS."""
    return f"/dev/sd{chr(ord(FIRST_DATA_DEVICE) + number)}"


def uses_local_drives(fleet: FleetSpec, pool: Pool) -> bool:
    """Return whether the pool's template has volumes on local drives, or lays the drives out."""
    blueprint = fleet.resolve_blueprint(pool.template)
    has_volumes = any(volume.kind == "nvme" for volume in blueprint.application.volumes)
    return has_volumes or blueprint.hardware.storage.layout != "none"


def count_local_drives(fleet: FleetSpec, pool: Pool, machine: str) -> int | None:
    """Return how many local drives a node of the pool has, None if no source states it.

    ``machine`` is the node's own: a spot pool may have several kinds.
    """
    facts = find_pool_facts(pool, machine)
    if facts is None:
        return None
    return pool_volumes(fleet, pool).local_disk_count if facts.local_disk_counts else facts.local_disk_count


def largest_local_gib(pool: Pool) -> float | None:
    """Return the most GiB that local drives of a pool's node can have, None if no source states it."""
    facts = find_pool_facts(pool)
    if facts is None:
        return None
    if facts.local_disk_counts:
        return max(facts.local_disk_counts) * (facts.local_disk_gib or 0.0)
    return facts.local_disk_total_gib


def _count_local_disks(facts: catalog.MachineFacts | None, required_gib: int) -> int:
    """Return the smallest number of local disks that one may attach and that has room for the volumes."""
    if not required_gib or facts is None or facts.local_disk_gib is None:
        return 0
    size = facts.local_disk_gib
    return min((count for count in facts.local_disk_counts if count * size >= required_gib), default=0)
