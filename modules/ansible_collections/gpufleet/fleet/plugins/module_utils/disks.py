# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""Which disks become a scratch volume, and by which steps: a pure function of the output of lsblk and blkid."""

from __future__ import annotations

import fnmatch
import hashlib
import struct
from typing import TypedDict

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError

KINDS = ("disk", "loop")
# Clouds grow disks by whole GiB; less than this is what mkfs leaves at the end of a disk.
SMALLEST_GROWTH = 512 << 20
SUPERBLOCKS = 4096  # bytes at the start of a device that have the superblock of either file system
EXT4_MAGIC = 0xEF53
MKFS = {"xfs": ["mkfs.xfs", "-q", "-L"], "ext4": ["mkfs.ext4", "-q", "-L"]}


class BlockDevice(TypedDict, total=False):
    """A block device as ``lsblk --json`` describes it; ``ebs`` is the name that AWS attached it as, from ``ebs.py``."""

    name: str
    path: str
    type: str
    size: int
    model: str | None
    serial: str | None
    tran: str | None
    ro: bool
    ebs: str
    mountpoints: list[str | None]
    children: list[BlockDevice]


class ScratchVolume(TypedDict):
    """One entry of the option ``volumes``."""

    mount: str
    devices: list[str]
    count: int
    layout: str
    filesystem: str
    options: list[str]
    owner: str
    group: str
    mode: str


# What blkid prints of a device, by its names (TYPE, LABEL, UUID, PTTYPE); empty where it finds nothing.
Signature = dict[str, str]


def volume_label(mount_point: str) -> str:
    """Return the file system's label for a mount point: XFS allows twelve characters."""
    return f"gf-{hashlib.sha256(mount_point.encode()).hexdigest()[:8]}"


def collapse_blanks(value: str | None) -> str:
    """Return one of lsblk's values without the blanks that pad it."""
    return " ".join(str(value or "").split())


def disk_matches_pattern(disk: BlockDevice, pattern: str) -> bool:
    """Return whether a disk matches a pattern; a loop device matches only by its path.

    A cloud's volume has no name of its own on the node, but its size is exactly the GiB that were asked for.
    """
    key, colon, rest = pattern.partition(":")
    if pattern.startswith("/dev/"):
        return fnmatch.fnmatchcase(disk["path"], pattern)
    values = {
        "model": disk.get("model"),
        "serial": disk.get("serial"),
        "transport": disk.get("tran"),
        "ebs": disk.get("ebs"),
        "size": f"{disk['size'] / 2**30:.10g}GiB",
    }
    if not colon or key not in values:
        raise HostError(
            f"devices: {pattern} must begin with /dev/, model:, serial:, transport:, size: or ebs:"
        )
    return disk["type"] == "disk" and fnmatch.fnmatchcase(collapse_blanks(values[key]), rest)


def select_disks(disks: list[BlockDevice], volume: ScratchVolume) -> list[BlockDevice]:
    """Return the disks of a volume; raise HostError if none or another number matches."""
    matches = [
        disk
        for disk in disks
        if disk["type"] in KINDS
        and disk["size"]
        and any(disk_matches_pattern(disk, p) for p in volume["devices"])
    ]
    present = ", ".join(
        f"{d['path']} ({collapse_blanks(d.get('model')) or d['type']})" for d in disks if d["size"]
    )
    patterns = " or ".join(volume["devices"])
    if not matches:
        raise HostError(
            f"{volume['mount']}: no disk matches {patterns}; disks of this host: {present or 'none'}"
        )
    if volume["count"] and len(matches) != volume["count"]:
        names = ", ".join(disk["path"] for disk in matches)
        raise HostError(f"{volume['mount']}: expected {volume['count']} disks, {patterns} matches {names}")
    return sorted(matches, key=lambda disk: disk["path"])


def flatten_device_tree(device: BlockDevice) -> list[BlockDevice]:
    """Return a device and everything on it."""
    return [
        device,
        *(deeper for child in device.get("children", []) for deeper in flatten_device_tree(child)),
    ]


def list_mount_points(device: BlockDevice) -> list[str]:
    """Return the mount points of a device and of everything on it, swap included."""
    return [place for part in flatten_device_tree(device) for place in part.get("mountpoints") or [] if place]


def describe_disk_contents(disk: BlockDevice, signature: Signature) -> str:
    """Return what is on a disk, as a predicate such as ``contains ext4``; empty if nothing is."""
    if places := list_mount_points(disk):
        return f"is in use: {', '.join(places)}"
    if "PTTYPE" in signature:
        return f"has a partition table ({signature['PTTYPE']})"
    if children := disk.get("children"):
        return f"contains {', '.join(child['path'] for child in children)}"
    if signature:
        return f"contains {signature.get('TYPE', 'data that blkid does not know')}"
    return "is read-only" if disk.get("ro") else ""


def find_existing_volume(
    disks: list[BlockDevice], signatures: dict[str, Signature], volume: ScratchVolume
) -> str | None:
    """Return the device that already is this volume: one of the disks, or the array of all of them."""
    name = volume_label(volume["mount"])
    arrays = [{c["path"] for c in disk.get("children", []) if c["type"] == "raid0"} for disk in disks]
    common = set.intersection(*arrays)
    paths = sorted(common) if common else [disks[0]["path"]] if len(disks) == 1 else []
    for path in paths:
        seen = signatures.get(path, {})
        if seen.get("LABEL") == name and seen.get("TYPE") == volume["filesystem"]:
            return path
    return None


