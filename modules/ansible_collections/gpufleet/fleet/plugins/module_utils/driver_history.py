# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""The driver sets that a host had, for rollbacks, and the restart that did not help."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.module_utils import driver_restart
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import replace_file_atomically

MAX_SETS = 5


class DriverHistory(TypedDict):
    """The recorded driver sets of a host, the newest last; ``tried`` identifies a restart that did not help."""

    sets: list[dict[str, Any]]
    rolled_back_from: dict[str, str]
    tried: dict[str, str]


def read_driver_history(path: str) -> DriverHistory:
    try:
        stored = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stored = {}
    return {
        "sets": stored.get("sets", []),
        "rolled_back_from": stored.get("rolled_back_from", {}),
        "tried": stored.get("tried", {}),
    }


def update_restart_attempt(
    history: DriverHistory, state: dict[str, Any], *, has_restarted: bool
) -> DriverHistory:
    """Return the history with the restart that did not help, without one that is not needed any more."""
    decision = state["decision"]
    if decision["action"] in driver_restart.START_ACTIONS:
        return {**history, "tried": {}}
    if has_restarted and decision["action"] in driver_restart.RESTART_ACTIONS:
        return {**history, "tried": driver_restart.restart_attempt(decision["code"], state)}
    return history


def update_driver_history(
    history: DriverHistory, state: dict[str, Any], params: dict[str, Any]
) -> DriverHistory:
    """Return the history with the installed set added if it will be replaced."""
    requested = {entry["name"]: entry.get("version") for entry in params["planned_packages"]}
    here = state["packages"]
    same = all(name in here and version in (None, "", here[name]) for name, version in requested.items())
    if not requested or same:
        return history
    fresh = history.copy()
    now = {key: state[key] for key in ("packages", "held", "kernel", "loaded")}
    last = history["sets"][-1]["packages"] if history["sets"] else None
    if here and here != last:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        fresh["sets"] = [*history["sets"], {"recorded_at": at, "reason": params["reason"], **now}][-MAX_SETS:]
    if params["rolled_back"]:
        fresh["rolled_back_from"] = here
    elif history["rolled_back_from"]:
        fresh["rolled_back_from"] = {}
    return fresh


def write_driver_history(path: str, history: DriverHistory) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(history, indent=1, sort_keys=True) + "\n"
    replace_file_atomically(target, text, (0o644, os.geteuid(), os.getegid()))


def plan_package_rollback(
    state: dict[str, Any], requested_packages: list[dict[str, str]], held_names: list[str]
) -> dict[str, Any]:
    """Return the packages to restore: each at its version, and those to remove because they are new."""
    here = state["packages"]
    return {
        "present": [f"{name}={version}" for name, version in sorted(here.items())],
        "absent": sorted(entry["name"] for entry in requested_packages if entry["name"] not in here),
        "held": state["held"],
        "unheld": sorted({*held_names, *(entry["name"] for entry in requested_packages)} - {*state["held"]}),
        "version": state["installed"],
    }
