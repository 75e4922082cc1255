# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""What a Raspberry Pi's and a Compute Blade's tools answer, and what follows from it. Pure.

Sources, read 2026-11-21: bladectl's output in compute-blade-community/compute-blade-agent, cmd/bladectl/cmd_status.go
and util.go, pkg/hal/hal.go; power in uptime-industries/compute-blade docs/docs/blade/guides/poe.mdx; throttling bits
in Raspberry Pi's documentation of vcgencmd get_throttled.
"""

from __future__ import annotations

import re
from typing import TypedDict

FLAGS = {
    0: ("undervoltage", "now"),
    1: ("frequency capped", "now"),
    2: ("throttled", "now"),
    3: ("soft temperature limit", "now"),
    16: ("undervoltage", "since boot"),
    17: ("frequency capped", "since boot"),
    18: ("throttled", "since boot"),
    19: ("soft temperature limit", "since boot"),
}
# What feeds a blade, as bladectl says it: how much that may give. GPIO 23 tells the two apart, no more.
SUPPLY_WATTS = {"poe+": 30, "poeOrUsbC": 15}
STYLE = re.compile(r"\x1b\[[0-9;]*m")


class NvmeDrive(TypedDict):
    """An NVMe drive with its PCIe link: lanes, and GT/s per lane."""

    name: str
    model: str
    width: int | None
    gigatransfers: float | None


class BoardFinding(TypedDict):
    """A finding; ``level`` is fault, warning or unknown."""

    code: str
    level: str
    message: str


def parse_throttling_bits(text: str) -> int | None:
    """Return the bits of ``throttled=0x50005``, or None where the text is something else."""
    match = re.fullmatch(r"throttled=0x([0-9a-fA-F]{1,8})", text.strip())
    return int(match[1], 16) if match else None


def decode_throttling_flags(bits: int) -> dict[str, str]:
    """Return the flags and when they applied, ``{"undervoltage": "now"}``; now includes since boot."""
    names: dict[str, str] = {}
    for bit, (name, when) in FLAGS.items():
        if bits >> bit & 1:
            names.setdefault(name, when)
    return names


def parse_temperature_celsius(text: str) -> float | None:
    """Return the degrees of ``temp=52.1'C``."""
    match = re.fullmatch(r"temp=(-?\d{1,3}(?:\.\d+)?)'C", text.strip())
    return float(match[1]) if match else None


def parse_power_rails(text: str) -> dict[str, float]:
    """Return the volts and amperes of ``vcgencmd pmic_read_adc`` by rail; empty where the board has no such ADC."""
    readings = re.findall(r"^\s*(\S+_[AV]) (?:volt|current)\(\d+\)=([0-9.]+)[AV]\s*$", text, re.MULTILINE)
    return {name: float(value) for name, value in readings}


def parse_bladectl_status(text: str) -> dict[str, str]:
    """Return the table of ``bladectl get status`` as heading to value; empty if it cannot be parsed."""
    rows = []
    for line in STYLE.sub("", text).splitlines():
        cells = [cell.strip() for cell in re.split(r"[│|]", line.strip().strip("│|"))]
        if len(cells) > 1 and any(re.search(r"\w", cell) for cell in cells):
            rows.append(cells)
    if len(rows) < 2 or len(rows[0]) != len(rows[1]):  # noqa: PLR2004 - headings and one blade
        return {}
    return dict(zip(rows[0], rows[1], strict=True))


def parse_bootloader_settings(text: str) -> dict[str, str]:
    """Return the settings of a bootloader configuration that apply to every board: those below [all]."""
    values, here = {}, True
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            here = line == "[all]"
        elif here and "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            values[name.strip()] = value.strip()
    return values


