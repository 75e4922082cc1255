# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Version of NVIDIA's fabric manager, from a driver plan, and why it does not run yet. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.module_utils.driver_restart import START_ACTIONS
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import read_not_applied_reasons


def parse_upstream_version(package_version: str | None) -> str:
    """Return NVIDIA's own version: a package's without epoch and revision."""
    return re.sub(r"^(\d+:)?([0-9.]+).*$", r"\2", package_version or "")


def conflicting_driver_version(
    driver_plan: Mapping[str, Any], *, installed: str | None, check_mode: bool
) -> str:
    """Return the driver's version if the fabric manager is of another one, else an empty string.

    In check mode a driver that is only planned is not installed yet.
    """
    fabric_manager = parse_upstream_version(driver_plan["fabric_manager"]["packages"][0].get("version"))
    planned = parse_upstream_version(driver_plan.get("version"))
    if fabric_manager != planned:
        return planned
    if check_mode or installed == fabric_manager:
        return ""
    return installed or "(none installed)"


def fabric_manager_not_applied_reasons(
    applied: Mapping[str, Any], *, is_wanted: bool, state: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the host cannot have of its fabric manager: ``start`` if it starts with a later boot."""
    is_waiting = is_wanted and state["decision"]["action"] not in START_ACTIONS
    waiting = {"start": f"it starts with the machine: {state['decision']['reason']}"} if is_waiting else {}
    return waiting | read_not_applied_reasons(applied)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "nvidia_upstream_version": parse_upstream_version,
            "nvidia_conflicting_version": conflicting_driver_version,
            "nvidia_fabric_not_applied": fabric_manager_not_applied_reasons,
        }
