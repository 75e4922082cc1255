"""The GPUs of a node as a collective uses them: select one, give it memory, copy, wait."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

from .cuda_driver import CudaDevice, CudaDriver
from .gpu_device import read_bus_id, refuse_busy_gpu
from .hip_api import CONSTANTS, Hip
from .nvml import open_sensors


class Gpus(Protocol):
    """All GPUs of one vendor; memory is an address."""

    vendor: str
    count: int
    library: Any

    def refuse_busy(self) -> None:
        """Raise BusyGpuError where load would disturb somebody's work."""

    def select(self, index: int) -> None:
        """Make a GPU the current one."""

    def allocate(self, size: int) -> int:
        """Return the address of new memory on the current GPU."""

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes to the current GPU."""

    def read(self, address: int, size: int) -> bytes:
        """Copy bytes from the current GPU."""

    def synchronize(self) -> None:
        """Wait for all work of the current GPU."""


class CudaGpus:
    """NVIDIA's GPUs, through the driver API."""

    vendor = "nvidia"

    def __init__(self) -> None:
        self.driver = CudaDriver()
        self.library = self.driver.library
        self.count = self.driver.count_devices()
        self.devices: dict[int, CudaDevice] = {}
        self.current: CudaDevice | None = None

    def refuse_busy(self) -> None:
        """Raise BusyGpuError if a process uses one of them, or one is split."""
        for index in range(self.count):
            sensors, _ = open_sensors(read_bus_id(self.driver, index))
            refuse_busy_gpu(sensors)

    def select(self, index: int) -> None:
        """Make a GPU's primary context current."""
        if index not in self.devices:
            self.devices[index] = CudaDevice(self.driver, index)
        self.driver.call("cuCtxSetCurrent", self.devices[index].context)
        self.current = self.devices[index]

    @property
    def device(self) -> CudaDevice:
        """Return the current GPU."""
        if self.current is None:
            raise RuntimeError("no GPU is selected")
        return self.current

    def allocate(self, size: int) -> int:
        """Return the address of new memory."""
        return self.device.allocate(size)

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes to the GPU."""
        self.device.write(address, data)

    def read(self, address: int, size: int) -> bytes:
        """Copy bytes from the GPU."""
        return self.device.read(address, size)

    def synchronize(self) -> None:
        """Wait for all work of the GPU."""
        self.device.synchronize()


class HipGpus:
    """AMD's GPUs, through the HIP runtime."""

    vendor = "amd"

    def __init__(self) -> None:
        self.hip = Hip()
        self.library = self.hip.library
        self.count = self.hip.count_devices()

    def refuse_busy(self) -> None:
        """Accept all: HIP does not say who uses a GPU. The play leaves out nodes with jobs."""

    def select(self, index: int) -> None:
        """Make a GPU the current one of this thread."""
        self.hip.call("hipSetDevice", index)

    def allocate(self, size: int) -> int:
        """Return the address of new memory."""
        return self.hip.read_number("hipMalloc", ctypes.c_void_p, size)

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes to the GPU."""
        buffer = ctypes.create_string_buffer(data, len(data))
        self._copy(address, ctypes.addressof(buffer), len(data))

    def read(self, address: int, size: int) -> bytes:
        """Copy bytes from the GPU."""
        buffer = ctypes.create_string_buffer(size)
        self._copy(ctypes.addressof(buffer), address, size)
        return buffer.raw

    def synchronize(self) -> None:
        """Wait for all work of the GPU."""
        self.hip.call("hipDeviceSynchronize")

    def _copy(self, target: int, source: int, size: int) -> None:
        self.hip.call("hipMemcpyAsync", target, source, size, CONSTANTS["hipMemcpyDefault"], None)
        self.synchronize()
