"""Hardware to compare with the inventory, from sysfs alone: GPUs on the PCI bus, drives, adapters of a fabric."""

from __future__ import annotations

import re
from typing import Any

from ...agent.fabric import read_fabric
from ...agent.gpu import AMD, NVIDIA, list_gpu_pci_addresses
from ...agent.host import HostAccess, RawCheckResult, build_not_run_result
from ...agent.nvme_drive import is_nvme_namespace, read_nvme_drive

# Hard drives and SSDs, virtual disks, SD cards and eMMC; NVMe drives are listed by their controllers.
OTHER_DRIVES = re.compile(r"(sd[a-z]+|vd[a-z]+|xvd[a-z]+|mmcblk\d+)")
EXPECTATIONS: dict[str, Any] = {
    "expect_gpus": 0,
    "expect_amd_gpus": 0,
    "expect_gpu_models": "",
    "expect_drive_gib": 0.0,
    "expect_drives": 0,
    "expect_interfaces": 0,
    "expect_mtu": 0,
    "expect_fabric": "",
    "expect_fabric_adapters": 0,
    "expect_fabric_devices": "",
    "expect_fabric_gbit_per_s": 0.0,
}


def measure_host(host: HostAccess) -> RawCheckResult:
    """List what the kernel sees, next to what the inventory declares."""
    root = host.get_parameter("sysfs", "/sys").rstrip("/")
    if not host.list_folder(root):
        return build_not_run_result(f"{root} is not there")
    gpus = [
        read_pci_identity(host, f"{root}/bus/pci/devices/{address}", address)
        for vendor in (NVIDIA, AMD)
        for address in list_gpu_pci_addresses(host, vendor, root)
    ]
    raw = {
        "root": root,
        "devices": gpus,
        "fabric": read_fabric(host, root),
        "drives": [*list_nvme_drives(host, root), *list_other_drives(host, root)],
        **{name: host.get_parameter(name, default) for name, default in EXPECTATIONS.items()},
    }
    return RawCheckResult("ran", measured=len(gpus), unit="GPUs", raw=raw)


def read_pci_identity(host: HostAccess, folder: str, address: str) -> dict[str, str | None]:
    """Return what a PCI device is."""
    names = ("vendor", "device", "class", "subsystem_vendor", "subsystem_device")
    return {"address": address, **{name: host.read_text_file(f"{folder}/{name}") for name in names}}


def list_nvme_drives(host: HostAccess, root: str) -> list[dict[str, Any]]:
    """Return NVMe drives with model and the size of each namespace in sectors of 512 bytes.

    Google's local SSDs are namespaces of one controller.
    """
    base = f"{root}/class/nvme"
    names = [name for name in host.list_folder(base) if re.fullmatch(r"nvme\d+", name)]
    facts = [(name, read_nvme_drive(host, f"{base}/{name}", name)) for name in names]
    return [
        {
            "name": name,
            "model": drive["model"],
            "sectors": drive["sectors"],
            "namespaces": list_namespace_sectors(host, f"{base}/{name}", name),
        }
        for name, drive in facts
    ]


def list_namespace_sectors(host: HostAccess, folder: str, controller: str) -> list[int | None]:
    """Return the size of each namespace of a controller."""
    names = [name for name in host.list_folder(folder) if is_nvme_namespace(controller, name)]
    return [host.read_integer_file(f"{folder}/{name}/size") for name in names]


def list_other_drives(host: HostAccess, root: str) -> list[dict[str, Any]]:
    """Return drives that are not NVMe, with model and size."""
    base = f"{root}/block"
    return [
        {
            "name": name,
            "model": host.read_text_file(f"{base}/{name}/device/model"),
            "sectors": host.read_integer_file(f"{base}/{name}/size"),
        }
        for name in host.list_folder(base)
        if OTHER_DRIVES.fullmatch(name)
    ]
