# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What GPUDirect Storage and gdrcopy need on a host, and why they do not work yet. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.filter.driver_plan import needs_driver_packages
from ansible_collections.gpufleet.fleet.plugins.filter.driver_services import driver_restart_reason
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import parse_script_values


def needs_gpudirect(driver_plan: Mapping[str, Any]) -> bool:
    """True if the plan has packages of GDS or gdrcopy."""
    return needs_driver_packages(driver_plan) and bool(driver_plan.get("gpudirect"))


def can_build_gpudirect(state: Mapping[str, Any]) -> bool:
    """True if the host builds kernel modules: not in a container, which has its host's kernel."""
    return state.get("container") is None


def gpudirect_not_applied(verified: Mapping[str, Any], *, state: Mapping[str, Any]) -> dict[str, str]:
    """Return what the vendor's checks report, or the restart that the driver waits for."""
    reasons = parse_script_values(verified)
    waiting = driver_restart_reason(state)
    return {**reasons, **({"start": f"the modules load with the driver; {waiting}"} if waiting else {})}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "needs_gpudirect": needs_gpudirect,
            "can_build_gpudirect": can_build_gpudirect,
            "gpudirect_not_applied": gpudirect_not_applied,
        }
