"""NVMe drives and their PCIe links, from sysfs."""

from __future__ import annotations

import re

from ...agent.host import HostAccess, RawCheckResult, build_not_run_result
from ...agent.nvme_drive import read_nvme_drive


def measure_host(host: HostAccess) -> RawCheckResult:
    """Read each NVMe drive's size and PCIe link from sysfs."""
    root = host.get_parameter("sysfs", "/sys").rstrip("/")
    if not host.list_folder(root):
        return build_not_run_result(f"{root} is not there")
    base = f"{root}/class/nvme"
    drives = [name for name in host.list_folder(base) if re.fullmatch(r"nvme\d+", name)]
    devices = [{"name": name, **read_nvme_drive(host, f"{base}/{name}", name)} for name in drives]
    raw = {"root": root, "devices": devices, "expect_nvme": host.get_parameter("expect_nvme", 0)}
    return RawCheckResult("ran", measured=len(devices), unit="drives", raw=raw)
