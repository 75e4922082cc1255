"""One device of HIP with its memory and kernels; waiting for the device has a time limit."""

from __future__ import annotations

import ctypes
import time
from typing import Sequence  # noqa: UP035 - Python 3.9 runs this

from .card_device import BINDINGS, NUMBERS, WAIT_SECONDS, Buffer, Recording
from .clibrary import LibraryError
from .hip_api import COMPILER_NAMES, CONSTANTS, NAMES, RESULTS, Hip, HipCompiler
from .kernel_source import HIP_OPTIONS, build_hip_source
from .kernel_values import THREADS

POLL_SECONDS = 0.0005
MAX_BUFFERS = 1024
# A count of 32-bit words must fit 32 bits.
MAX_BUFFER_BYTES = 1 << 31


class HipDevice:
    """A device, made the current one of this thread."""

    def __init__(self, hip: Hip, ordinal: int, compiler_names: Sequence[str] = COMPILER_NAMES) -> None:
        self.hip, self.compiler_names = hip, compiler_names
        self.max_buffer_bytes, self.max_buffers = MAX_BUFFER_BYTES, MAX_BUFFERS
        hip.call("hipSetDevice", ordinal)
        self.module = ctypes.c_void_p()
        self.events = tuple(self._create_event() for _ in range(2))

    def _create_event(self) -> int:
        return self.hip.read_number("hipEventCreate", ctypes.c_void_p)

    def free_bytes(self) -> int:
        """Return how much of the device's own memory is free."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.hip.call("hipMemGetInfo", ctypes.addressof(free), ctypes.addressof(total))
        return free.value

    def create_buffer(self, size: int, place: str = "device") -> Buffer:
        """Return a buffer in memory of the ``device`` or page-locked in that of the ``host``."""
        if place == "host":
            address = self.hip.read_number("hipHostMalloc", ctypes.c_void_p, size, 0)
            return Buffer(address, 0, size, address)
        return Buffer(self.hip.read_number("hipMalloc", ctypes.c_void_p, size), 0, size)

    def free(self, *buffers: Buffer) -> None:
        """Give buffers back."""
        for buffer in buffers:
            self.hip.call("hipHostFree" if buffer.address else "hipFree", buffer.handle)

    def load_kernel(self, name: str) -> int:
        """Return a kernel; all are compiled for this device with the first one."""
        if not self.module.value:
            code = HipCompiler(self.compiler_names).compile(build_hip_source(), HIP_OPTIONS)
            image = ctypes.create_string_buffer(code, len(code))
            self.hip.call("hipModuleLoadData", ctypes.addressof(self.module), ctypes.addressof(image))
        handle = ctypes.c_void_p()
        self.hip.call("hipModuleGetFunction", ctypes.addressof(handle), self.module, name.encode())
        return handle.value or 0

    def record(self) -> Recording:
        """Return a new recording."""
        return HipRecording(self)

    def is_out_of_memory(self, code: int | None) -> bool:
        """Return whether an error's code says that there is no more memory."""
        return code == RESULTS["hipErrorOutOfMemory"]


class HipRecording:
    """Commands of the default stream between two events."""

    def __init__(self, device: HipDevice) -> None:
        self.device, self.hip, self.seconds = device, device.hip, 0.0

    def __enter__(self) -> HipRecording:  # noqa: PYI034 - Python 3.9 has no Self
        """Note the start."""
        self.hip.call("hipEventRecord", self.device.events[0], None)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Wait for the end."""
        if kind is not None:
            return
        start, stop = self.device.events
        self.hip.call("hipEventRecord", stop, None)
        deadline = time.monotonic() + WAIT_SECONDS
        while (code := self.hip.try_call("hipEventQuery", stop)) == RESULTS["hipErrorNotReady"]:
            if time.monotonic() > deadline:
                raise LibraryError(f"the GPU did not finish within {WAIT_SECONDS:g} s", code)
            time.sleep(POLL_SECONDS)
        if code:
            raise LibraryError(f"hipEventQuery: {self.hip.describe_error(code)}", code)
        elapsed = ctypes.c_float()
        self.hip.call("hipEventElapsedTime", ctypes.addressof(elapsed), start, stop)
        self.seconds = max(elapsed.value / 1000, 1e-9)

    def dispatch(self, kernel: int, groups: int, buffers: Sequence[Buffer], *numbers: int) -> None:
        """Run a kernel on buffers with numbers."""
        addresses = [buffer.handle for buffer in buffers] + [0] * (BINDINGS - len(buffers))
        words = [number & 0xFFFFFFFF for number in numbers] + [0] * (NUMBERS - len(numbers))
        values = [*map(ctypes.c_void_p, addresses), *map(ctypes.c_uint32, words)]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self.hip.call(
            "hipModuleLaunchKernel",
            kernel,
            groups,
            1,
            1,
            THREADS,
            1,
            1,
            0,
            None,
            ctypes.addressof(pointers),
            None,
        )

    def copy(
        self, source: Buffer, target: Buffer, size: int, *, source_offset: int = 0, target_offset: int = 0
    ) -> None:
        """Copy between buffers."""
        self.hip.call(
            "hipMemcpyAsync", target.handle + target_offset, source.handle + source_offset, size,
            CONSTANTS["hipMemcpyDefault"], None,
        )  # fmt: skip


def list_names(path: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of runtime and compiler, or twice the file that a parameter names."""
    return ((path,), (path,)) if path else (NAMES, COMPILER_NAMES)
