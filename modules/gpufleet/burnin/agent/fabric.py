"""Adapters of a fabric in sysfs: EFA devices, RDMA ports with their link and counters, and network interfaces."""

from __future__ import annotations

from typing import Any

from .gpu import AMD, list_gpu_pci_addresses
from .host import HostAccess

# Amazon's Elastic Fabric Adapter: device ids 0xefa0 to 0xefa3 so far (rdma-core, providers/efa).
AMAZON, EFA_DEVICE = "0x1d0f", "0xefa"
PORT_FILES = ("link_layer", "state", "phys_state", "rate")
# InfiniBand's own counters, and those of the driver (mlx5: RoCE; efa: per device).
PORT_COUNTERS = (
    "link_downed",
    "symbol_error",
    "link_error_recovery",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "port_xmit_discards",
)
DRIVER_COUNTERS = ("rnr_nak_retry_err", "local_ack_timeout_err", "roce_slow_restart", "no_completion_cmds")
CARRIER_COUNTERS = ("carrier_down_count", "carrier_changes")
LINK_FILES = ("max_link_speed", "max_link_width")
MAX_PORTS = 64  # whose counters a record keeps


def read_fabric(host: HostAccess, root: str) -> dict[str, Any]:
    """Return the adapters that a fabric may use."""
    return {
        "efa": list_efa_devices(host, f"{root}/bus/pci/devices"),
        "rdma": list_rdma_ports(host, f"{root}/class/infiniband"),
        "interfaces": list_interfaces(host, f"{root}/class/net"),
        "uptime_s": read_uptime_s(host),
    }


def read_uptime_s(host: HostAccess) -> float | None:
    """Return for how many seconds the kernel has run."""
    try:
        return float((host.read_text_file("/proc/uptime") or "").split()[0])
    except (IndexError, ValueError):
        return None


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
    """Return every port of every RDMA device with its link, its counters, and the card that it is on."""
    return [
        {
            "device": device,
            "port": port,
            **{name: host.read_text_file(f"{base}/{device}/ports/{port}/{name}") for name in PORT_FILES},
            **read_card(host, f"{base}/{device}"),
            "counters": read_port_counters(host, f"{base}/{device}", port) if number < MAX_PORTS else {},
        }
        for number, (device, port) in enumerate(list_port_names(host, base))
    ]


def list_port_names(host: HostAccess, base: str) -> list[tuple[str, str]]:
    """Return device and port of every RDMA port."""
    return [
        (device, port)
        for device in host.list_folder(base)
        for port in host.list_folder(f"{base}/{device}/ports")
    ]


def read_card(host: HostAccess, folder: str) -> dict[str, Any]:
    """Return a device's model and the card that it is on: the PCI address without the function."""
    device = host.resolve_path(f"{folder}/device")
    return {
        "model": host.read_text_file(f"{folder}/board_id") or host.read_text_file(f"{folder}/hca_type"),
        "card": device.resolve().name.partition(".")[0] if device.exists() else None,
        "is_virtual": bool(host.list_folder(f"{folder}/device/physfn")),
    }


def read_port_counters(host: HostAccess, folder: str, port: str) -> dict[str, int]:
    """Return the error counters of a port; those that its driver does not have are left out."""
    places = {name: f"{folder}/ports/{port}/counters/{name}" for name in PORT_COUNTERS}
    places |= {name: f"{folder}/ports/{port}/hw_counters/{name}" for name in DRIVER_COUNTERS[:-1]}
    places[DRIVER_COUNTERS[-1]] = f"{folder}/hw_counters/{DRIVER_COUNTERS[-1]}"
    counts = {name: host.read_integer_file(place) for name, place in places.items()}
    return {name: count for name, count in counts.items() if count is not None}


def read_link_counters(host: HostAccess, root: str) -> dict[str, Any]:
    """Return the counters of RDMA ports, of network interfaces that are up and of AMD GPUs, with the time since boot.

    amdgpu counts the replays of a card's PCIe link; NVIDIA's driver is asked by the check of its cards.
    """
    rdma, net = f"{root}/class/infiniband", f"{root}/class/net"
    interfaces = [
        name
        for name in host.list_folder(net)
        if host.resolve_path(f"{net}/{name}/device").exists()
        and host.read_text_file(f"{net}/{name}/operstate") == "up"
    ]
    return {
        "uptime_s": read_uptime_s(host),
        "ports": {
            f"{device}/{port}": read_port_counters(host, f"{rdma}/{device}", port)
            for device, port in list_port_names(host, rdma)[:MAX_PORTS]
        },
        "interfaces": {
            name: {counter: host.read_integer_file(f"{net}/{name}/{counter}") for counter in CARRIER_COUNTERS}
            for name in interfaces[:MAX_PORTS]
        },
        "gpus": {
            address: {
                "pcie_replay_count": count,
                **{
                    name: host.read_text_file(f"{root}/bus/pci/devices/{address}/{name}")
                    for name in LINK_FILES
                },
            }
            for address in list_gpu_pci_addresses(host, AMD, root)[:MAX_PORTS]
            if (count := host.read_integer_file(f"{root}/bus/pci/devices/{address}/pcie_replay_count"))
            is not None
        },
    }


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
