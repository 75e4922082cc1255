"""AMD GPUs as the driver amdgpu shows them in sysfs; no tool is needed. Raw values only, read centrally."""

from __future__ import annotations

import re
from typing import Any

from ...agent.drm import RAS_COUNTS
from ...agent.fabric import read_driver_name
from ...agent.gpu import AMD, list_gpu_pci_addresses
from ...agent.host import HostAccess, RawCheckResult, build_not_run_result

NUMBERS = ("mem_info_vram_total", "mem_info_vram_used", "gpu_busy_percent", "pcie_replay_count", "xgmi_error")
TEXTS = (
    "device",
    "subsystem_vendor",
    "subsystem_device",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "vbios_version",
    "product_name",
    "product_number",
    "serial_number",
    "unique_id",
    "current_compute_partition",
    "current_memory_partition",
)
MAX_BAD_PAGE_CHARACTERS = 20_000


def measure_host(host: HostAccess) -> RawCheckResult:
    """Read every AMD GPU on the PCI bus."""
    devices = [read_amd_gpu(host, address) for address in list_gpu_pci_addresses(host, AMD)]
    raw = {"devices": devices, "expect_amd_gpus": host.get_parameter("expect_amd_gpus", 0)}
    if not devices:
        return build_not_run_result("no AMD GPU", **raw)
    return RawCheckResult("ran", measured=len(devices), unit="GPUs", raw=raw)


def read_amd_gpu(host: HostAccess, address: str) -> dict[str, Any]:
    """Return one GPU: driver, memory, link, identity, error counts, retired pages, temperatures."""
    base = f"/sys/bus/pci/devices/{address}"
    return {
        "slot": address,
        "driver": read_driver_name(host, base),
        "vram_bytes": host.read_integer_file(f"{base}/mem_info_vram_total"),
        **{name: host.read_integer_file(f"{base}/{name}") for name in NUMBERS[1:]},
        **{name: host.read_text_file(f"{base}/{name}") for name in TEXTS},
        "is_virtual": bool(host.list_folder(f"{base}/physfn")),
        "xgmi_hive_id": host.read_text_file(f"{base}/xgmi_hive_info/xgmi_hive_id"),
        "ras": read_ras(host, f"{base}/ras"),
        "temperatures": read_temperatures(host, f"{base}/hwmon"),
    }


def read_ras(host: HostAccess, base: str) -> dict[str, Any] | None:
    """Return enabled features, the error counts of each block and the bad pages; None without RAS."""
    names = host.list_folder(base)
    if not names:
        return None
    counts = {name: host.read_text_file(f"{base}/{name}") for name in names if RAS_COUNTS.fullmatch(name)}
    pages = host.read_text_file(f"{base}/gpu_vram_bad_pages")
    return {
        "features": host.read_text_file(f"{base}/features"),
        "counts": counts,
        "bad_pages": None if pages is None else cut_lines(pages),
    }


def cut_lines(text: str) -> str:
    """Return the whole lines within the limit; those of pages in use come first."""
    lines = sorted(text.splitlines(), key=lambda line: line.endswith("R"))
    while sum(len(line) + 1 for line in lines) > MAX_BAD_PAGE_CHARACTERS:
        lines.pop()
    return "\n".join(lines)


def read_temperatures(host: HostAccess, base: str) -> list[dict[str, Any]]:
    """Return the sensors in thousandths of a degree, each with its critical limit."""
    sensors = []
    for folder in host.list_folder(base):
        names = [
            name for name in host.list_folder(f"{base}/{folder}") if re.fullmatch(r"temp\d+_input", name)
        ]
        for name in names:
            stem = f"{base}/{folder}/{name.partition('_')[0]}"
            sensors.append(
                {
                    "label": host.read_text_file(f"{stem}_label"),
                    "millidegrees": host.read_integer_file(f"{stem}_input"),
                    "critical": host.read_integer_file(f"{stem}_crit"),
                }
            )
    return sensors
