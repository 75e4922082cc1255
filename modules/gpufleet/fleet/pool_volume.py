"""Which disks a cloud pool's nodes need for the volumes of their template."""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.fleet.spec import Fleet, Pool


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


def pool_volumes(fleet: Fleet, pool: Pool) -> PoolVolumes:
    """Return what the volumes of a pool's template need beyond what its machine has."""
    volumes = fleet.resolve_blueprint(pool.template).application.volumes
    disks = tuple(PoolDisk(volume.name, volume.size_gib) for volume in volumes if volume.kind == "ssd")
    return PoolVolumes(disks)