def replace_bootloader_settings(config_text: str, required: dict[str, str]) -> str:
    """Return a configuration with the required settings below [all]; every other line is unchanged."""
    other_lines, here = [], True
    for line in config_text.rstrip("\n").splitlines():
        if line.strip().startswith("["):
            here = line.strip() == "[all]"
        name = line.split("=", 1)[0].strip()
        if not (here and "=" in line and name in required):
            other_lines.append(line)
    lines = [*other_lines, "[all]", *(f"{name}={value}" for name, value in required.items())]
    return "\n".join(lines) + "\n"


def find_differing_settings(current: dict[str, str], required: dict[str, str]) -> dict[str, list[str | None]]:
    """Return each setting that differs, as name to [current, required]; numbers are compared as numbers."""
    return {
        name: [current.get(name), value]
        for name, value in required.items()
        if _number(current.get(name)) != _number(value)
    }


def _number(value: str | None) -> int | str | None:
    try:
        return int(str(value), 0)
    except ValueError:
        return value


def power_findings(
    throttling_bits: int | None, supply: str | None, required_watts: int
) -> list[BoardFinding]:
    """Return findings about throttling and about the supply."""
    reasons = []
    if throttling_bits is None:
        reasons.append(_reason("throttling_unknown", "unknown", "vcgencmd get_throttled does not answer"))
    for name, when in decode_throttling_flags(throttling_bits or 0).items():
        level = "fault" if when == "now" else "warning"
        code = f"{name.replace(' ', '_')}_{when.replace(' ', '_')}"
        reasons.append(_reason(code, level, f"{name} {when} (get_throttled {throttling_bits:#x})"))
    if supply is None:
        reasons.append(_reason("supply_unknown", "unknown", "bladectl does not report the blade's supply"))
    elif supply not in SUPPLY_WATTS:
        reasons.append(
            _reason("supply_unknown", "unknown", f"bladectl reports an unknown supply: {supply!r}")
        )
    elif SUPPLY_WATTS[supply] < required_watts:
        needs = f"the blade may need {required_watts} W: use a PoE+ (802.3at) port"
        message = f"{supply} supplies {SUPPLY_WATTS[supply]} W, {needs}"
        reasons.append(_reason("supply_too_small", "fault", message))
    return reasons


def nvme_link_findings(
    drives: list[NvmeDrive], min_lanes: int, min_gigatransfers: float
) -> list[BoardFinding]:
    """Return findings about PCIe links of NVMe drives that are narrower or slower than required."""
    reasons = []
    for drive in drives:
        width, speed = drive.get("width"), drive.get("gigatransfers")
        if width is None or speed is None:
            reasons.append(
                _reason("nvme_link_unknown", "unknown", f"{drive['name']}: its PCIe link cannot be read")
            )
        elif width < min_lanes:
            reasons.append(
                _reason(
                    "nvme_link_narrow",
                    "fault",
                    f"{drive['name']}: the PCIe link is x{width}, expected x{min_lanes}",
                )
            )
        elif speed < min_gigatransfers:
            message = (
                f"{drive['name']}: the PCIe link runs at {speed} GT/s, expected {min_gigatransfers} GT/s"
            )
            reasons.append(_reason("nvme_link_slow", "fault", message))
    return reasons


def boot_medium_findings(root_device: str, expected_medium: str) -> list[BoardFinding]:
    """Return findings about the medium that the node booted from, compared with the rack file."""
    begins = {"nvme": "/dev/nvme", "sd": "/dev/mmcblk", "emmc": "/dev/mmcblk"}.get(expected_medium)
    if not expected_medium or (expected_medium == "netboot" and not root_device.startswith("/dev/")):
        return []
    if not root_device.startswith("/dev/") and expected_medium != "netboot":
        return [
            _reason("boot_unknown", "unknown", f"the root file system is {root_device}: its disk is unknown")
        ]
    if begins is None or not root_device.startswith(begins):
        return [
            _reason("boot_elsewhere", "warning", f"booted from {root_device}, expected {expected_medium}")
        ]
    return []


def _reason(code: str, level: str, message: str) -> BoardFinding:
    return {"code": code, "level": level, "message": message}
