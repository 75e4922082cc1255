# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the role rocm installs and reports. Pure: reads no host and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    format_package_specs,
    parse_script_values,
)

VULKAN_REASONS = ("amd.vulkan_only", "rocm.container")


def rocm_packages(driver_plan: Mapping[str, Any]) -> list[str]:
    """Return NAME or NAME=VERSION of everything in a driver plan, headers first so that DKMS finds them."""
    planned = [*driver_plan["packages"], *((driver_plan["rocm"] or {}).get("packages") or [])]
    return list(dict.fromkeys([*driver_plan["headers"], *format_package_specs(planned)]))


def rocm_not_applied_reasons(
    driver_plan: Mapping[str, Any],
    *,
    look_result: Mapping[str, Any],
    members_result: Mapping[str, Any],
    check_mode: bool,
) -> dict[str, str]:
    """Return what the host cannot have, each with its reason."""
    if driver_plan["action"] == "refuse":
        refusal = driver_plan.get("refusal") or {}
        reasons = {"rocm": refusal.get("message", "the driver plan refuses")}
    elif not driver_plan["rocm"]:
        messages = [
            reason["message"] for reason in driver_plan["reasons"] if reason["code"] in VULKAN_REASONS
        ]
        reasons = {"rocm": next(iter(messages), "the driver plan has no ROCm for these cards")}
    else:
        reasons = _device_problems(parse_script_values(look_result), check_mode=check_mode)
    for line in members_result.get("stdout_lines") or []:
        if line.startswith("missing "):
            reasons[f"operator {line.split(' ')[1]}"] = "there is no such user or group"
    return reasons


def _device_problems(answers: Mapping[str, str], *, check_mode: bool) -> dict[str, str]:
    problems = {}
    if "kfd" not in answers:
        module = "amdgpu is loaded without compute" if "module" in answers else "no amdgpu driver is loaded"
        problems["kfd"] = f"there is no /dev/kfd: {module}"
    elif not answers["kfd"].startswith("render "):
        problems["kfd"] = f"/dev/kfd belongs to {answers['kfd']}; the rule takes hold at the next start"
    if message := answers.get("rocminfo_message"):
        problems["rocminfo"] = message
    elif "rocminfo" not in answers and not check_mode:
        problems["rocminfo"] = "rocminfo is not installed, so the cards were not checked"
    return problems


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "rocm_packages": rocm_packages,
            "rocm_not_applied": rocm_not_applied_reasons,
        }
