# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What GPUDirect Storage and gdrcopy need on a host, and why they do not work yet. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.filter.driver_plan import needs_driver_packages
from ansible_collections.gpufleet.fleet.plugins.filter.driver_services import driver_restart_reason
from ansible_collections.gpufleet.fleet.plugins.module_utils.driver_restart import START_ACTIONS
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import parse_script_values

GPUDIRECT_PACKAGE = re.compile(r"^(nvidia-gds|nvidia-fs|gdrdrv|libgdrapi|gdrcopy)(-|$)")


def needs_gpudirect(driver_plan: Mapping[str, Any]) -> bool:
    """True if the plan has packages of GDS or gdrcopy."""
    return needs_driver_packages(driver_plan) and bool(driver_plan.get("gpudirect"))


def unplanned_gpudirect(driver_plan: Mapping[str, Any], *, state: Mapping[str, Any]) -> list[str]:
    """Return the packages that an earlier plan had: they are held, so gpufleet installed them."""
    if not needs_driver_packages(driver_plan):
        return []
    planned = [package["name"] for package in driver_plan.get("gpudirect") or []]
    return [name for name in state.get("held", []) if GPUDIRECT_PACKAGE.match(name) and name not in planned]


def can_build_gpudirect(state: Mapping[str, Any]) -> bool:
    """True if the host builds kernel modules: not in a container, which has its host's kernel.

    There the packages are not installed: that of gdrdrv fails to install without its module.
    """
    return state.get("container") is None


def has_gpudirect_modules(state: Mapping[str, Any]) -> bool:
    """True if the host has a package whose modules are built against the driver."""
    return can_build_gpudirect(state) and any(map(GPUDIRECT_PACKAGE.match, state["packages"]))


def can_start_gpudirect(state: Mapping[str, Any]) -> bool:
    """True if the driver's module is loaded, so that modules which use it can be loaded too."""
    return can_build_gpudirect(state) and state["decision"]["action"] in START_ACTIONS


def loads_nvidia_fs(driver_plan: Mapping[str, Any], *, state: Mapping[str, Any]) -> bool:
    """True if the plan has GPUDirect Storage and its module can be loaded now."""
    names = [package["name"] for package in driver_plan.get("gpudirect") or []]
    return can_start_gpudirect(state) and any(name.startswith("nvidia-gds") for name in names)


def gpudirect_not_applied(verified: Mapping[str, Any], *, state: Mapping[str, Any]) -> dict[str, str]:
    """Return what the vendor's checks report, or the restart that the driver waits for."""
    if not can_build_gpudirect(state):
        return {"container": "a container uses the kernel modules of its host: nothing is installed"}
    reasons = parse_script_values(verified)
    waiting = driver_restart_reason(state)
    return {**reasons, **({"start": f"the modules load with the driver; {waiting}"} if waiting else {})}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "needs_gpudirect": needs_gpudirect,
            "unplanned_gpudirect": unplanned_gpudirect,
            "can_build_gpudirect": can_build_gpudirect,
            "has_gpudirect_modules": has_gpudirect_modules,
            "can_start_gpudirect": can_start_gpudirect,
            "loads_nvidia_fs": loads_nvidia_fs,
            "gpudirect_not_applied": gpudirect_not_applied,
        }
