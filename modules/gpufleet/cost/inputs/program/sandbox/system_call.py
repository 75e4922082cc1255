"""System calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os
import platform
from dataclasses import dataclass
from typing import Any

OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR, IO_URING_SETUP = (
    428,
    429,
    442,
    425,
)  # the newer calls have one number everywhere


@dataclass(frozen=True)
class Machine:
    """A machine's audit number, and its numbers of older calls.

    ``refused`` are add_key, request_key, keyctl, perf_event_open, bpf, and socketcall where there is one.
    """

    architecture: int
    pivot_root: int
    socket: int
    refused: tuple[int, ...]


# linux/audit.h, and the tables of each architecture in Linux 6.17.
MACHINES = {
    "x86_64": Machine(0xC000003E, 155, 41, (248, 249, 250, 298, 321)),
    "aarch64": Machine(0xC00000B7, 41, 198, (217, 218, 219, 241, 280)),
    "riscv64": Machine(0xC00000F3, 41, 198, (217, 218, 219, 241, 280)),
    "ppc64le": Machine(0xC0000015, 203, 326, (269, 270, 271, 319, 361, 102)),
    "s390x": Machine(0x80000016, 217, 359, (278, 279, 280, 331, 351, 102)),
}

LIBRARY = ctypes.CDLL(None, use_errno=True)


def find_machine() -> Machine:
    """Return the numbers of this machine; raise OSError where they are not known."""
    try:
        return MACHINES[platform.machine()]
    except KeyError:
        raise OSError(f"no system call numbers for {platform.machine()}") from None


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
    call_system(find_machine().pivot_root, new, old)


def write_setting(path: str, text: str) -> None:
    """Write to a file of the kernel's."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
