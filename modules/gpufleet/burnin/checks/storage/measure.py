"""Storage: free space, read-only mounts, and a scratch file written, synced, read back and verified."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mmap
import os
import time
from pathlib import Path
from typing import Any

from ...agent.fio import run_fio
from ...agent.host import HostAccess, RawCheckResult

MIB = 1 << 20
WRITE_COUNT = 3  # the fastest counts: what else a disk has to do can only slow it
# The scratch file takes no more than this share of what is free.
MAX_FREE_SHARE = 0.25
NETWORK_FILESYSTEMS = ("nfs", "cifs", "smb", "ceph", "fuse.sshfs", "9p")
MAX_LAYERS = 4  # of device mapper and RAID above a drive


def read_filesystem_space(path: str) -> dict[str, Any]:
    """Return a filesystem's size and what is free to this user."""
    stat = os.statvfs(path)
    return {
        "path": path,
        "total_gib": round(stat.f_blocks * stat.f_frsize / 2**30, 4),
        "free_gib": round(stat.f_bavail * stat.f_frsize / 2**30, 4),
        "free_share": round(stat.f_bavail / stat.f_blocks, 4) if stat.f_blocks else 0.0,
        "inodes_free_share": round(stat.f_favail / stat.f_files, 4) if stat.f_files else 1.0,
    }


def parse_mounts(text: str) -> list[dict[str, str]]:
    """Return /proc/mounts as dicts, in mount order."""
    rows = (line.split() for line in text.splitlines())
    return [
        {"device": row[0], "path": row[1].replace("\\040", " "), "type": row[2], "options": row[3]}
        for row in rows
        if len(row) >= 4  # noqa: PLR2004 - a mount line's four fields
    ]


def find_mount(path: str, mounts: list[dict[str, str]]) -> dict[str, str]:
    """Return the mount that a path lies on: the longest matching one, the last of equals."""
    real = os.path.realpath(path)
    parents = [row for row in mounts if (real + "/").startswith(row["path"].rstrip("/") + "/")]
    return max(reversed(parents), key=lambda row: len(row["path"]), default={})


def find_medium(host: HostAccess, path: str, mount: dict[str, str]) -> str | None:
    """Return what a folder's filesystem is on: nvme, emmc, sd, usb, disk or network; None where it is unknown."""
    if mount.get("type", "").startswith(NETWORK_FILESYSTEMS):
        return "network"
    with contextlib.suppress(OSError):
        device = Path(path).stat().st_dev
        place = host.resolve_path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
        if place.exists():
            return classify_block_device(host, os.path.realpath(place))
    # Overlay and btrfs have a device number of their own.
    place = host.resolve_path(f"/sys/class/block/{Path(mount.get('device', '')).name or 'none'}")
    return classify_block_device(host, os.path.realpath(place)) if place.exists() else None


def classify_block_device(host: HostAccess, folder: str) -> str:
    """Return the medium of a block device by its folder in sysfs; an encrypted or mirrored one is on its first part."""
    root = os.path.realpath(host.root).rstrip("/")
    for _ in range(MAX_LAYERS):
        below = host.list_folder(f"{folder[len(root) :]}/slaves")
        if not below:
            break
        folder = os.path.realpath(f"{folder}/slaves/{below[0]}")
    names = folder.split("/")
    if any(name.startswith("mmcblk") for name in names):
        disk = next(name for name in names if name.startswith("mmcblk"))
        card_type = host.read_text_file(f"{folder[len(root) : folder.index(disk)]}{disk}/device/type")
        return "sd" if card_type == "SD" else "emmc"
    if any(name.startswith("nvme") for name in names):
        return "nvme"
    return "usb" if any(name.startswith("usb") for name in names) else "disk"


