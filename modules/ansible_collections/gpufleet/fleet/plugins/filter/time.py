# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The daemon that keeps a node's clock, and the servers that it asks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NotRequired, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry, UnitEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    managed_file_text,
    read_not_applied_reasons,
)

TIMESYNCD_FOLDER = "/etc/systemd/timesyncd.conf.d"
TIMESYNCD_FILE = f"{TIMESYNCD_FOLDER}/gpufleet.conf"
# chronyd reads the candidate and prints it. Where it is not installed yet (check mode) no program can verify it.
VALIDATE_CHRONY = [
    "sh",
    "-c",
    'command -v chronyd >/dev/null || exit 0; chronyd -p -f "$0" >/dev/null',
    "{}",
]


class TimeSyncSettings(TypedDict):
    """The role's settings."""

    daemon: str
    source: str
    servers: list[str]
    makestep_seconds: float
    makestep_updates: int


class TimeSource(TypedDict):
    """Where time comes from: ``servers`` for timesyncd, lines for chrony's configuration.

    A source that smears leap seconds must not be combined with a leap second table.
    """

    servers: list[str]
    chrony: list[str]
    smears: bool
    needs_chrony: NotRequired[bool]


class TimeSyncSystem(TypedDict):
    """A system's own daemon, and what chrony is like there."""

    time_daemon: str
    time_chrony_unit: str
    time_chrony_config: str
    time_chrony_drift: str
    time_chrony_leap_seconds: str
    time_chrony_pools: list[str]


class TimeSyncResources(TypedDict):
    packages: list[str]
    files: list[FileEntry]
    units: list[UnitEntry]


def time_sync_resources(
    settings: TimeSyncSettings, *, cloud_sources: Mapping[str, TimeSource], system: TimeSyncSystem
) -> TimeSyncResources:
    """Return the packages, files and units of the one daemon that keeps the clock.

    No package is removed here: apt removes the other daemon by itself, because both provide time-daemon.
    """
    source = _find_source(settings, cloud_sources, system)
    daemon = settings["daemon"]
    if daemon == "distribution":
        daemon = "chrony" if source.get("needs_chrony") else system["time_daemon"]
    if daemon == "timesyncd":
        return _timesyncd_resources(source)
    return _chrony_resources(settings, source, system)


def _find_source(
    settings: TimeSyncSettings, cloud_sources: Mapping[str, TimeSource], system: TimeSyncSystem
) -> TimeSource:
    """Return the operator's servers if there are any, else the source that the settings name."""
    if servers := settings["servers"]:
        lines = [f"server {server} iburst" for server in servers]
        return {"servers": servers, "chrony": lines, "smears": False}
    if settings["source"] == "distribution":
        return {"servers": [], "chrony": system["time_chrony_pools"], "smears": False}
    return cloud_sources[settings["source"]]


def _timesyncd_resources(source: TimeSource) -> TimeSyncResources:
    configuration: FileEntry = {
        "path": TIMESYNCD_FILE,
        "state": "file" if source["servers"] else "absent",
        "content": managed_file_text(["[Time]", f"NTP={' '.join(source['servers'])}"]),
    }
    return {
        "packages": ["systemd-timesyncd"],
        "files": [{"path": TIMESYNCD_FOLDER, "state": "directory"}, configuration],
        "units": [_started_unit("systemd-timesyncd.service", restart_on=TIMESYNCD_FILE)],
    }


def _chrony_resources(
    settings: TimeSyncSettings, source: TimeSource, system: TimeSyncSystem
) -> TimeSyncResources:
    path = system["time_chrony_config"]
    lines = [
        *source["chrony"],
        f"driftfile {system['time_chrony_drift']}",
        f"makestep {settings['makestep_seconds']} {settings['makestep_updates']}",
        "rtcsync",
        *([] if source["smears"] else [system["time_chrony_leap_seconds"]]),
    ]
    return {
        "packages": ["chrony"],
        "files": [{"path": path, "content": managed_file_text(lines), "validate": VALIDATE_CHRONY}],
        "units": [_started_unit(system["time_chrony_unit"], restart_on=path)],
    }


def _started_unit(name: str, *, restart_on: str) -> UnitEntry:
    return {"name": name, "enabled": True, "state": "started", "restart_on": [restart_on]}


def time_sync_not_applied_reasons(applied: Mapping[str, Any]) -> dict[str, str]:
    """Return why the clock is not kept.

    A container's clock is its host's: the unit is enabled, but its own condition keeps it from starting.
    """
    reasons = read_not_applied_reasons(applied).get("units") or {}
    return {"time": "; ".join(reasons.values())} if reasons else {}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"time_resources": time_sync_resources, "time_not_applied": time_sync_not_applied_reasons}
