# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What became worse on a host through its restart. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict


class RestartDriverState(TypedDict):
    """The part of ``gpufleet.fleet.driver_state``'s result that a restart can change."""

    failed_units: list[str]
    installed: str | None
    loaded: str | None
    container: str | None


def find_restart_problems(after: RestartDriverState, *, before: RestartDriverState) -> list[str]:
    """Return the units that only failed after the restart, and a driver that is installed but not loaded."""
    newly_failed = [unit for unit in after["failed_units"] if unit not in before["failed_units"]]
    problems = [f"units failed: {', '.join(newly_failed)}"] if newly_failed else []
    installed, loaded = after["installed"], after["loaded"]
    # A container has its host's kernel, so its own package decides nothing.
    if installed is not None and after["container"] is None and loaded != installed:
        problems.append(f"driver {installed} is installed, {loaded or 'none'} is loaded")
    return problems


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"restart_problems": find_restart_problems}
