"""The host's identity, from firmware and the system."""

from __future__ import annotations

import os
import platform
from typing import Any

from .host import HostAccess

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
    }


def is_raspberry_pi(host: HostAccess) -> bool:
    """Return whether the device tree names a Raspberry Pi."""
    return any("Raspberry Pi" in (host.read_text_file(f"{tree}/model") or "") for tree in DEVICE_TREES)
