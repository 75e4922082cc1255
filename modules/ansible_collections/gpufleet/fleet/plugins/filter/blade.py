# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the role blade makes of a blade's answers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import read_not_applied_reasons

NO_AGENT_PACKAGE = "blade_agent_package is not set; Debian has no package of the agent"


class BladeFinding(TypedDict):
    """A reason of ``gpufleet.fleet.blade``: how bad it is, and what it says."""

    level: str
    message: str


def blade_fault_messages(blade_result: Mapping[str, list[BladeFinding]], *, fail_on: list[str]) -> list[str]:
    """Return the messages of the reasons that have one of the levels; a blade that was not read has none."""
    return [reason["message"] for reason in blade_result.get("reasons", []) if reason["level"] in fail_on]


def blade_not_applied_reasons(
    bootloader_result: Mapping[str, Any], *, agent: Mapping[str, Any], agent_package: str
) -> dict[str, Any]:
    """Return what a blade does not have of its settings, each with its reason."""
    missing_agent = {} if agent_package else {"agent": NO_AGENT_PACKAGE}
    return read_not_applied_reasons(bootloader_result) | read_not_applied_reasons(agent) | missing_agent


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"blade_faults": blade_fault_messages, "blade_not_applied": blade_not_applied_reasons}
