# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What roles ask about operating systems: which ones they support, and their values for one. No host is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.package import (
    defer_import_errors,
    require_gpufleet,
)

with defer_import_errors():
    from gpufleet.errors import InputError


def supported_system_names(role: str) -> dict[str, str]:
    """Return the systems that a role supports, by ID-VERSION_ID of /etc/os-release."""
    require_gpufleet()
    from ansible_collections.gpufleet.fleet.plugins.plugin_utils.system_data import list_supported_systems

    return {key: system.name for system in list_supported_systems(role) for key in system.os_release}


def role_system_values(systems_file: str, system_name: str) -> dict[str, Any]:
    """Return a role's values for one system, from the role's file systems.yml."""
    require_gpufleet()
    from ansible_collections.gpufleet.fleet.plugins.plugin_utils.system_data import read_role_system_values

    try:
        return read_role_system_values(Path(str(systems_file)), str(system_name))
    except InputError as error:
        raise AnsibleFilterError(str(error)) from None


def driver_system_name(system: Mapping[str, Any]) -> str:
    """Return the name of a driver plan's system (``id`` and ``version`` of /etc/os-release): rhel-9 for Rocky 9."""
    require_gpufleet()
    from gpufleet.catalog import find_driver_operating_system

    known = find_driver_operating_system(str(system["id"]), str(system["version"]))
    return known.name if known else f"{system['id']}-{system['version']}"


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "supported_systems": supported_system_names,
            "system_values": role_system_values,
            "driver_system_name": driver_system_name,
        }
