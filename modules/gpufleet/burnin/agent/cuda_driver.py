"""The CUDA driver API through ctypes: one device with its memory, modules, events and launches.

NVIDIA's driver brings ``libcuda.so.1``; nothing else is needed, for it also compiles the kernels' text.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from dataclasses import dataclass
from typing import Any, Sequence  # noqa: UP035 - Python 3.9 runs this

from .clibrary import Library, LibraryError, find_library, parse_prototypes

NAMES = ("libcuda.so.1", "libcuda.so")
HANDLE = ctypes.c_void_p
TYPES = {
    "CUdevice": ctypes.c_int,
    "CUdeviceptr": ctypes.c_uint64,
    "CUdevice_attribute": ctypes.c_int,
    "CUfunction_attribute": ctypes.c_int,
    "CUresult": ctypes.c_int,
    "CUtensorMapDataType": ctypes.c_int,
    "CUtensorMapInterleave": ctypes.c_int,
    "CUtensorMapSwizzle": ctypes.c_int,
    "CUtensorMapL2promotion": ctypes.c_int,
    "CUtensorMapFloatOOBfill": ctypes.c_int,
    "cuuint32_t": ctypes.c_uint32,
    "cuuint64_t": ctypes.c_uint64,
    **dict.fromkeys(("CUcontext", "CUmodule", "CUfunction", "CUstream", "CUevent"), HANDLE),
}
# As in cuda.h, without the parameters' names; tests/burnin/test_gpu_api.py compares each with the header.
PROTOTYPES = """
cuInit(unsigned int)
cuDriverGetVersion(int *)
cuGetErrorName(CUresult, const char **)
cuGetErrorString(CUresult, const char **)
cuDeviceGetCount(int *)
cuDeviceGet(CUdevice *, int)
cuDeviceGetName(char *, int, CUdevice)
cuDeviceGetAttribute(int *, CUdevice_attribute, CUdevice)
cuDeviceGetPCIBusId(char *, int, CUdevice)
cuDevicePrimaryCtxRetain(CUcontext *, CUdevice)
cuDevicePrimaryCtxRelease_v2(CUdevice)
cuCtxSetCurrent(CUcontext)
cuCtxSynchronize(void)
cuMemGetInfo_v2(size_t *, size_t *)
cuMemAlloc_v2(CUdeviceptr *, size_t)
cuMemFree_v2(CUdeviceptr)
cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t)
cuMemHostAlloc(void **, size_t, unsigned int)
cuMemFreeHost(void *)
cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t)
cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t)
cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, CUstream)
cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, CUstream)
cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)
cuDeviceCanAccessPeer(int *, CUdevice, CUdevice)
cuCtxEnablePeerAccess(CUcontext, unsigned int)
cuStreamCreate(CUstream *, unsigned int)
cuStreamSynchronize(CUstream)
cuEventCreate(CUevent *, unsigned int)
cuEventRecord(CUevent, CUstream)
cuEventSynchronize(CUevent)
cuEventElapsedTime(float *, CUevent, CUevent)
cuModuleLoadDataEx(CUmodule *, const void *, unsigned int, CUjit_option *, void **)
cuModuleUnload(CUmodule)
cuModuleGetFunction(CUfunction *, CUmodule, const char *)
cuFuncSetAttribute(CUfunction, CUfunction_attribute, int)
cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, CUstream, void **, void **)
cuTensorMapEncodeTiled(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill)
"""  # noqa: E501 - a prototype is one line
# Values of enums in cuda.h, compared by the same test.
CONSTANTS = {
    "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": 16,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": 75,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": 76,
    "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 97,
    "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": 8,
    "CU_JIT_ERROR_LOG_BUFFER": 5,
    "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES": 6,
    "CU_TENSOR_MAP_DATA_TYPE_FLOAT16": 6,
    "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16": 9,
    "CU_TENSOR_MAP_SWIZZLE_128B": 3,
    "CU_TENSOR_MAP_L2_PROMOTION_L2_256B": 3,
    "CUDA_ERROR_OUT_OF_MEMORY": 2,
    "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED": 704,
}
JIT_LOG_BYTES = 4096
TENSOR_MAP_BYTES = TENSOR_MAP_ALIGNMENT = 128


class CudaDriver(Library):
    """The loaded and initialised driver library."""

    def __init__(self, names: Sequence[str] = NAMES) -> None:
        super().__init__(find_library(names), parse_prototypes(PROTOTYPES, TYPES))
        self.call("cuInit", 0)

    def describe_error(self, code: int) -> str:
        """Return CUDA's name and text of an error code."""
        texts = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            with contextlib.suppress(Exception):
                if self.try_call(name, code, ctypes.addressof(text)) == 0 and text.value:
                    texts.append(text.value.decode())
        return ": ".join(texts) or super().describe_error(code)

    def count_devices(self) -> int:
        """Return how many devices CUDA shows."""
        return self.read_number("cuDeviceGetCount", ctypes.c_int)

    def read_version(self) -> str:
        """Return the highest CUDA version that the driver supports."""
        version = self.read_number("cuDriverGetVersion", ctypes.c_int)
        return f"{version // 1000}.{version % 1000 // 10}"


