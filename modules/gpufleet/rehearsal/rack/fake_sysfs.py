"""Drives, network interfaces and RDMA ports that a rack file declares, in the format of sysfs, for rehearsed hosts."""

from __future__ import annotations

from gpufleet.fleet import NodeFabric, NodeHardware

SECTORS_PER_GB = 976_773_168 / 500  # a 500 GB drive's standard sector count (IDEMA LBA1-03)
LINK_LAYERS = {"infiniband": "InfiniBand", "roce": "Ethernet"}
ETHERNET = "1"  # ARPHRD_ETHER, include/uapi/linux/if_arp.h


def build_declared_sysfs_files(hardware: NodeHardware, storage_gb: float | None) -> dict[str, str]:
    """Return the files of what is declared in numbers, by path below the file system sysfs."""
    files: dict[str, str] = {}
    for number in range(hardware.drives or 0 if storage_gb else 0):
        files |= build_nvme_files(number, storage_gb or 0.0)
    for number in range(hardware.interfaces or 0):
        files[f"class/net/eth{number}/type"] = ETHERNET
        files[f"class/net/eth{number}/device/driver/module"] = "FAKE"
    if hardware.fabric:
        files |= _build_port_files(hardware.fabric)
    return files


def build_nvme_files(number: int, storage_gb: float) -> dict[str, str]:
    """Return the files of an NVMe drive: a CM4 has one PCIe 2.0 lane, fewer than the drive supports."""
    base = f"class/nvme/nvme{number}"
    return {
        f"{base}/device/current_link_speed": "5.0 GT/s PCIe",
        f"{base}/device/current_link_width": "1",
        f"{base}/device/max_link_speed": "8.0 GT/s PCIe",
        f"{base}/device/max_link_width": "4",
        f"{base}/model": f"FAKE NVMe {storage_gb:.0f}GB",
        f"{base}/nvme{number}n1/size": str(round(storage_gb * SECTORS_PER_GB)),
    }


def _build_port_files(fabric: NodeFabric) -> dict[str, str]:
    """Return active ports; states and rates are written as in Documentation/infiniband/sysfs of the kernel."""
    rate = (fabric.gbit_per_s or 100.0 * fabric.adapters) / fabric.adapters
    names = fabric.list_device_names() or tuple(f"mlx5_{number}" for number in range(fabric.adapters))
    return {
        f"class/infiniband/{device}/ports/1/{name}": text
        for device in names
        for name, text in {
            "link_layer": LINK_LAYERS[fabric.kind],
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "rate": f"{rate:g} Gb/sec (4X)",
        }.items()
    }
