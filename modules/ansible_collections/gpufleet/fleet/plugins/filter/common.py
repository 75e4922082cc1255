# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The packages and files of the role common. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import managed_file_text


class CommonRoleSettings(TypedDict):
    """The role's settings; an empty text leaves that part of the host as it is."""

    packages: list[str]
    hostname: str
    timezone: str
    locale: str


class CommonSystemPaths(TypedDict):
    """Where a system keeps its timezone and locale."""

    common_timezone_files: list[FileEntry]
    common_locale_file: str


class CommonRoleResources(TypedDict):
    packages: list[str]
    files: list[FileEntry]


def common_role_resources(
    settings: CommonRoleSettings, *, system: CommonSystemPaths, topics: list[str]
) -> CommonRoleResources:
    """Return what the host is given of the selected topics."""
    files: list[FileEntry] = []
    if "hostname" in topics and settings["hostname"]:
        files += _hostname_files(settings["hostname"])
    if "time" in topics and settings["timezone"]:
        files += _timezone_files(settings["timezone"], system)
    if "locale" in topics and settings["locale"]:
        content = managed_file_text([f"LANG={settings['locale']}"])
        files.append({"path": system["common_locale_file"], "content": content})
    return {"packages": settings["packages"] if "packages" in topics else [], "files": files}


def _hostname_files(hostname: str) -> list[FileEntry]:
    addresses = ["127.0.0.1 localhost", f"127.0.1.1 {hostname}"]
    return [
        {"path": "/etc/hostname", "content": f"{hostname}\n"},
        {"path": "/etc/hosts", "state": "lines", "lines": addresses, "remove": [r"^127\.0\.1\.1\s"]},
    ]


def _timezone_files(timezone: str, system: CommonSystemPaths) -> list[FileEntry]:
    files: list[FileEntry] = [
        {"path": entry["path"], "content": f"{timezone}\n"} for entry in system["common_timezone_files"]
    ]
    return [{"path": "/etc/localtime", "state": "link", "target": f"/usr/share/zoneinfo/{timezone}"}, *files]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"common_resources": common_role_resources}