@dataclass(frozen=True)
class Kernel:
    """A compiled function with its launch geometry."""

    handle: ctypes.c_void_p
    name: str
    threads: int
    shared_bytes: int = 0


class CudaDevice:
    """One device with its primary context current in this process."""

    def __init__(self, driver: CudaDriver, ordinal: int) -> None:
        self.driver, self.ordinal = driver, ordinal
        self.device = driver.read_number("cuDeviceGet", ctypes.c_int, ordinal)
        self.context = HANDLE()
        driver.call("cuDevicePrimaryCtxRetain", ctypes.addressof(self.context), self.device)
        driver.call("cuCtxSetCurrent", self.context)
        self.capability = (
            self.read_attribute("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR"),
            self.read_attribute("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR"),
        )
        self.bus_id = self._read_device_text("cuDeviceGetPCIBusId").lower()
        self.name = self._read_device_text("cuDeviceGetName")

    def _read_device_text(self, function: str) -> str:
        buffer = ctypes.create_string_buffer(128)
        self.driver.call(function, ctypes.addressof(buffer), 128, self.device)
        return buffer.value.decode("utf-8", "replace")

    def read_attribute(self, name: str) -> int:
        """Return one of the device's attributes."""
        return self.driver.read_number("cuDeviceGetAttribute", ctypes.c_int, CONSTANTS[name], self.device)

    def free_bytes(self) -> int:
        """Return the device's free memory."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver.call("cuMemGetInfo_v2", ctypes.addressof(free), ctypes.addressof(total))
        return free.value

    def allocate(self, size: int) -> int:
        """Return the address of new device memory."""
        return self.driver.read_number("cuMemAlloc_v2", ctypes.c_uint64, size)

    def free(self, *addresses: int) -> None:
        """Give memory back."""
        for address in addresses:
            self.driver.call("cuMemFree_v2", address)

    def clear(self, address: int, size: int, byte: int = 0) -> None:
        """Set every byte of a range."""
        self.driver.call("cuMemsetD8_v2", address, byte, size)

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes to the device."""
        buffer = ctypes.create_string_buffer(data, len(data))
        self.driver.call("cuMemcpyHtoD_v2", address, ctypes.addressof(buffer), len(data))

    def upload(self, data: bytes) -> int:
        """Return the address of new device memory with this content."""
        address = self.allocate(len(data))
        self.write(address, data)
        return address

    def read(self, address: int, size: int) -> bytes:
        """Copy bytes from the device."""
        buffer = ctypes.create_string_buffer(size)
        self.driver.call("cuMemcpyDtoH_v2", ctypes.addressof(buffer), address, size)
        return buffer.raw

    def load_module(self, ptx: str) -> tuple[ctypes.c_void_p, float]:
        """Compile kernels' text for this device; return the module and the seconds it took."""
        module, text, log = (
            HANDLE(),
            ctypes.create_string_buffer(ptx.encode()),
            ctypes.create_string_buffer(JIT_LOG_BYTES),
        )
        options = (ctypes.c_int * 2)(
            CONSTANTS["CU_JIT_ERROR_LOG_BUFFER"], CONSTANTS["CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES"]
        )
        values = (HANDLE * 2)(ctypes.addressof(log), JIT_LOG_BYTES)
        started = time.monotonic()
        code = self.driver.try_call(
            "cuModuleLoadDataEx", ctypes.addressof(module), ctypes.addressof(text), 2,
            ctypes.addressof(options), ctypes.addressof(values),
        )  # fmt: skip
        if code:
            detail = log.value.decode("utf-8", "replace").strip()[:600]
            raise LibraryError(f"cuModuleLoadDataEx: {self.driver.describe_error(code)} {detail}", code)
        return module, time.monotonic() - started

    def get_kernel(self, module: ctypes.c_void_p, name: str, threads: int, shared_bytes: int = 0) -> Kernel:
        """Return a module's function, allowed to use the shared memory it needs."""
        handle = HANDLE()
        self.driver.call("cuModuleGetFunction", ctypes.addressof(handle), module, name.encode())
        if shared_bytes > 48 << 10:
            attribute = CONSTANTS["CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"]
            self.driver.call("cuFuncSetAttribute", handle, attribute, shared_bytes)
        return Kernel(handle, name, threads, shared_bytes)

    def launch(self, kernel: Kernel, blocks: int, *arguments: Any) -> None:
        """Queue a kernel; its arguments are ctypes values."""
        pointers = (HANDLE * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        self.driver.call(
            "cuLaunchKernel", kernel.handle, blocks, 1, 1, kernel.threads, 1, 1, kernel.shared_bytes,
            None, ctypes.addressof(pointers), None,
        )  # fmt: skip

    def synchronize(self) -> None:
        """Wait for all queued work; an error of a kernel is raised here."""
        self.driver.call("cuCtxSynchronize")

    def create_event(self) -> ctypes.c_void_p:
        """Return a new event."""
        event = HANDLE()
        self.driver.call("cuEventCreate", ctypes.addressof(event), 0)
        return event

    def create_stream(self) -> ctypes.c_void_p:
        """Return a stream that does not wait for the default one."""
        stream = HANDLE()
        self.driver.call("cuStreamCreate", ctypes.addressof(stream), 1)
        return stream

    def allocate_pinned(self, size: int) -> int:
        """Return the address of page-locked host memory."""
        return self.driver.read_number("cuMemHostAlloc", ctypes.c_void_p, size, 0)

    def encode_matrix_map(
        self, address: int, rows: int, columns: int, box: tuple[int, int], kind: str
    ) -> Any:
        """Return the map by which Hopper's copy engine reads boxes (columns, rows) of a 16-bit matrix."""
        storage = (ctypes.c_ubyte * (TENSOR_MAP_BYTES + TENSOR_MAP_ALIGNMENT))()
        offset = -ctypes.addressof(storage) % TENSOR_MAP_ALIGNMENT
        tensor_map = (ctypes.c_ubyte * TENSOR_MAP_BYTES).from_buffer(storage, offset)
        sizes, strides = (ctypes.c_uint64 * 2)(columns, rows), (ctypes.c_uint64 * 1)(columns * 2)
        boxes, steps = (ctypes.c_uint32 * 2)(*box), (ctypes.c_uint32 * 2)(1, 1)
        self.driver.call(
            "cuTensorMapEncodeTiled", ctypes.addressof(tensor_map), CONSTANTS[f"CU_TENSOR_MAP_DATA_TYPE_{kind}"],
            2, address, ctypes.addressof(sizes), ctypes.addressof(strides), ctypes.addressof(boxes),
            ctypes.addressof(steps), 0, CONSTANTS["CU_TENSOR_MAP_SWIZZLE_128B"],
            CONSTANTS["CU_TENSOR_MAP_L2_PROMOTION_L2_256B"], 0,
        )  # fmt: skip
        return tensor_map


class Stopwatch:
    """Time between two points of the default stream, by the device's own clock."""

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self.events = (device.create_event(), device.create_event())

    def start(self) -> None:
        """Mark the first point."""
        self.device.driver.call("cuEventRecord", self.events[0], None)

    def stop(self) -> float:
        """Mark the second point, wait for it, and return the seconds between."""
        driver = self.device.driver
        driver.call("cuEventRecord", self.events[1], None)
        driver.call("cuEventSynchronize", self.events[1])
        elapsed = ctypes.c_float()
        driver.call("cuEventElapsedTime", ctypes.addressof(elapsed), *self.events)
        return max(elapsed.value / 1000, 1e-9)
