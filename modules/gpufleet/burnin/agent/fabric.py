"""Adapters of a fabric in sysfs: EFA devices, RDMA ports with their link, and network interfaces with their driver."""

from __future__ import annotations

from typing import Any

from .host import HostAccess

# Amazon's Elastic Fabric Adapter: device ids 0xefa0 to 0xefa3 so far (rdma-core, providers/efa).
AMAZON, EFA_DEVICE = "0x1d0f", "0xefa"
PORT_FILES = ("link_layer", "state", "phys_state", "rate")


def read_fabric(host: HostAccess, root: str) -> dict[str, Any]:
    """Return the adapters that a fabric may use."""
    return {
        "efa": list_efa_devices(host, f"{root}/bus/pci/devices"),
        "rdma": list_rdma_ports(host, f"{root}/class/infiniband"),
        "interfaces": list_interfaces(host, f"{root}/class/net"),
    }


def read_driver_name(host: HostAccess, device_folder: str) -> str | None:
    """Return the driver that is bound to a device, or None."""
    driver = host.resolve_path(f"{device_folder}/driver")
    return driver.resolve().name if driver.exists() else None


def list_efa_devices(host: HostAccess, base: str) -> list[dict[str, Any]]:
    """Return EFA devices on the PCI bus, also those without a driver."""
    return [
        {"address": address, "driver": read_driver_name(host, f"{base}/{address}")}
        for address in host.list_folder(base)
        if host.read_text_file(f"{base}/{address}/vendor") == AMAZON
        and (host.read_text_file(f"{base}/{address}/device") or "").startswith(EFA_DEVICE)
    ]


def list_rdma_ports(host: HostAccess, base: str) -> list[dict[str, Any]]:
    """Return every port of every RDMA device with its link."""
    return [
        {
            "device": device,
            "port": port,
            **{name: host.read_text_file(f"{base}/{device}/ports/{port}/{name}") for name in PORT_FILES},
        }
        for device in host.list_folder(base)
        for port in host.list_folder(f"{base}/{device}/ports")
    ]


def list_interfaces(host: HostAccess, base: str) -> list[dict[str, Any]]:
    """Return network interfaces that are devices, with their driver: virtual ones have none."""
    found = [(name, read_driver_name(host, f"{base}/{name}/device")) for name in host.list_folder(base)]
    return [
        {
            "name": name,
            "driver": driver,
            "type": host.read_text_file(f"{base}/{name}/type"),
            "mtu": host.read_integer_file(f"{base}/{name}/mtu"),
        }
        for name, driver in found
        if driver
    ]
