"""Raspberry Pi and Compute Blade: firmware flags, temperature, NVMe link, blade status."""

from __future__ import annotations

import re
from typing import Any

from .host import HostAccess, RawCheckResult, build_error_result, build_not_run_result
from .identity import is_raspberry_pi

COMMAND_SECONDS = 10.0
LINK_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")


def record_tool_output(host: HostAccess, *argv: str) -> RawCheckResult:
    """Run a tool and record its output; the controller parses it."""
    if host.which(argv[0]) is None:
        return build_not_run_result(f"{argv[0]} is not installed")
    output = host.run(argv, COMMAND_SECONDS)
    raw: dict[str, Any] = {"command": " ".join(argv), "text": output.out[:4000], "code": output.code}
    if host.is_fake_tool(argv[0]):
        raw["fake"] = True
    if output.code:
        return build_error_result(
            f"{argv[0]} exited with code {output.code}: {(output.err or output.out).strip()[:200]}", **raw
        )
    return RawCheckResult("ran", raw=raw)


def run_throttling_check(host: HostAccess) -> RawCheckResult:
    """Read the firmware's under-voltage and throttling flags."""
    return record_tool_output(host, "vcgencmd", "get_throttled")


def run_temperature_check(host: HostAccess) -> RawCheckResult:
    """Read the SoC temperature from the firmware; without its tool, from the kernel on a Pi."""
    answer = record_tool_output(host, "vcgencmd", "measure_temp")
    zone = "/sys/class/thermal/thermal_zone0/temp"
    milli = host.read_integer_file(zone) if answer.status == "not_run" and is_raspberry_pi(host) else None
    if milli is None:
        return answer
    return RawCheckResult("ran", raw={"command": zone, "text": f"temp={milli / 1000:.1f}'C"})


def run_nvme_link_check(host: HostAccess) -> RawCheckResult:
    """Read each NVMe drive's size and PCIe link from sysfs."""
    root = host.get_parameter("sysfs", "/sys").rstrip("/")
    if not host.list_folder(root):
        return build_not_run_result(f"{root} is not there")
    base = f"{root}/class/nvme"
    drives = [name for name in host.list_folder(base) if re.fullmatch(r"nvme\d+", name)]
    devices = [{"name": name, **read_nvme_drive(host, f"{base}/{name}", name)} for name in drives]
    raw = {"root": root, "devices": devices, "expect_nvme": host.get_parameter("expect_nvme", 0)}
    return RawCheckResult("ran", measured=len(devices), unit="drives", raw=raw)


def read_nvme_drive(host: HostAccess, sysfs_folder: str, controller: str) -> dict[str, Any]:
    """Return one drive's model, size and link, as the kernel says them."""
    sectors = next(
        (
            host.read_integer_file(f"{sysfs_folder}/{part}/size")
            for part in host.list_folder(sysfs_folder)
            if is_nvme_namespace(controller, part)
        ),
        None,
    )
    facts: dict[str, Any] = {"model": host.read_text_file(f"{sysfs_folder}/model"), "sectors": sectors}
    facts.update({key: host.read_text_file(f"{sysfs_folder}/device/{key}") for key in LINK_FILES})
    # The link `device` leads into the folder of the port that the drive is plugged into; a VM shows no port.
    ports = {key: host.read_text_file(f"{sysfs_folder}/device/../{key}") for key in LINK_FILES[2:]}
    facts.update({f"port_{key}": text for key, text in ports.items()})
    return facts


def is_nvme_namespace(controller: str, entry_name: str) -> bool:
    """Return whether a name is a namespace's folder (nvme0n1, or nvme0c0n1 with multipath) from other files."""
    return re.fullmatch(controller + r"(c\d+)?n\d+", entry_name) is not None


def run_compute_blade_check(host: HostAccess) -> RawCheckResult:
    """Record the status of the blade's agent (fan, power, identity); it is not judged."""
    return record_tool_output(host, "bladectl", "get", "status")