def choose_volume_disks(
    disks: list[BlockDevice], signatures: dict[str, Signature], volume: ScratchVolume
) -> list[BlockDevice]:
    """Return the disks of a volume: all that match, or with the layout ``single`` one of them.

    That one is the disk that is the volume already; otherwise the first empty one.
    """
    matches = select_disks(disks, volume)
    if volume.get("layout") != "single":
        return matches
    existing = [disk for disk in matches if find_existing_volume([disk], signatures, volume)]
    empty = [disk for disk in matches if not describe_disk_contents(disk, signatures.get(disk["path"], {}))]
    return [*existing, *empty, *matches][:1]


def disk_clear_commands(
    disk: BlockDevice, signature: Signature, confirmed_serials: list[str]
) -> list[list[str]]:
    """Return the commands that empty a disk; raise HostError unless it is empty or its serial is confirmed."""
    contents = describe_disk_contents(disk, signature)
    if not contents:
        return []
    serial = collapse_blanks(disk.get("serial"))
    if list_mount_points(disk):
        raise HostError(f"{disk['path']} {contents}: unmount it, or name another disk")
    if disk.get("ro"):
        raise HostError(f"{disk['path']} is read-only and cannot be emptied: name another disk")
    if not serial or serial not in confirmed_serials:
        remedy = (
            f"to erase it, add its serial to storage_wipe_confirmed: {serial}"
            if serial
            else "it has no serial, so it cannot be confirmed for erasure"
        )
        raise HostError(f"{disk['path']} {contents}; {remedy}")
    other_parts = [
        part["path"]
        for part in flatten_device_tree(disk)[1:]
        if part["type"] != "part" and not part["type"].startswith("raid")
    ]
    if other_parts:
        raise HostError(f"{disk['path']} still contains {other_parts[0]}; close it first")
    arrays = dict.fromkeys(
        part["path"] for part in flatten_device_tree(disk)[1:] if part["type"].startswith("raid")
    )
    parts = [part["path"] for part in flatten_device_tree(disk)[1:] if part["type"] == "part"]
    return [["mdadm", "--stop", path] for path in arrays] + [
        ["wipefs", "--all", "--quiet", path] for path in [*parts, disk["path"]]
    ]


def plan_volume(
    disks: list[BlockDevice],
    signatures: dict[str, Signature],
    volume: ScratchVolume,
    confirmed_serials: list[str],
) -> tuple[str, list[list[str]]]:
    """Return the device to mount and the commands that make it; none if it exists already."""
    members = choose_volume_disks(disks, signatures, volume)
    existing = find_existing_volume(members, signatures, volume)
    if existing:
        return existing, []
    plan = []
    for disk in members:
        plan += [
            step
            for step in disk_clear_commands(disk, signatures.get(disk["path"], {}), confirmed_serials)
            if step not in plan
        ]
    device = members[0]["path"]
    if len(members) > 1:
        name = volume_label(volume["mount"])
        device = f"/dev/md/{name}"
        plan.append(
            ["mdadm", "--create", device, "--run", "--level=0", "--metadata=1.2", "--homehost=any",
             f"--name={name}", f"--raid-devices={len(members)}", *(disk["path"] for disk in members)]
        )  # fmt: skip
    return device, [*plan, [*MKFS[volume["filesystem"]], volume_label(volume["mount"]), device]]


def parse_filesystem_size(head: bytes, filesystem: str) -> int | None:
    """Return the bytes that a file system spans, from the first bytes of its device; None if it is not there.

    XFS: struct xfs_dsb of the kernel's fs/xfs/libxfs/xfs_format.h. ext4: struct ext4_super_block of fs/ext4/ext4.h.
    """
    if filesystem == "xfs":
        magic, block_size, blocks = struct.unpack_from(">4sIQ", head)
        return block_size * blocks if magic == b"XFSB" else None
    blocks_low, shift = (
        struct.unpack_from("<I", head, 1024 + 0x04)[0],
        struct.unpack_from("<I", head, 1024 + 0x18)[0],
    )
    (magic,) = struct.unpack_from("<H", head, 1024 + 0x38)
    (blocks_high,) = struct.unpack_from("<I", head, 1024 + 0x150)
    return (blocks_high << 32 | blocks_low) * (1024 << shift) if magic == EXT4_MAGIC else None


def grow_command(device: str, device_size: int, head: bytes, volume: ScratchVolume) -> list[str] | None:
    """Return the command that grows a mounted file system to its disk, None if it has that size."""
    size = parse_filesystem_size(head, volume["filesystem"])
    if size is None or device_size - size < SMALLEST_GROWTH:
        return None
    return ["xfs_growfs", volume["mount"]] if volume["filesystem"] == "xfs" else ["resize2fs", device]


def fstab_line(uuid: str, volume: ScratchVolume) -> str:
    """Return the line that mounts a volume at every boot; a missing disk does not stop the boot."""
    options = ",".join([*volume["options"], "nofail", "x-systemd.device-timeout=30s"])
    order = 2 if volume["filesystem"] == "ext4" else 0
    return f"UUID={uuid} {volume['mount']} {volume['filesystem']} {options} 0 {order}"


def replace_fstab_line(fstab_text: str, line: str, mount_point: str) -> str:
    """Return the text of fstab with this line as the only one for its mount point."""
    lines = [
        row
        for row in fstab_text.splitlines()
        if row == line or row.split()[1:2] != [mount_point] or row.startswith("#")
    ]
    if line not in lines:
        lines.append(line)
    return "".join(f"{row}\n" for row in lines)
