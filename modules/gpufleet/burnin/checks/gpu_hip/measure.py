"""GPU work through HIP: AMD cards with ROCm. Kernels are compiled on the node by ROCm's own runtime compiler."""

from __future__ import annotations

from typing import Any

from ...agent.card_work import build_cards_result, compute_work_limit_s, try_work, work_on_card
from ...agent.clibrary import LibraryError
from ...agent.drm import CardSensors, explain_use
from ...agent.gpu import AMD, list_gpu_pci_addresses
from ...agent.gpu_device import FAKE_MARK, show_all_gpus
from ...agent.hip_api import NO_DEVICE, Hip
from ...agent.hip_device import HipDevice, list_names
from ...agent.host import HostAccess, RawCheckResult, build_error_result, build_not_run_result
from ...agent.workers import run_job_with_deadline, run_jobs_in_parallel

COUNT_SECONDS = 60.0


def open_hip(host: HostAccess) -> Hip:
    """Load the runtime, which must show all cards."""
    show_all_gpus()
    return Hip(list_names(host.get_parameter("hip_library", ""))[0])


def count_gpus(host: HostAccess) -> dict[str, Any]:
    """Return how many GPUs HIP shows, or why it cannot say."""
    try:
        hip = open_hip(host)
        return {"count": hip.count_devices(), "fake": hasattr(hip.library, FAKE_MARK)}
    except LibraryError as error:
        if error.code is None or error.code in NO_DEVICE:
            return {"missing": f"HIP: {error}"}
        raise


def work_on_device(host: HostAccess, ordinal: int) -> dict[str, Any]:
    """Do all of the check on one device."""
    hip = open_hip(host)
    bus_id = hip.read_device_text("hipDeviceGetPCIBusId", ordinal).lower()
    record: dict[str, Any] = {"name": hip.read_device_text("hipDeviceGetName", ordinal), "bus_id": bus_id}
    busy = explain_use(host, bus_id)
    if busy:
        return {**record, "busy": busy}
    integrated = hip.read_device_attribute("hipDeviceAttributeIntegrated", ordinal)
    record["type"] = "integrated" if integrated else "discrete"
    record["version"] = hip.read_version()
    sensors = CardSensors(host, bus_id) if host.list_folder(f"/sys/bus/pci/devices/{bus_id}") else None
    device = HipDevice(hip, ordinal, list_names(host.get_parameter("hip_library", ""))[1])
    return work_on_card(host, device, record, sensors)


def measure_host(host: HostAccess) -> RawCheckResult:
    """Test all devices at once: a server's cards heat each other."""
    raw: dict[str, Any] = {"amd_on_bus": list_gpu_pci_addresses(host, AMD)}
    counted = run_job_with_deadline(lambda: count_gpus(host), COUNT_SECONDS)
    if "error" in counted:
        return build_error_result(counted["error"], **raw)
    found = counted["value"]
    if "missing" in found:
        return build_not_run_result(found["missing"], **raw)
    if not found["count"]:
        return build_not_run_result("no GPU for HIP", **raw)

    def run_one(ordinal: int) -> dict[str, Any]:
        return try_work(lambda: work_on_device(host, ordinal))

    result = build_cards_result(
        raw, run_jobs_in_parallel(run_one, found["count"], compute_work_limit_s(host))
    )
    if found["fake"] and result.status == "ran":
        result.raw["fake"] = True
    return result
