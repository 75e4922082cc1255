"""GPUs on the PCI bus."""

from __future__ import annotations

from .host import HostAccess

NVIDIA, AMD = "0x10de", "0x1002"
# PCI base classes of GPUs: display controllers, and processing accelerators, which AMD's Instinct cards are.
GPU_CLASSES = ("0x03", "0x12")


def list_gpu_pci_addresses(host: HostAccess, vendor_id: str, sysfs: str = "/sys") -> list[str]:
    """Return PCI addresses of a vendor's GPUs: display and 3D controllers, and processing accelerators."""
    base = f"{sysfs}/bus/pci/devices"
    return [
        slot
        for slot in host.list_folder(base)
        if host.read_text_file(f"{base}/{slot}/vendor") == vendor_id
        and (host.read_text_file(f"{base}/{slot}/class") or "").startswith(GPU_CLASSES)
    ]
