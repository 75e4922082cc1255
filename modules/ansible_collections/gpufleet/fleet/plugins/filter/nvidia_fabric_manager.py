# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Version of NVIDIA's fabric manager, from a driver plan, and why it does not run yet. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.filter.driver_services import (
    driver_daemon_dropin,
    driver_daemon_units,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.driver_restart import START_ACTIONS
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry, UnitEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import read_not_applied_reasons

IMEX_UNIT = "nvidia-imex.service"
IMEX_NODES = "/etc/nvidia-imex/nodes_config.cfg"


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


def is_imex_planned(driver_plan: Mapping[str, Any]) -> bool:
    """True if the plan has IMEX, the service of nodes in an NVLink rack, in place of a fabric manager."""
    return IMEX_UNIT in (driver_plan.get("fabric_manager") or {}).get("units", [])


def fabric_manager_units(driver_plan: Mapping[str, Any], *, state: Mapping[str, Any]) -> list[UnitEntry]:
    """Return the units; IMEX reads its list of nodes at its start."""
    fabric_manager = driver_plan["fabric_manager"]
    restart_on = [package["name"] for package in fabric_manager["packages"]]
    restart_on += [IMEX_NODES] if is_imex_planned(driver_plan) else []
    return driver_daemon_units(fabric_manager["units"], state=state, restart_on=restart_on)


def fabric_manager_files(
    driver_plan: Mapping[str, Any], *, state: Mapping[str, Any], imex_nodes: Iterable[str]
) -> list[FileEntry]:
    """Return the drop-in of the daemon, and for IMEX the list of its nodes."""
    if not is_imex_planned(driver_plan):
        return driver_daemon_dropin("nvidia-fabricmanager.service", state=state)
    lines = "".join(f"{address}\n" for address in imex_nodes)
    return [
        *driver_daemon_dropin(IMEX_UNIT, state=state),
        {"path": str(PurePosixPath(IMEX_NODES).parent), "state": "directory"},
        {"path": IMEX_NODES, "content": lines},
    ]


def imex_nodes_problem(driver_plan: Mapping[str, Any], *, imex_nodes: Iterable[str]) -> str:
    """Return why IMEX cannot be configured: its domain has no nodes; empty if it can, or if it is not planned."""
    if not is_imex_planned(driver_plan) or list(imex_nodes):
        return ""
    return (
        "IMEX has no nodes: set nvidia_fabric_manager_imex_nodes to the addresses of the hosts in this NVLink rack;"
        " nothing was installed"
    )


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
            "nvidia_imex_problem": imex_nodes_problem,
            "nvidia_fabric_manager_units": fabric_manager_units,
            "nvidia_fabric_manager_files": fabric_manager_files,
            "nvidia_upstream_version": parse_upstream_version,
            "nvidia_conflicting_version": conflicting_driver_version,
            "nvidia_fabric_not_applied": fabric_manager_not_applied_reasons,
        }
