"""The HIP runtime and its compiler library through ctypes, as AMD's ROCm installs them.

As in hip_runtime_api.h and hiprtc.h, without the parameters' names; the tests compare each with Debian's headers.
"""

from __future__ import annotations

import ctypes
from typing import Any, Sequence  # noqa: UP035 - Python 3.9 runs this

from .clibrary import FOLDERS, Library, LibraryError, find_library, parse_prototypes

NAMES = ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so")
# ROCm before 5.3 has these functions in the runtime library.
COMPILER_NAMES = ("libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so", *NAMES)
ROCM_FOLDERS = (*FOLDERS, "opt/rocm/lib", "opt/rocm-*/lib", "opt/rocm/core-*/lib")
TYPES: dict[str, Any] = {
    "hipDevice_t": ctypes.c_int,
    "hipDeviceAttribute_t": ctypes.c_int,
    "hipMemcpyKind": ctypes.c_int,
    **dict.fromkeys(
        ("hipEvent_t", "hipFunction_t", "hipModule_t", "hipStream_t", "hiprtcProgram"), ctypes.c_void_p
    ),
}
PROTOTYPES = """
hipInit(unsigned int)
hipGetDeviceCount(int *)
hipSetDevice(int)
hipDeviceSynchronize(void)
hipDeviceGetName(char *, int, hipDevice_t)
hipDeviceGetPCIBusId(char *, int, int)
hipDeviceGetAttribute(int *, hipDeviceAttribute_t, int)
hipRuntimeGetVersion(int *)
hipMalloc(void **, size_t)
hipFree(void *)
hipHostMalloc(void **, size_t, unsigned int)
hipHostFree(void *)
hipMemcpyAsync(void *, const void *, size_t, hipMemcpyKind, hipStream_t)
hipMemGetInfo(size_t *, size_t *)
hipModuleLoadData(hipModule_t *, const void *)
hipModuleGetFunction(hipFunction_t *, hipModule_t, const char *)
hipModuleLaunchKernel(hipFunction_t, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, hipStream_t, void **, void **)
hipEventCreate(hipEvent_t *)
hipEventRecord(hipEvent_t, hipStream_t)
hipEventQuery(hipEvent_t)
hipEventElapsedTime(float *, hipEvent_t, hipEvent_t)
"""  # noqa: E501 - a prototype is one line
COMPILER_PROTOTYPES = """
hiprtcCreateProgram(hiprtcProgram *, const char *, const char *, int, const char **, const char **)
hiprtcCompileProgram(hiprtcProgram, int, const char **)
hiprtcGetProgramLogSize(hiprtcProgram, size_t *)
hiprtcGetProgramLog(hiprtcProgram, char *)
hiprtcGetCodeSize(hiprtcProgram, size_t *)
hiprtcGetCode(hiprtcProgram, char *)
"""
CONSTANTS = {
    "hipMemcpyDefault": 4,
    "hipDeviceAttributeIntegrated": 16,
}
RESULTS = {
    "hipErrorOutOfMemory": 2,
    "hipErrorNoDevice": 100,
    "hipErrorInvalidDevice": 101,
    "hipErrorInvalidImage": 200,
    "hipErrorNoBinaryForGpu": 209,
    "hipErrorECCNotCorrectable": 214,
    "hipErrorNotReady": 600,
    "hipErrorIllegalAddress": 700,
    "hipErrorLaunchTimeOut": 702,
    "hipErrorLaunchFailure": 719,
}
NAMES_OF_RESULTS = {code: name for name, code in RESULTS.items()}
# What the runtime answers on a machine without a card; Debian's 5.7.1 gives the second.
NO_DEVICE = {RESULTS["hipErrorNoDevice"], RESULTS["hipErrorInvalidDevice"]}
LOG_CHARACTERS = 600


class Hip(Library):
    """The loaded and initialised runtime."""

    def __init__(self, names: Sequence[str] = NAMES) -> None:
        super().__init__(find_library(names, ROCM_FOLDERS), parse_prototypes(PROTOTYPES, TYPES))
        self.call("hipInit", 0)

    def describe_error(self, code: int) -> str:
        """Return HIP's name of a result."""
        return NAMES_OF_RESULTS.get(code, f"hipError {code}")

    def count_devices(self) -> int:
        """Return how many devices HIP shows."""
        count = ctypes.c_int()
        code = self.try_call("hipGetDeviceCount", ctypes.addressof(count))
        if code and code not in NO_DEVICE:
            raise LibraryError(f"hipGetDeviceCount: {self.describe_error(code)}", code)
        return 0 if code else count.value

    def read_device_attribute(self, name: str, ordinal: int) -> int:
        """Return one of a device's attributes."""
        return self.read_number("hipDeviceGetAttribute", ctypes.c_int, CONSTANTS[name], ordinal)

    def read_version(self) -> int:
        """Return the runtime's version as one number."""
        return self.read_number("hipRuntimeGetVersion", ctypes.c_int)

    def read_device_text(self, function: str, ordinal: int) -> str:
        """Return a device's name or PCI address."""
        buffer = ctypes.create_string_buffer(128)
        self.call(function, ctypes.addressof(buffer), 128, ordinal)
        return buffer.value.decode("utf-8", "replace")


class HipCompiler(Library):
    """HIP's runtime compiler, which compiles for the device that is set."""

    def __init__(self, names: Sequence[str] = COMPILER_NAMES) -> None:
        super().__init__(find_library(names, ROCM_FOLDERS), parse_prototypes(COMPILER_PROTOTYPES, TYPES))

    def describe_error(self, code: int) -> str:
        """Return a result's number: hiprtc's own name needs another return type."""
        return f"hiprtcResult {code}"

    def compile(self, source: str, options: Sequence[str]) -> bytes:
        """Return the code object of a source."""
        program = ctypes.c_void_p()
        text = ctypes.create_string_buffer(source.encode())
        name = ctypes.create_string_buffer(b"gpufleet.hip")
        self.call(
            "hiprtcCreateProgram", ctypes.addressof(program), ctypes.addressof(text), ctypes.addressof(name), 0, None,
            None,
        )  # fmt: skip
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        code = self.try_call("hiprtcCompileProgram", program, len(options), ctypes.addressof(words))
        if code:
            log = self._read("hiprtcGetProgramLogSize", "hiprtcGetProgramLog", program)
            detail = log.decode("utf-8", "replace").strip("\0\n ")[:LOG_CHARACTERS]
            raise LibraryError(f"hiprtcCompileProgram: {self.describe_error(code)} {detail}", code)
        return self._read("hiprtcGetCodeSize", "hiprtcGetCode", program)

    def _read(self, size_function: str, function: str, program: Any) -> bytes:
        size = ctypes.c_size_t()
        self.call(size_function, program, ctypes.addressof(size))
        buffer = ctypes.create_string_buffer(max(1, size.value))
        self.call(function, program, ctypes.addressof(buffer))
        return buffer.raw[: size.value]
