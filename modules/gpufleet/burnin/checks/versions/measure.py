"""Versions of what a node runs: kernel, firmware of board, BMC, GPUs, adapters and drives, and drivers."""

from __future__ import annotations

import array
import fcntl
import os
import platform
import re
import socket
import struct
from typing import Any

from ...agent.host import HostAccess, RawCheckResult
from ...agent.identity import DMI, is_raspberry_pi
from ...agent.nvidia_cards import read_nvidia_cards

COMMAND_SECONDS = 10.0
LONGEST_VERSION = 100
MODULES = ("nvidia", "amdgpu", "mlx5_core", "efa", "ib_core")
# linux/sockios.h and linux/ethtool.h: struct ethtool_drvinfo has a command, then driver, version and firmware, 32 bytes
# each.
SIOCETHTOOL, ETHTOOL_GDRVINFO, DRVINFO_BYTES = 0x8946, 3, 196


class VersionList:
    """Versions by part; equal parts of a node share one entry, which then has each of their versions."""

    def __init__(self) -> None:
        self.parts: dict[str, list[str]] = {}

    def add(self, part: str, version: str | None) -> None:
        """Add a version, if there is one."""
        text = (version or "").strip()[:LONGEST_VERSION]
        if text and text not in self.parts.setdefault(part, []):
            self.parts[part].append(text)

    def as_record(self) -> dict[str, list[str]]:
        """Return the parts that have a version."""
        return {part: sorted(versions) for part, versions in sorted(self.parts.items()) if versions}


def read_adapter_firmware(interface: str) -> tuple[str, str] | None:
    """Return driver and firmware of a network interface, as `ethtool -i` does; None where the driver says nothing."""
    buffer = array.array("B", struct.pack("I", ETHTOOL_GDRVINFO) + bytes(DRVINFO_BYTES - 4))
    request = struct.pack("16sP", interface.encode(), buffer.buffer_info()[0])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, SIOCETHTOOL, request)
    except OSError:
        return None
    driver, _, firmware = (
        bytes(buffer[start : start + 32]).partition(b"\0")[0].decode("ascii", "replace")
        for start in (4, 36, 68)
    )
    return (driver, firmware) if driver else None


def add_system_versions(host: HostAccess, versions: VersionList) -> None:
    """Add operating system, kernel, board firmware, BMC, CPU microcode and loaded drivers."""
    release = re.search(
        r'^PRETTY_NAME="?([^"\n]*)', host.read_text_file("/etc/os-release") or "", re.MULTILINE
    )
    versions.add("operating system", release[1] if release else None)
    versions.add(
        "kernel",
        platform.release() if host.root == "/" else host.read_text_file("/proc/sys/kernel/osrelease"),
    )
    versions.add("BIOS", host.read_text_file(f"{DMI}/bios_version"))
    for device in host.list_folder("/sys/bus/platform/devices"):
        if device.startswith("ipmi_bmc"):
            versions.add("BMC", host.read_text_file(f"/sys/bus/platform/devices/{device}/firmware_revision"))
    versions.add("microcode", host.read_text_file("/sys/devices/system/cpu/cpu0/microcode/version"))
    for module in MODULES:
        versions.add(f"driver {module}", host.read_text_file(f"/sys/module/{module}/version"))
    if is_raspberry_pi(host) and host.which("vcgencmd") and not host.is_fake_tool("vcgencmd"):
        text = host.run(["vcgencmd", "bootloader_version"], COMMAND_SECONDS).out
        stamp = re.search(r"^timestamp (\d+)$", text, re.MULTILINE)
        versions.add("EEPROM", stamp[1] if stamp else None)


def add_device_versions(host: HostAccess, versions: VersionList) -> None:
    """Add the firmware of GPUs, RDMA devices, network adapters and NVMe drives."""
    for card in read_nvidia_cards(host):
        model = card.get("Model", "NVIDIA GPU").strip()
        versions.add(f"GPU {model} VBIOS", card.get("Video BIOS"))
        versions.add(f"GPU {model} GSP firmware", card.get("GPU Firmware"))
    devices = "/sys/bus/pci/devices"
    for address in host.list_folder(devices):
        device = host.read_text_file(f"{devices}/{address}/device")
        versions.add(f"GPU {device} VBIOS", host.read_text_file(f"{devices}/{address}/vbios_version"))
    for name in host.list_folder("/sys/class/infiniband"):
        base = f"/sys/class/infiniband/{name}"
        versions.add(
            f"RDMA {host.read_text_file(f'{base}/hca_type') or 'device'}",
            host.read_text_file(f"{base}/fw_ver"),
        )
    for name in host.list_folder("/sys/class/nvme"):
        base = f"/sys/class/nvme/{name}"
        versions.add(
            f"NVMe {host.read_text_file(f'{base}/model')}", host.read_text_file(f"{base}/firmware_rev")
        )
    for name in host.list_folder("/sys/class/net") if host.root == "/" else []:
        if os.path.exists(f"/sys/class/net/{name}/device"):  # noqa: PTH110 - only a card has one
            adapter = read_adapter_firmware(name)
            if adapter:
                versions.add(f"adapter {adapter[0]}", adapter[1])


def measure_host(host: HostAccess) -> RawCheckResult:
    """List the versions; the controller compares them with those of equal nodes."""
    versions = VersionList()
    add_system_versions(host, versions)
    add_device_versions(host, versions)
    raw: dict[str, Any] = {"parts": versions.as_record()}
    return RawCheckResult("ran", measured=len(raw["parts"]), unit="parts", raw=raw)
