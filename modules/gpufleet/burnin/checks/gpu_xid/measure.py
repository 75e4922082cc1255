"""The kernel log's events, grouped, on every node; raw output only, read centrally."""

from __future__ import annotations

import re
from typing import Any

from ...agent.host import HostAccess, RawCheckResult, build_error_result, build_not_run_result
from ...agent.kernel_log import KernelErrorGroups

COMMAND_SECONDS = 60.0
NOT_PERMITTED = 1
PCI_ADDRESS = re.compile(r"\b((?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.([0-7]))?\b")
MAX_DEVICES = 64


def measure_host(host: HostAccess) -> RawCheckResult:
    """Keep the kernel log's events, grouped, and what is at the PCI addresses that they name."""
    errors = KernelErrorGroups()
    output = host.run(["dmesg"], COMMAND_SECONDS, errors.add)
    if output.code == NOT_PERMITTED and "not permitted" in output.err:
        return build_not_run_result(
            "dmesg is not permitted: the kernel log belongs to the host of this container"
        )
    if output.code:
        return build_error_result(f"dmesg exited with code {output.code}: {output.err.strip()[:200]}")
    raw = errors.summarize()
    uptime = re.match(r"\d{1,12}\.\d{1,9}", host.read_text_file("/proc/uptime") or "")
    raw |= {"uptime_s": float(uptime[0])} if uptime else {}
    raw["pci"] = describe_devices(host, [str(group["line"]) for group in raw["groups"]])
    return RawCheckResult("ran", measured=errors.count, unit="lines", raw=raw)


def describe_devices(host: HostAccess, lines: list[str]) -> dict[str, dict[str, Any]]:
    """Return class, vendor and drive of each PCI device that a line names."""
    root = host.get_parameter("sysfs", "/sys").rstrip("/")
    devices: dict[str, dict[str, Any]] = {}
    for line in lines:
        for match in PCI_ADDRESS.finditer(line):
            address = f"{match[1]}.{match[2] or 0}".lower()
            address = address if address.count(":") > 1 else f"0000:{address}"
            folder = f"{root}/bus/pci/devices/{address}"
            if len(devices) < MAX_DEVICES and address not in devices and host.list_folder(folder):
                drives = host.list_folder(f"{folder}/nvme")
                devices[address] = {
                    "class": host.read_text_file(f"{folder}/class"),
                    "vendor": host.read_text_file(f"{folder}/vendor"),
                    **({"drive": drives[0]} if drives else {}),
                }
    return devices
