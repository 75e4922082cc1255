"""cuBLAS through ctypes, where a toolkit or a framework installed it: a second way to the same matrices."""

from __future__ import annotations

import ctypes
from typing import Any

from .clibrary import FOLDERS, Library, LibraryError, find_library, parse_prototypes

VERSIONS = ("13", "12", "11")
# What pip puts beside a framework.
PIP_FOLDERS = (
    "usr/local/lib/python3*/*-packages/nvidia/cu*/lib",
    "usr/lib/python3*/*-packages/nvidia/cu*/lib",
    "opt/*/lib/python3*/site-packages/nvidia/cu*/lib",
)
TYPES = {
    "cublasHandle_t": ctypes.c_void_p,
    **dict.fromkeys(
        ("cublasOperation_t", "cudaDataType", "cublasComputeType_t", "cublasGemmAlgo_t"), ctypes.c_int
    ),
}
# As in cublas_api.h of CUDA 12 and 13, without the parameters' names.
PROTOTYPES = """
cublasCreate_v2(cublasHandle_t *)
cublasDestroy_v2(cublasHandle_t)
cublasGetVersion_v2(cublasHandle_t, int *)
cublasGemmEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void *, const void *, cudaDataType, int, const void *, cudaDataType, int, const void *, void *, cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t)
"""  # noqa: E501 - a prototype is one line
TRANSPOSED, PLAIN = 1, 0
R_32F, R_16F, R_16BF = 0, 2, 14
COMPUTE_32F, DEFAULT_ALGORITHM = 68, -1


class Cublas(Library):
    """The loaded library with a handle in the current CUDA context."""

    def __init__(self) -> None:
        names = [f"libcublas.so.{version}" for version in VERSIONS]
        library = find_library(names, (*FOLDERS, *PIP_FOLDERS))
        super().__init__(library, parse_prototypes(PROTOTYPES, TYPES))
        self.handle = ctypes.c_void_p()
        self.call("cublasCreate_v2", ctypes.addressof(self.handle))

    def read_version(self) -> int:
        """Return the library's version number."""
        version = ctypes.c_int()
        self.call("cublasGetVersion_v2", self.handle, ctypes.addressof(version))
        return version.value

    def multiply(self, kind: str, a: int, b: int, c: int, size: int) -> None:
        """Queue C = A B^T of row-major square matrices; a column-major library sees C^T = B A^T."""
        one, zero, operands = ctypes.c_float(1), ctypes.c_float(0), R_16BF if kind == "bf16" else R_16F
        self.call(
            "cublasGemmEx", self.handle, TRANSPOSED, PLAIN, size, size, size, ctypes.addressof(one), b, operands,
            size, a, operands, size, ctypes.addressof(zero), c, R_32F, size, COMPUTE_32F, DEFAULT_ALGORITHM,
        )  # fmt: skip


def open_cublas() -> tuple[Any, str]:
    """Return cuBLAS, or None with the reason."""
    try:
        return Cublas(), ""
    except LibraryError as error:
        return None, str(error)
