"""System calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

# glibc has no function for these calls: pivot_root and keyctl, by machine. The newer ones have one number everywhere.
NUMBERS = {
    "x86_64": (155, 250), "aarch64": (41, 219), "riscv64": (41, 219), "ppc64le": (203, 271), "s390x": (217, 280),
}  # fmt: skip
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
    call_system(_machine_numbers()[0], new, old)


def join_new_session_keyring() -> None:
    call_system(_machine_numbers()[1], 1, None)


def write_setting(path: str, text: str) -> None:
    """Write to a file of the kernel's."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _machine_numbers() -> tuple[int, int]:
    try:
        return NUMBERS[platform.machine()]
    except KeyError:
        raise OSError(f"no system call numbers for {platform.machine()}") from None
