# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Volumes and packages of the role storage. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NotRequired, TypedDict

# Every system that gpufleet configures has the same names.
FILESYSTEM_PACKAGES = {"xfs": "xfsprogs", "ext4": "e2fsprogs"}
ARRAY_PACKAGE = "mdadm"


class StorageVolume(TypedDict):
    """A volume as the role takes it, or what a hardware profile says of one; ``count`` 0 takes all free disks."""

    mount: NotRequired[str]
    devices: NotRequired[list[str]]
    filesystem: NotRequired[str]
    count: NotRequired[int]
    layout: NotRequired[str]


def storage_volumes(
    volumes: list[StorageVolume], *, drive_layout: StorageVolume, drives: list[str]
) -> list[StorageVolume]:
    """Return the inventory's volumes, and the one of the hardware profile if the node's local drives are named."""
    if not drives or not _is_layout_missing(volumes, drive_layout):
        return volumes
    volume = drive_layout.copy()
    volume["devices"] = drives
    return [*volumes, volume]


def storage_layout_not_applied(
    volumes: list[StorageVolume], *, drive_layout: StorageVolume
) -> dict[str, str]:
    """Return what the hardware profile asks for and no volume gives, as the registry takes it."""
    if not _is_layout_missing(volumes, drive_layout):
        return {}
    drives = "storage_local_drives and storage_scratch name none"
    return {"local_drives": f"the template lays out local drives ({drive_layout['layout']}), but {drives}"}


def _is_layout_missing(volumes: list[StorageVolume], drive_layout: StorageVolume) -> bool:
    is_requested = drive_layout.get("layout", "none") != "none"
    return is_requested and all(volume.get("mount") != drive_layout["mount"] for volume in volumes)


def storage_packages(volumes: Iterable[StorageVolume], *, wipe_confirmed: list[str]) -> list[str]:
    """Return the packages with the tools for the volumes' file systems and arrays."""
    volumes = list(volumes)
    filesystems = dict.fromkeys(volume.get("filesystem", "xfs") for volume in volumes)
    packages = [FILESYSTEM_PACKAGES[filesystem] for filesystem in filesystems]
    # Several disks become one, or a disk that is to be emptied may be a part of one.
    may_meet_arrays = bool(wipe_confirmed) or any(
        volume.get("count", 0) != 1 and volume.get("layout") != "single" for volume in volumes
    )
    return [*packages, ARRAY_PACKAGE] if may_meet_arrays else packages


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "storage_layout_not_applied": storage_layout_not_applied,
            "storage_packages": storage_packages,
            "storage_volumes": storage_volumes,
        }
