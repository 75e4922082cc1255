# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Limits of logins and services, huge pages and their policy. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    gigantic_pages: int
    transparent: str


class HugepageAndLimitResources(TypedDict):
    files: list[FileEntry]
    sysctl: dict[str, int]
    units: list[UnitEntry]


def hugepage_and_limit_resources(
    settings: HugepageAndLimitSettings, *, boot_file: str
) -> HugepageAndLimitResources:
    """Return files, kernel settings and units.

    ``boot_file`` is where the kernel's command line is extended; empty where gpufleet does not write it.
    """
    pages = settings["hugepages"]
    # Services that start from now on have the new limits; those that run keep theirs until they start again.
    units: list[UnitEntry] = [{"name": "multi-user.target", "daemon_reload_on": [SERVICES]}]
    if settings["transparent"] != "unmanaged":
        units.append({"name": POLICY_UNIT, "enabled": True, "state": "started", "restart_on": [POLICY]})
    return {
        "files": [*_limit_files(settings), _policy_file(settings), *_boot_files(settings, boot_file)],
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


def _boot_files(settings: HugepageAndLimitSettings, boot_file: str) -> list[FileEntry]:
    if not boot_file:
        return []
    if not settings["gigantic_pages"]:
        return [{"path": boot_file, "state": "absent"}]
    line = f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {hugepage_boot_arguments(settings)}"'
    return [
        {"path": str(PurePosixPath(boot_file).parent), "state": "directory"},
        {"path": boot_file, "content": managed_file_text([line])},
    ]


def hugepage_boot_arguments(settings: HugepageAndLimitSettings) -> str:
    """Return the kernel's arguments: pages of 1 GiB are found only while memory is whole, so it reserves them first."""
    return f"hugepagesz=1G hugepages={settings['gigantic_pages']}"


def hugepages_not_applied_reasons(
    settings: HugepageAndLimitSettings, *, applied: Mapping[str, Any], boot_hint: str
) -> dict[str, Any]:
    """Return what is not in force, each with its reason; ``boot_hint`` says what a system needs for boot arguments."""
    reasons = read_not_applied_reasons(applied)
    if settings["gigantic_pages"]:
        reasons["gigantic_pages"] = f"{hugepage_boot_arguments(settings)}: {boot_hint}"
    return reasons


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "limits_resources": hugepage_and_limit_resources,
            "limits_not_applied": hugepages_not_applied_reasons,
        }
