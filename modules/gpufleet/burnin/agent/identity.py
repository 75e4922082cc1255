"""The host's identity, from firmware and the system."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from typing import Any

from .host import HostAccess
from .nvidia_cards import read_nvidia_cards

# The first is a link to the second, which containers may lack.
DEVICE_TREES = ("/proc/device-tree", "/sys/firmware/devicetree/base")
DMI = "/sys/class/dmi/id"


def read_host_identity(host: HostAccess) -> dict[str, Any]:
    """Return serial, machine id, model and the like; None where the host does not say."""
    serial_file = host.get_parameter("serial_file", "")
    places = (*(f"{tree}/serial-number" for tree in DEVICE_TREES), f"{DMI}/product_serial")
    serials = (host.read_text_file(place) for place in ((serial_file, *places) if serial_file else places))
    models = (
        host.read_text_file(place)
        for place in (*(f"{tree}/model" for tree in DEVICE_TREES), f"{DMI}/product_name")
    )
    return {
        "serial": next((serial for serial in serials if serial), None),
        "machine_id": host.read_text_file("/etc/machine-id"),
        "model": next((model for model in models if model), None),
        "arch": platform.machine(),
        "kernel": platform.release(),
        "hostname": platform.node(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "hardware": digest_hardware(host),
    }


def digest_hardware(host: HostAccess) -> str:
    """Return a digest of the machine's parts: an attempt is not resumed on a machine that was changed in between."""
    pci, block = "/sys/bus/pci/devices", "/sys/block"
    parts = [
        (slot, *(host.read_text_file(f"{pci}/{slot}/{name}") for name in ("vendor", "device")))
        for slot in host.list_folder(pci)
    ]
    drives = [name for name in host.list_folder(block) if name.startswith(("nvme", "sd", "mmcblk"))]
    serials = [
        host.read_text_file(f"{block}/{name}/{place}")
        for name in drives
        for place in ("device/serial", "device/wwid")
    ]
    # No more than these: an interrupt's number is another after a start.
    cards = [(card.get("GPU UUID"), card.get("Video BIOS")) for card in read_nvidia_cards(host)]
    memory = re.match(r"MemTotal:\s+(\d+)", host.read_text_file("/proc/meminfo") or "")
    gib = round(int(memory[1]) / 2**20) if memory else None
    return hashlib.sha256(json.dumps([parts, serials, cards, gib]).encode()).hexdigest()[:16]


def is_raspberry_pi(host: HostAccess) -> bool:
    """Return whether the device tree names a Raspberry Pi."""
    return any("Raspberry Pi" in (host.read_text_file(f"{tree}/model") or "") for tree in DEVICE_TREES)
