"""What the three checks of GPU work share: which GPUs there are, one process for each, its context and sensors."""

from __future__ import annotations

import ctypes
import os
import struct
from ctypes import c_uint32, c_uint64
from functools import partial
from typing import Any, Callable  # noqa: UP035 - Python 3.9 runs this

from .clibrary import LibraryError
from .cuda_driver import NAMES as CUDA_NAMES
from .cuda_driver import CudaDevice, CudaDriver, Kernel
from .gpu import NVIDIA, list_gpu_pci_addresses
from .host import HostAccess, RawCheckResult, build_error_result, build_not_run_result
from .kernel_source import read_kernel_file
from .kernel_values import BLOCK_BYTES, THREADS
from .nvml import GpuSensors, open_sensors
from .workers import run_job_with_deadline, run_jobs_in_parallel

COUNT_SECONDS = 60.0
# A symbol of the tests' stand-in driver: what it gives is never judged as a measurement.
FAKE_MARK = "gpufleet_fake_driver"
# With these, a caller hides GPUs from CUDA, from HIP and from the runtime below HIP.
VISIBILITY_VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
)  # fmt: skip
# A pattern as (bits of the address's hash that stay, bits that are flipped).
ADDRESS_BITS = (0xFFFFFFFF, 0)
NO_ERRORS = struct.pack("<3Q", 0, (1 << 64) - 1, 0)


class BusyGpuError(RuntimeError):
    """The GPU cannot be measured now: somebody else uses it, or it is set up for something else."""


class GpuWorkbench:
    """One GPU of this process: context, sensors, the basic kernels and a place for their counts."""

    def __init__(self, host: HostAccess, index: int) -> None:
        show_all_gpus()
        driver = CudaDriver(list_cuda_libraries(host))
        self.cuda_version = driver.read_version()
        self.bus_id = read_bus_id(driver, index)
        self.sensors, self.sensors_missing = open_sensors(self.bus_id)
        refuse_busy_gpu(self.sensors)
        self.device = CudaDevice(driver, index)
        self.module, self.compile_s = self.device.load_module(read_kernel_file("basic.ptx").decode())
        self.counts = self.device.allocate(len(NO_ERRORS))
        self.kernels: dict[str, Kernel] = {}

    def launch(self, name: str, blocks: int, *arguments: Any) -> None:
        """Queue one of the basic kernels."""
        if name not in self.kernels:
            self.kernels[name] = self.device.get_kernel(self.module, name, THREADS)
        self.device.launch(self.kernels[name], blocks, *arguments)

    def fill_pattern(self, address: int, size: int, seed: int, bits: tuple[int, int] = ADDRESS_BITS) -> None:
        """Queue the writing of a pattern: its hash of the address keeps and flips ``bits``."""
        keep, flip = bits
        self.launch(
            "fill_pattern", size // BLOCK_BYTES, c_uint64(address), c_uint32(seed), c_uint32(keep), c_uint32(flip)
        )  # fmt: skip

    def verify_pattern(
        self, address: int, size: int, seed: int, bits: tuple[int, int] = ADDRESS_BITS
    ) -> None:
        """Queue the comparison of a range with its pattern; what differs is added to the counts."""
        keep, flip = bits
        self.launch(
            "verify_pattern", size // BLOCK_BYTES, c_uint64(address), c_uint64(self.counts), c_uint32(seed),
            c_uint32(keep), c_uint32(flip),
        )  # fmt: skip

    def clear_counts(self) -> None:
        """Set the counts to no error."""
        self.device.write(self.counts, NO_ERRORS)

    def read_counts(self) -> tuple[int, int, int]:
        """Return what was wrong since: how many, the first place, and which bits."""
        count, first, bits = struct.unpack("<3Q", self.device.read(self.counts, len(NO_ERRORS)))
        return count, first, bits

    def describe(self) -> dict[str, Any]:
        """Return what the device is."""
        return {
            "bus_id": self.bus_id,
            "name": self.device.name,
            "capability": list(self.device.capability),
            "multiprocessors": self.device.read_attribute("CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"),
            "cuda": self.cuda_version,
            "compile_s": round(self.compile_s, 3),
            "sensors_missing": self.sensors_missing,
            "limits": self.sensors.read_limits() if self.sensors else {},
            "errors_before": self.sensors.read_errors() if self.sensors else {},
        }

    def read_errors(self) -> dict[str, int | None]:
        """Return the error counters as they are now."""
        return self.sensors.read_errors() if self.sensors else {}


