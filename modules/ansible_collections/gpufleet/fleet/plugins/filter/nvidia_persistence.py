# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The packages of NVIDIA's persistence daemon, from a driver plan. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.filter.driver_plan import is_driver_managed_elsewhere
from ansible_collections.gpufleet.fleet.plugins.filter.driver_services import driver_restart_reason
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import read_not_applied_reasons


def persistence_daemon_packages(
    package_patterns: Mapping[str, list[str]], *, plan: Mapping[str, Any]
) -> list[str]:
    """Return the daemon's packages; ``package_patterns`` lists them by the origin of the driver (vendor, distribution).

    The daemon works with the driver of its own version. A distribution that numbers it differently names none.
    """
    version = plan.get("version") or ""
    return [
        pattern.replace("{branch}", str(plan["branch"])).replace("{version}", version)
        for pattern in package_patterns[plan["origin"]]
    ]


def persistence_not_applied_reasons(
    applied: Mapping[str, Any], *, plan: Mapping[str, Any], state: Mapping[str, Any]
) -> dict[str, Any]:
    """Return why the daemon does not run; the one of an image's own driver is only looked at."""
    if state and is_driver_managed_elsewhere(plan):
        daemon = state["persistence"]
        is_running = daemon is not None and daemon["active"]
        return (
            {}
            if is_running
            else {"persistence": "the image that brought the driver runs no persistence daemon"}
        )
    waiting = driver_restart_reason(state)
    return (
        {"start": f"it starts with the machine; {waiting}"} if waiting else {}
    ) | read_not_applied_reasons(applied)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "nvidia_persistence_packages": persistence_daemon_packages,
            "nvidia_persistence_not_applied": persistence_not_applied_reasons,
        }
