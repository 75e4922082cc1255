"""System calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

# glibc has no function for these calls. The newer ones have one number everywhere.
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442

LIBRARY = ctypes.CDLL(None, use_errno=True)


def call_library(name: str, *arguments: Any) -> int:
    """Call a function of the C library; raise OSError where it fails."""
    function = getattr(LIBRARY, name)
    outcome = int(function(*(ctypes.c_long(each) if isinstance(each, int) else each for each in arguments)))
    if outcome == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return outcome


def call_system(number: int, *arguments: Any) -> int:
    """Make a system call by its number; raise OSError where it fails."""
    return call_library("syscall", number, *arguments)


def pivot_root(new: bytes, old: bytes) -> None:
    try:
        number = PIVOT_ROOT[platform.machine()]
    except KeyError:
        raise OSError(f"no system call numbers for {platform.machine()}") from None
    call_system(number, new, old)


def write_setting(path: str, text: str) -> None:
    """Write to a file of the kernel's."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
