# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Units of NVIDIA's daemons, by the decision of gpufleet.fleet.driver_state: they refuse another module than theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.module_utils.driver_restart import (
    RESTART_ACTIONS,
    START_ACTIONS,
)
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry, UnitEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import unit_dropin_files

NO_DECISION = {"action": "none", "reason": ""}  # of a host on which the role did not read the state


def driver_daemon_units(
    unit_names: Iterable[str], *, state: Mapping[str, Any], restart_on: list[str]
) -> list[UnitEntry]:
    """Return the daemons, enabled; they are started now only if the loaded module is the installed one.

    Otherwise a change of their packages does not restart them either: the new daemon would refuse the old module.
    """
    if state["decision"]["action"] in START_ACTIONS:
        return [
            {"name": name, "enabled": True, "state": "started", "restart_on": restart_on}
            for name in unit_names
        ]
    return [{"name": name, "enabled": True} for name in unit_names]


def driver_daemon_dropin(
    unit_name: str, *, state: Mapping[str, Any], exec_start: str = ""
) -> list[FileEntry]:
    """Return the folder and the file that change a daemon's unit; none if there is nothing to change.

    A container has its host's kernel: without the driver's module, the daemon would fail at each boot.
    """
    has_no_module = state["decision"]["action"] not in START_ACTIONS
    lines = (
        ["[Unit]", "ConditionVirtualization=!container"]
        if state["container"] is not None and has_no_module
        else []
    )
    lines += ["[Service]", "ExecStart=", f"ExecStart={exec_start}"] if exec_start else []
    return unit_dropin_files(unit_name, lines) if lines else []


def restored_daemon_units(state: Mapping[str, Any], *, before: Mapping[str, Any]) -> list[UnitEntry]:
    """Return the daemons that were enabled before a rollback and that the restored packages have."""
    has_imex = any(name.startswith("nvidia-imex") for name in state["packages"])
    fabric_unit = "nvidia-imex.service" if has_imex else "nvidia-fabricmanager.service"
    existing = {
        "nvidia-persistenced.service": state["persistence"] is not None,
        fabric_unit: (state["fabric_manager"] or {}).get("enabled") is not None,
    }
    names = [name for name in before["services"] if existing.get(name)]
    return driver_daemon_units(names, state=state, restart_on=[])


def stopped_daemon_units(state: Mapping[str, Any]) -> list[UnitEntry]:
    """Return the enabled daemons to start: the module is loaded, and gpufleet installed the driver."""
    if state["decision"]["action"] != "start" or state["managed_by"] != "packages":
        return []
    return [
        {"name": name, "state": "started"} for name, value in state["services"].items() if value != "running"
    ]


def driver_restart_reason(state: Mapping[str, Any]) -> str:
    """Return why the driver is not in use yet, if a restart or a person has to change that; else an empty string."""
    decision = state.get("decision", NO_DECISION)
    if decision["action"] in RESTART_ACTIONS:
        return f"restart needed: {decision['reason']}"
    return str(decision["reason"]) if decision["action"] == "blocked" else ""


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "driver_daemon_units": driver_daemon_units,
            "driver_daemon_dropin": driver_daemon_dropin,
            "restored_daemon_units": restored_daemon_units,
            "stopped_daemon_units": stopped_daemon_units,
            "driver_restart_reason": driver_restart_reason,
        }
