"""GPU work through Vulkan: AMD, Intel and other cards with any driver; NVIDIA's cards are tested through CUDA.

A device that computes on the CPU (llvmpipe) is tested only on request, and its record is marked.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...agent.card_work import build_cards_result, compute_work_limit_s, try_work, work_on_card
from ...agent.clibrary import LibraryError
from ...agent.drm import CardSensors, explain_use
from ...agent.gpu import AMD, list_gpu_pci_addresses
from ...agent.host import HostAccess, RawCheckResult, build_error_result, build_not_run_result
from ...agent.nvml import GpuSensors, open_sensors
from ...agent.vulkan_api import CONSTANTS, NAMES, RESULTS
from ...agent.vulkan_device import PhysicalDevice, VulkanDevice, list_physical_devices, open_instance
from ...agent.workers import run_job_with_deadline

LIST_SECONDS = 60.0
NVIDIA_VENDOR = 0x10DE
TYPE_NAMES = {
    CONSTANTS["VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU"]: "integrated",
    CONSTANTS["VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU"]: "discrete",
    CONSTANTS["VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU"]: "virtual",
    CONSTANTS["VK_PHYSICAL_DEVICE_TYPE_CPU"]: "cpu",
}


def list_vulkan_libraries(host: HostAccess) -> tuple[str, ...]:
    """Return the loader's names, or the file that the parameter ``vulkan_library`` names."""
    path: str = host.get_parameter("vulkan_library", "")
    return (path,) if path else NAMES


def explain_skip(device: PhysicalDevice, requested: set[str], earlier: list[str]) -> str:
    """Return why a device is not tested, or nothing; ``earlier`` are the addresses of devices that are."""
    kind = TYPE_NAMES.get(device.kind, "other")
    if kind == "cpu" and "cpu" not in requested:
        return "it computes on the CPU"
    if kind == "other":
        return "its driver does not say that it is a GPU"
    if device.vendor == NVIDIA_VENDOR and "nvidia" not in requested:
        return "NVIDIA cards are tested through CUDA"
    if device.bus_id and device.bus_id in earlier:
        return "another driver shows the same card"
    return ""


def list_devices(host: HostAccess) -> dict[str, Any]:
    """Return the places of the devices to test in Vulkan's list, and the others with the reason."""
    try:
        vulkan, instance = open_instance(list_vulkan_libraries(host))
    except LibraryError as error:
        if error.code in (None, RESULTS["VK_ERROR_INCOMPATIBLE_DRIVER"]):
            return {"missing": f"Vulkan: {error}"}
        raise
    requested = set(host.get_parameter("vulkan_devices", "").split(","))
    chosen: list[int] = []
    skipped, addresses = list[dict[str, str]](), list[str]()
    for place, device in enumerate(list_physical_devices(vulkan, instance)):
        reason = explain_skip(device, requested, addresses)
        if reason:
            skipped.append({"name": device.name, "reason": reason})
        else:
            chosen.append(place)
            addresses.append(device.bus_id)
    return {"chosen": chosen, "skipped": skipped}


def describe(device: VulkanDevice) -> dict[str, Any]:
    """Return what a device is."""
    physical = device.physical
    return {
        "name": physical.name,
        "bus_id": physical.bus_id,
        "vendor": f"{physical.vendor:04x}",
        "device": f"{physical.device:04x}",
        "type": TYPE_NAMES.get(physical.kind, "other"),
        "api": "{}.{}".format(*physical.api),
        "driver": physical.driver,
        "limits": physical.limits,
        "max_allocation": physical.max_allocation,
        "clock": "device" if device.timestamp_bits else "host",
    }


def find_sensors(host: HostAccess, physical: PhysicalDevice) -> CardSensors | GpuSensors | None:
    """Return a card's sensors: NVML's, or the kernel's files."""
    if not physical.bus_id:
        return None
    if physical.vendor == NVIDIA_VENDOR:
        return open_sensors(physical.bus_id)[0]
    is_there = host.list_folder(f"/sys/bus/pci/devices/{physical.bus_id}")
    return CardSensors(host, physical.bus_id) if is_there else None


def work_on_device(host: HostAccess, place: int) -> dict[str, Any]:
    """Do all of the check on one device."""
    vulkan, instance = open_instance(list_vulkan_libraries(host))
    physical = list_physical_devices(vulkan, instance)[place]
    busy = explain_use(host, physical.bus_id) if physical.bus_id else ""
    if busy:
        return {"name": physical.name, "bus_id": physical.bus_id, "busy": busy}
    device = VulkanDevice(vulkan, physical)
    return work_on_card(host, device, describe(device), find_sensors(host, physical))


def measure_host(host: HostAccess) -> RawCheckResult:
    """Test one device after the other, so that each has the host's memory to itself."""
    raw: dict[str, Any] = {"amd_on_bus": list_gpu_pci_addresses(host, AMD)}
    # The loader and every driver run in children: a crash of theirs costs one answer.
    listed = run_job_with_deadline(lambda: list_devices(host), LIST_SECONDS)
    if "error" in listed:
        return build_error_result(listed["error"], **raw)
    found = listed["value"]
    if "missing" in found:
        return build_not_run_result(found["missing"], **raw)
    raw["skipped"] = found["skipped"]
    if not found["chosen"]:
        reason = f"{len(raw['amd_on_bus'])} AMD GPU on the PCI bus, but no driver shows it to Vulkan"
        return build_not_run_result(reason if raw["amd_on_bus"] else "no GPU for Vulkan", **raw)
    works = [partial(try_work, partial(work_on_device, host, place)) for place in found["chosen"]]
    limit = compute_work_limit_s(host)
    result = build_cards_result(raw, [run_job_with_deadline(work, limit) for work in works])
    if result.status == "ran" and any(device.get("type") == "cpu" for device in result.raw["devices"]):
        result.raw["fake"] = True
    return result
