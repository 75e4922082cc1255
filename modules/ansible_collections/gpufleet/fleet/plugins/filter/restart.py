# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What became worse on a host through its restart. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.module_utils.driver_restart import DriverDecision


class RestartDriverState(TypedDict):
    """The part of ``gpufleet.fleet.driver_state``'s result that a restart can change."""

    failed_units: list[str]
    decision: DriverDecision


def find_restart_problems(reads: list[Mapping[str, Any]], *, before: RestartDriverState) -> list[str]:
    """Return the units that only failed after the restart, and a driver that does not run as installed.

    ``reads`` are the results of reading the state after the restart, some of them skipped; the last one counts.
    """
    after: RestartDriverState = [read["state"] for read in reads if "state" in read][-1]
    newly_failed = [unit for unit in after["failed_units"] if unit not in before["failed_units"]]
    problems = [f"units failed: {', '.join(newly_failed)}"] if newly_failed else []
    decision = after["decision"]
    # A container waits for its host's kernel, which its own restart does not change.
    if decision["action"] not in ("none", "ready", "wait"):
        problems.append("; ".join(filter(None, (decision["reason"], decision["remedy"]))))
    return problems


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"restart_problems": find_restart_problems}
