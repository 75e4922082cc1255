# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Limits of logins and services, huge pages and their policy. Pure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry, UnitEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    managed_file_text,
    read_not_applied_reasons,
)

LOGINS = "/etc/security/limits.d/60-gpufleet.conf"
SERVICES = "/etc/systemd/system.conf.d/60-gpufleet.conf"
POLICY_UNIT = "gpufleet-hugepages.service"
POLICY = f"/etc/systemd/system/{POLICY_UNIT}"
POLICY_SWITCH = "/sys/kernel/mm/transparent_hugepage/enabled"


class HugepageAndLimitSettings(TypedDict):
    """The role's settings; 0 pages leave the kernel's own number."""

    memlock: str
    nofile: int
    hugepages: int
    transparent: str


class HugepageAndLimitResources(TypedDict):
    files: list[FileEntry]
    sysctl: dict[str, int]
    units: list[UnitEntry]


def hugepage_and_limit_resources(settings: HugepageAndLimitSettings) -> HugepageAndLimitResources:
    """Return files, kernel settings and units."""
    pages = settings["hugepages"]
    # Services that start from now on have the new limits; those that run keep theirs until they start again.
    units: list[UnitEntry] = [{"name": "multi-user.target", "daemon_reload_on": [SERVICES]}]
    if settings["transparent"] != "unmanaged":
        units.append({"name": POLICY_UNIT, "enabled": True, "state": "started", "restart_on": [POLICY]})
    return {
        "files": [*_limit_files(settings), _policy_file(settings)],
        "sysctl": {"vm.nr_hugepages": pages} if pages else {},
        "units": units,
    }


def _limit_files(settings: HugepageAndLimitSettings) -> list[FileEntry]:
    memlock, nofile = settings["memlock"], settings["nofile"]
    limits = [
        f"{login} - {limit}"
        for login in ("*", "root")  # pam_limits leaves root out of `*`
        for limit in (f"memlock {memlock}", f"nofile {nofile}")
    ]
    # systemd writes "infinity" for "unlimited".
    defaults = [
        f"DefaultLimitMEMLOCK={str(memlock).replace('unlimited', 'infinity')}",
        f"DefaultLimitNOFILE={nofile}",
    ]
    return [
        {"path": LOGINS, "content": managed_file_text(limits)},
        {"path": str(PurePosixPath(SERVICES).parent), "state": "directory"},
        {"path": SERVICES, "content": managed_file_text(["[Manager]", *defaults])},
    ]


def _policy_file(settings: HugepageAndLimitSettings) -> FileEntry:
    policy = settings["transparent"]
    lines = [
        "[Unit]",
        "Description=Policy of transparent huge pages",
        f"ConditionPathIsReadWrite={POLICY_SWITCH}",
        "",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        f"ExecStart=/bin/sh -c 'echo {policy} >{POLICY_SWITCH}'",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    state = "absent" if policy == "unmanaged" else "file"
    return {"path": POLICY, "state": state, "content": managed_file_text(lines)}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "limits_resources": hugepage_and_limit_resources,
            "limits_not_applied": read_not_applied_reasons,
        }
