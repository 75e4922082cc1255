"""Raspberry Pi and Compute Blade: firmware flags, temperature, NVMe link, blade status."""

from __future__ import annotations

import re
from typing import Any

from .host import HostAccess, RawResult, error_result, not_run_result
from .identity import is_raspberry_pi

COMMAND_SECONDS = 10.0
LINK_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")


def run_tool(host: HostAccess, *argv: str) -> RawResult:
    """Run a tool and record its output; the controller parses it."""
    if host.which(argv[0]) is None:
        return not_run_result(f"{argv[0]} is not installed")
    output = host.run(argv, COMMAND_SECONDS)
    raw: dict[str, Any] = {"command": " ".join(argv), "text": output.out[:4000], "code": output.code}
    if host.is_fake_tool(argv[0]):
        raw["fake"] = True
    if output.code:
        return error_result(
            f"{argv[0]} exited with code {output.code}: {(output.err or output.out).strip()[:200]}", **raw
        )
    return RawResult("ran", raw=raw)


def check_throttled(host: HostAccess) -> RawResult:
    """Read the firmware's under-voltage and throttling flags."""
    return run_tool(host, "vcgencmd", "get_throttled")


def check_temperature(host: HostAccess) -> RawResult:
    """Read the SoC temperature from the firmware; without its tool, from the kernel on a Pi."""
    answer = run_tool(host, "vcgencmd", "measure_temp")
    zone = "/sys/class/thermal/thermal_zone0/temp"
    milli = host.read_integer(zone) if answer.status == "not_run" and is_raspberry_pi(host) else None
    if milli is None:
        return answer
    return RawResult("ran", raw={"command": zone, "text": f"temp={milli / 1000:.1f}'C"})


def check_nvme_link(host: HostAccess) -> RawResult:
    """Read each NVMe drive's size and PCIe link from sysfs."""
    root = host.get_param("nvme_sysfs", "/sys").rstrip("/")
    if not host.list_names(root):
        return not_run_result(f"{root} is not there")
    base = f"{root}/class/nvme"
    drives = [name for name in host.list_names(base) if re.fullmatch(r"nvme\d+", name)]
    devices = [{"name": name, **read_drive(host, f"{base}/{name}", name)} for name in drives]
    raw = {"root": root, "devices": devices, "expect_nvme": host.get_param("expect_nvme", 0)}
    return RawResult("ran", measured=len(devices), unit="drives", raw=raw)


def read_drive(host: HostAccess, base: str, name: str) -> dict[str, Any]:
    """Return one drive's model, size and link, as the kernel says them."""
    sectors = next(
        (
            host.read_integer(f"{base}/{part}/size")
            for part in host.list_names(base)
            if is_nvme_namespace(name, part)
        ),
        None,
    )
    facts: dict[str, Any] = {"model": host.read_text(f"{base}/model"), "sectors": sectors}
    facts.update({key: host.read_text(f"{base}/device/{key}") for key in LINK_FILES})
    return facts


def is_nvme_namespace(controller: str, part: str) -> bool:
    """Return whether a name is a namespace's folder (nvme0n1, or nvme0c0n1 with multipath) from other files."""
    return re.fullmatch(controller + r"(c\d+)?n\d+", part) is not None


def check_blade(host: HostAccess) -> RawResult:
    """Record the status of the blade's agent (fan, power, identity); it is not judged."""
    return run_tool(host, "bladectl", "get", "status")
