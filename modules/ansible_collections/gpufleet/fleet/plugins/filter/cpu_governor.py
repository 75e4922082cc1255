# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a host keeps its CPU governor, and why it cannot. Pure.

A host with tuned (RHEL has it by default) gets a profile of tuned, which would otherwise set its own governor. Any
other host gets a unit. Raspberry Pi OS sets `ondemand` at each boot (raspi-config), so the unit starts after that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry, UnitEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    SYSTEM_UNITS,
    managed_file_text,
    read_not_applied_reasons,
)

UNIT = "gpufleet-cpu-governor.service"
UNIT_PATH = f"{SYSTEM_UNITS}/{UNIT}"
PROFILE = "gpufleet"
DEFAULT = "default"
DEFAULT_PROFILE = "throughput-performance"  # Red Hat's for servers: RHEL 7 Performance Tuning Guide, A.5


class CpuGovernorResources(TypedDict):
    """The files and units of a governor, and the command that puts a profile of tuned in force."""

    files: list[FileEntry]
    units: list[UnitEntry]
    command: list[str]


def cpu_governor_problem(probe: Mapping[str, str], *, governor: str) -> str:
    """Return why the host cannot have the governor: its driver does not offer it; empty if it can."""
    available = probe.get("available", "").split()
    if not available or governor in (DEFAULT, *available):
        return ""
    return f"cpu_governor_name is {governor}: this host's CPU driver offers {', '.join(available)}; nothing was changed"


def cpu_governor_resources(probe: Mapping[str, str], *, governor: str, folder: str) -> CpuGovernorResources:
    """Return what keeps the governor over restarts; ``folder`` is the kernel's folder of CPU frequencies."""
    if not probe.get("available"):
        return {"files": [], "units": [], "command": []}
    if probe.get("tuned") == "yes":
        return _tuned_resources(probe, governor)
    if governor == DEFAULT:
        return {"files": [{"path": UNIT_PATH, "state": "absent"}], "units": [], "command": []}
    lines = [
        "[Unit]",
        "Description=Governor of the CPU frequencies",
        "After=raspi-config.service",
        f"ConditionPathIsReadWrite={folder}/policy0/scaling_governor",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        f"ExecStart=/bin/sh -c 'for file in {folder}/policy*/scaling_governor; do echo {governor} >$file; done'",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    unit: UnitEntry = {"name": UNIT, "enabled": True, "state": "started", "restart_on": [UNIT_PATH]}
    command = [] if probe.get("current", "").split() == [governor] else ["systemctl", "restart", UNIT]
    return {
        "files": [{"path": UNIT_PATH, "content": managed_file_text(lines)}],
        "units": [unit],
        "command": command,
    }


def _tuned_resources(probe: Mapping[str, str], governor: str) -> CpuGovernorResources:
    path = f"{probe['profiles']}/{PROFILE}"
    active, included = probe.get("profile", ""), probe.get("include") or DEFAULT_PROFILE
    if governor == DEFAULT:
        command = ["tuned-adm", "profile", included] if active == PROFILE else []
        return {"files": [{"path": f"{path}/tuned.conf", "state": "absent"}], "units": [], "command": command}
    included = included if active == PROFILE else active or included
    lines = ["[main]", f"include={included}", "[cpu]", f"governor={governor}"]
    is_in_force = active == PROFILE and probe.get("current", "").split() == [governor]
    return {
        "files": [
            {"path": path, "state": "directory"},
            {"path": f"{path}/tuned.conf", "content": managed_file_text(lines)},
        ],
        "units": [],
        "command": [] if is_in_force else ["tuned-adm", "profile", PROFILE],
    }


def cpu_governor_not_applied(
    probe: Mapping[str, str], *, governor: str, applied: Mapping[str, Any]
) -> dict[str, Any]:
    """Return why the governor is not in force; empty if it is, or if none is declared."""
    if governor in ("", DEFAULT):
        return {}
    if not probe.get("available"):
        reason = (
            "the host cannot set CPU frequencies: a virtual machine or container, or its firmware sets them"
        )
        return {"cpu_governor": reason}
    return read_not_applied_reasons(applied)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "cpu_governor_problem": cpu_governor_problem,
            "cpu_governor_resources": cpu_governor_resources,
            "cpu_governor_not_applied": cpu_governor_not_applied,
        }
