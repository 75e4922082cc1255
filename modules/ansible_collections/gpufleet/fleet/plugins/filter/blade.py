# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the role blade makes of a blade's answers, and the settings that it gives the firmware. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import read_not_applied_reasons

NO_AGENT_PACKAGE = "blade_agent_package is not set; Debian has no package of the agent"

MAX_FAN_STEPS = (
    4  # fan_temp0 to fan_temp3, and the same for the HAT: raspberrypi/linux overlays/README, 2026-11-23
)
# The firmware throttles at 85 degrees (raspberrypi/documentation frequency-management.adoc), so no fan may wait longer.
MAX_TEMPERATURE = 85
MAX_SPEED = 255
MAX_LINE = (
    98  # raspberrypi/documentation what_is_config_txt.adoc: the firmware ignores the rest of a longer line
)
LINE = re.compile(r"([a-z][a-z0-9_]*)=[^\s#\[\]]*")
# What decides which files start; a wrong value leaves a node that needs its drive written again.
BOOT_PROPERTIES = (
    "arm_64bit", "auto_initramfs", "cmdline", "device_tree", "fixup_file", "initramfs", "kernel", "os_prefix",
    "overlay_prefix", "ramfsfile", "start_file", "start_x",
)  # fmt: skip


class FanStep(TypedDict):
    """From which temperature a fan runs faster, in degrees Celsius; the HAT's overlay fixes the speeds of its fan."""

    temperature: float
    hysteresis: NotRequired[float]
    speed: NotRequired[int]


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


def check_fan_steps(steps: Sequence[FanStep], variable: str) -> None:
    """Raise AnsibleFilterError if the steps are too many, out of range, or not in ascending order."""
    if len(steps) > MAX_FAN_STEPS:
        raise AnsibleFilterError(f"{variable} has {len(steps)} steps; the fan has {MAX_FAN_STEPS}")
    lower = (0.0, 0)
    for number, step in enumerate(steps):
        temperature, speed = step["temperature"], step.get("speed", 0)
        if not 0 < temperature <= MAX_TEMPERATURE:
            problem = f"{temperature:g} is not between 0 and {MAX_TEMPERATURE} degrees Celsius"
        elif not 0 < step.get("hysteresis", 1) < temperature:
            problem = f"the hysteresis {step['hysteresis']:g} is not between 0 and the temperature"
        elif not 0 <= speed <= MAX_SPEED:
            problem = f"the speed {speed} is not between 0 and {MAX_SPEED}"
        elif temperature <= lower[0] or speed < lower[1]:
            problem = "a step must be warmer than the step before it, and not slower"
        else:
            lower = (temperature, speed)
            continue
        raise AnsibleFilterError(f"{variable}[{number}]: {problem}")


def fan_parameter_lines(steps: Iterable[FanStep], prefix: str) -> list[str]:
    """Return the dtparam lines of a fan's steps, in thousandths of a degree."""
    lines = []
    for number, step in enumerate(steps):
        name = f"dtparam={prefix}{number}"
        lines.append(f"{name}={round(step['temperature'] * 1000)}")
        if "hysteresis" in step:
            lines.append(f"{name}_hyst={round(step['hysteresis'] * 1000)}")
        if "speed" in step:
            lines.append(f"{name}_speed={step['speed']}")
    return lines


def check_config_line(line: str) -> None:
    """Raise AnsibleFilterError for a line that the role does not write to config.txt."""
    match = LINE.fullmatch(line)
    if not match or len(line) > MAX_LINE:
        problem = f"{line!r} is not PROPERTY=VALUE of at most {MAX_LINE} characters without spaces or filters"
    elif match[1] in BOOT_PROPERTIES:
        problem = f"{match[1]} decides which files start, and the role does not write it"
    else:
        return
    raise AnsibleFilterError(f"blade_config_lines: {problem}")


def blade_config_settings(
    lines: list[str],
    *,
    poe_fan_steps: list[FanStep],
    poe_overlay: str,
    board_fan_steps: list[FanStep],
    usb_max_current: bool,
) -> list[str]:
    """Return the lines of gpufleet's block in config.txt.

    Parameters of the HAT come before any overlay, where the overlay that the HAT's EEPROM loads is still in scope. An
    empty ``dtoverlay=`` ends the scope of the block's own overlays.
    """
    check_fan_steps(poe_fan_steps, "blade_poe_fan_steps")
    check_fan_steps(board_fan_steps, "blade_board_fan_steps")
    for line in lines:
        check_config_line(line)
    settings = ["usb_max_current_enable=1"] if usb_max_current else []
    settings += fan_parameter_lines(board_fan_steps, "fan_temp")
    settings += [f"dtoverlay={poe_overlay}"] if poe_overlay else []
    settings += fan_parameter_lines(poe_fan_steps, "poe_fan_temp") + lines
    has_overlay = any(line.startswith("dtoverlay=") for line in settings)
    return [*settings, "dtoverlay="] if has_overlay else settings


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "blade_config_settings": blade_config_settings,
            "blade_faults": blade_fault_messages,
            "blade_not_applied": blade_not_applied_reasons,
        }
