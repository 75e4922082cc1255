# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Packages that the role storage needs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NotRequired, TypedDict

# Every system that gpufleet configures has the same names.
FILESYSTEM_PACKAGES = {"xfs": "xfsprogs", "ext4": "e2fsprogs"}
ARRAY_PACKAGE = "mdadm"


class StorageVolume(TypedDict):
    """What decides the packages of a volume; ``count`` 0 takes all free disks."""

    filesystem: NotRequired[str]
    count: NotRequired[int]


def storage_packages(volumes: Iterable[StorageVolume], *, wipe_confirmed: list[str]) -> list[str]:
    """Return the packages with the tools for the volumes' file systems and arrays."""
    volumes = list(volumes)
    filesystems = dict.fromkeys(volume.get("filesystem", "xfs") for volume in volumes)
    packages = [FILESYSTEM_PACKAGES[filesystem] for filesystem in filesystems]
    # Several disks become one, or a disk that is to be emptied may be a part of one.
    may_meet_arrays = bool(wipe_confirmed) or any(volume.get("count", 0) != 1 for volume in volumes)
    return [*packages, ARRAY_PACKAGE] if may_meet_arrays else packages


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"storage_packages": storage_packages}
