# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""NFS mounts as lines of /etc/fstab. Pure.

gpufleet's lines have the option x-gpufleet.nfs. mount(8) of util-linux 2.38 passes options that begin with ``x-``
neither to the kernel nor to mount.nfs, and names x-APPLICATION.OPTION as their form (read 2026-11-23).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypedDict

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError

MARK = "x-gpufleet.nfs"
# A boot neither waits for the server nor fails without it.
BOUNDS = ("_netdev", "nofail", "x-systemd.mount-timeout=30s")
PORT = 2049
FSTAB_FIELDS = 4  # at least: source, mount point, type and options; /proc/mounts has the same
# Characters that fstab(5) and exports(5) read as they are.
PATH = re.compile(r"/[A-Za-z0-9_.@:+-]+(/[A-Za-z0-9_.@:+-]+)*")
SERVER = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*")
OPTION = re.compile(r"[a-z][a-z0-9_.-]*(=[A-Za-z0-9_.:/@+-]+)?")
# The root file system and what the boot or this run needs.
SYSTEM_FOLDERS = (
    "/boot",
    "/dev",
    "/etc",
    "/proc",
    "/run",
    "/sys",
    "/usr",
    "/var",
    "/root",
    "/bin",
    "/sbin",
    "/lib",
)


class NfsMount(TypedDict):
    """A server's folder and where it is mounted."""

    mount: str
    server: str
    path: str
    options: list[str]
    automount: bool


class FstabRow(NamedTuple):
    """A line of fstab or /proc/mounts with its fields."""

    line: str
    source: str
    mount: str
    type: str
    options: tuple[str, ...]


def parse_rows(fstab_text: str) -> list[FstabRow]:
    """Return the lines that mount something."""
    rows = []
    for line in fstab_text.splitlines():
        fields = line.split()
        if len(fields) >= FSTAB_FIELDS and not fields[0].startswith("#"):
            source, mount, kind, options = fields[:FSTAB_FIELDS]
            rows.append(FstabRow(line, source, mount, kind, tuple(options.split(","))))
    return rows


def is_plain_path(path: str) -> bool:
    """Return whether a path is absolute, without ``.`` and ``..``, and without characters that need an escape."""
    return bool(PATH.fullmatch(path)) and not {".", ".."} & set(path.split("/"))


def is_export_path(path: str) -> bool:
    """Return whether a server can export a path under this name: a plain path, or its root."""
    return path == "/" or is_plain_path(path)


def mount_problem(mount: NfsMount) -> str | None:
    """Return why a mount is refused, or None."""
    plain = "must be an absolute path without '..', spaces or special characters"
    if not is_plain_path(mount["mount"]):
        return f"the mount point {plain}"
    if mount["mount"] in SYSTEM_FOLDERS:
        return "is a folder of the system"
    if not is_export_path(mount["path"]):
        return f"the server's path {mount['path']} {plain}"
    if not SERVER.fullmatch(mount["server"]):
        return f"the server {mount['server']!r} is not a host name or address"
    invalid = [option for option in mount["options"] if not OPTION.fullmatch(option)]
    return f"{invalid[0]!r} is not NAME or NAME=VALUE" if invalid else None


def check_mounts(mounts: Sequence[NfsMount]) -> None:
    """Raise HostError for the first mount that is refused."""
    points = [mount["mount"] for mount in mounts]
    for mount in mounts:
        problem = mount_problem(mount)
        if not problem and points.count(mount["mount"]) > 1:
            problem = "is the mount point of two mounts"
        if problem:
            raise HostError(f"{mount['mount']}: {problem}; nothing was changed")


def mount_source(mount: NfsMount) -> str:
    """Return SERVER:PATH; an IPv6 address is in brackets."""
    server = f"[{mount['server']}]" if ":" in mount["server"] else mount["server"]
    return f"{server}:{mount['path']}"


def mount_port(mount: NfsMount) -> int:
    """Return the TCP port of the server."""
    ports = [option.partition("=")[2] for option in mount["options"] if option.startswith("port=")]
    return int(ports[-1]) if ports and ports[-1].isdigit() else PORT


def fstab_line(mount: NfsMount) -> str:
    """Return the line of a mount. Only the version 3 needs another type than nfs4."""
    is_version_3 = any(re.fullmatch(r"(nfs)?vers=3", option) for option in mount["options"])
    automount = ["x-systemd.automount"] if mount["automount"] else []
    options = ",".join([*mount["options"], *BOUNDS, *automount, MARK])
    return f"{mount_source(mount)} {mount['mount']} {'nfs' if is_version_3 else 'nfs4'} {options} 0 0"


def edit_fstab(fstab_text: str, mounts: Sequence[NfsMount]) -> str:
    """Return fstab with exactly these NFS mounts of gpufleet; a mount point of another line is an error."""
    requested = {mount["mount"]: fstab_line(mount) for mount in mounts}
    owned = {row.line for row in parse_rows(fstab_text) if MARK in row.options}
    for row in parse_rows(fstab_text):
        if row.mount in requested and row.line not in owned:
            raise HostError(f"/etc/fstab already mounts {row.source} at {row.mount}; remove that line first")
    lines = [line for line in fstab_text.splitlines() if line not in owned or line in requested.values()]
    lines += [line for line in requested.values() if line not in lines]
    return "".join(f"{line}\n" for line in lines)


def list_replaced_mount_points(fstab_text: str, mounts: Iterable[NfsMount]) -> list[str]:
    """Return the mount points of gpufleet's lines that are removed or changed."""
    lines = {fstab_line(mount) for mount in mounts}
    return [row.mount for row in parse_rows(fstab_text) if MARK in row.options and row.line not in lines]


def parse_active_mounts(proc_mounts: str) -> dict[str, str]:
    """Return mount point to type of what is mounted, from /proc/mounts; the last of two at one place counts."""
    return {row.mount: row.type for row in parse_rows(proc_mounts)}