def build_unique_file_block(index: int) -> bytes:
    """Return a MiB that belongs to one place of one run, so that a stale or misplaced read shows."""
    return hashlib.sha256(f"{os.getpid()}:{index}".encode()).digest() * (MIB // 32)


def open_unnamed_scratch_file(folder: str) -> int:
    """Open a scratch file that has no name any more: a killed agent leaves nothing behind."""
    name = os.path.join(folder, f".gpufleet-burn-in-{os.getpid()}")  # noqa: PTH118 - descriptors throughout
    descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    os.unlink(name)  # noqa: PTH108 - descriptors throughout
    return descriptor


def time_scratch_write(descriptor: int, mib: int) -> float:
    """Write and sync; return the seconds it took."""
    blocks = [build_unique_file_block(index) for index in range(min(mib, 16))]
    os.lseek(descriptor, 0, os.SEEK_SET)
    started = time.perf_counter()
    for index in range(mib):
        data = memoryview(blocks[index] if index < len(blocks) else build_unique_file_block(index))
        while data:
            data = data[os.write(descriptor, data) :]
    os.fsync(descriptor)
    return time.perf_counter() - started


def reopen_without_page_cache(descriptor: int) -> tuple[int, str]:
    """Reopen for reading past the page cache; where the filesystem refuses, drop its cached pages instead."""
    with contextlib.suppress(OSError, AttributeError):
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_DIRECT), "direct"
    with contextlib.suppress(OSError, AttributeError):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return os.dup(descriptor), "buffered"


def read_and_verify_scratch_blocks(descriptor: int, mib: int) -> dict[str, Any]:
    """Read back and compare; only the reads are timed."""
    reader, method = reopen_without_page_cache(descriptor)
    wrong_mib, seconds = 0, 0.0
    with mmap.mmap(-1, MIB) as buffer:
        for index in range(mib):
            started = time.perf_counter()
            size = os.preadv(reader, [buffer], index * MIB)
            seconds += time.perf_counter() - started
            wrong_mib += size != MIB or buffer[:] != build_unique_file_block(index)
    os.close(reader)
    return {
        "read_mb_per_s": round(mib * MIB / seconds / 1e6, 1),
        "read_method": method,
        "wrong_mib": wrong_mib,
    }


def write_and_verify_scratch_file(folder: str, mib: int) -> dict[str, Any]:
    """Write, sync, read back and compare; a full or failing disk is a finding, not a crash."""
    try:
        descriptor = open_unnamed_scratch_file(folder)
    except OSError as error:
        return {"write_error": errno.errorcode.get(error.errno or 0, str(error)), "scratch_mib": 0}
    try:
        rates = [round(mib * MIB / time_scratch_write(descriptor, mib) / 1e6, 1) for _ in range(WRITE_COUNT)]
        facts: dict[str, Any] = {
            "scratch_mib": mib,
            "write_mb_per_s": max(rates),
            "write_rates_mb_per_s": rates,
        }
        facts.update(read_and_verify_scratch_blocks(descriptor, mib))
    except OSError as error:
        facts = {"write_error": errno.errorcode.get(error.errno or 0, str(error)), "scratch_mib": mib}
    finally:
        os.close(descriptor)
    return facts


def measure_host(host: HostAccess) -> RawCheckResult:
    """Look at the root filesystem and exercise the scratch folder."""
    folder: str = host.get_parameter("scratch", "/var/tmp")  # noqa: S108 - disk-backed by convention, unlike /tmp
    table = parse_mounts(host.read_text_file("/proc/mounts") or "")
    root = find_mount("/", table)
    raw: dict[str, Any] = {
        "root": {
            **read_filesystem_space("/"),
            "type": root.get("type"),
            "read_only": is_mounted_read_only(root),
        },
        "scratch": {
            "folder": folder,
            "type": find_mount(folder, table).get("type"),
            "medium": find_medium(host, folder, find_mount(folder, table)),
        },
    }
    if not os.path.isdir(folder):  # noqa: PTH112 - a name, not a disk that is full
        return RawCheckResult("ran", reason=f"there is no folder {folder} (parameter scratch)", raw=raw)
    mib = min(host.get_parameter("storage_mib", 256), max_scratch_mib(folder))
    raw.update(
        write_and_verify_scratch_file(folder, mib) if mib > 0 else {"write_error": "ENOSPC", "scratch_mib": 0}
    )
    raw["fio"] = run_fio(host, folder) if mib > 0 else {"ran": False, "reason": "no room"}
    return RawCheckResult("ran", measured=raw.get("write_mb_per_s"), unit="MB/s", raw=raw)


def is_mounted_read_only(mount: dict[str, str]) -> bool | None:
    """Return whether a filesystem is mounted read-only, as after an error; None when the mount is not listed."""
    return "ro" in mount["options"].split(",") if mount else None


def max_scratch_mib(folder: str) -> int:
    """Return the MiB that a scratch file may take in a folder; 0 if the folder cannot be read."""
    try:
        stat = os.statvfs(folder)
    except OSError:
        return 0
    return int(stat.f_bavail * stat.f_frsize * MAX_FREE_SHARE / MIB)