def show_all_gpus() -> None:
    """Let CUDA and HIP show all GPUs of the node to this process, CUDA in the order of the bus."""
    for name in VISIBILITY_VARIABLES:
        os.environ.pop(name, None)
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"


def list_cuda_libraries(host: HostAccess) -> tuple[str, ...]:
    """Return the driver library's names, or the file that the parameter ``gpu_library`` names."""
    path: str = host.get_parameter("gpu_library", "")
    return (path,) if path else CUDA_NAMES


def read_bus_id(driver: CudaDriver, index: int) -> str:
    """Return a device's PCI address without making a context on it."""
    buffer, device = ctypes.create_string_buffer(64), ctypes.c_int()
    driver.call("cuDeviceGet", ctypes.addressof(device), index)
    driver.call("cuDeviceGetPCIBusId", ctypes.addressof(buffer), 64, device.value)
    return buffer.value.decode("utf-8", "replace").lower()


def refuse_busy_gpu(sensors: GpuSensors | None) -> None:
    """Raise where load would disturb somebody's work, or where the GPU is split."""
    if sensors is None:
        return
    if sensors.read_mig_mode() == 1:
        raise BusyGpuError("the GPU is split into MIG instances")
    processes = sensors.count_processes()
    if processes:
        raise BusyGpuError(f"{processes} other process{'es use' if processes > 1 else ' uses'} the GPU")


def find_reason_not_to_run(host: HostAccess) -> str:
    """Return why this host has no GPU for the checks, or nothing."""
    on_bus = list_gpu_pci_addresses(host, NVIDIA)
    if not on_bus and not host.get_parameter("gpu_library", "") and not host.get_parameter("expect_gpus", 0):
        return "no NVIDIA GPU"
    return ""


def run_on_every_gpu(
    host: HostAccess, work: Callable[[GpuWorkbench], dict[str, Any]], seconds: float, *, in_turn: bool = False
) -> RawCheckResult:
    """Run work on each GPU in a process of its own: all at once, or one after the other."""
    reason = find_reason_not_to_run(host)
    if reason:
        return build_not_run_result(reason)
    counted = run_job_with_deadline(lambda: count_gpus(host), COUNT_SECONDS)
    raw: dict[str, Any] = {
        "on_bus": list_gpu_pci_addresses(host, NVIDIA),
        "expect_gpus": host.get_parameter("expect_gpus", 0),
    }
    if "error" in counted:
        return build_error_result(counted["error"], **raw)
    if "missing" in counted["value"]:
        return build_not_run_result(counted["value"]["missing"], **raw)
    count = counted["value"]["count"]

    def run_one(index: int) -> dict[str, Any]:
        try:
            return work(GpuWorkbench(host, index))
        except BusyGpuError as busy:
            return {"busy": str(busy)}
        except LibraryError as error:
            return {"failed": str(error), "code": error.code}

    if in_turn:
        answers = [run_job_with_deadline(partial(run_one, index), seconds) for index in range(count)]
    else:
        answers = run_jobs_in_parallel(run_one, count, seconds)
    raw["devices"] = [answer.get("value", answer) for answer in answers]
    busy = [device["busy"] for device in raw["devices"] if "busy" in device]
    # One busy GPU must not hide what another one got wrong: that one is judged, the busy one counts as not tested.
    if busy and len(busy) == count:
        return build_not_run_result(busy[0], **raw)
    if counted["value"]["fake"]:
        raw["fake"] = True
    return RawCheckResult("ran", measured=count, unit="GPUs", raw=raw)


def count_gpus(host: HostAccess) -> dict[str, Any]:
    """Return how many GPUs CUDA shows, or why it shows none."""
    show_all_gpus()
    try:
        driver = CudaDriver(list_cuda_libraries(host))
        return {"count": driver.count_devices(), "fake": hasattr(driver.library, FAKE_MARK)}
    except LibraryError as error:
        if error.code is None:
            return {"missing": f"CUDA: {error}"}
        raise
