"""What a confined call keeps: limits of time, memory and processes, and no privileges."""

from __future__ import annotations

import ctypes
import platform
import resource
import sys
from contextlib import suppress

from .system_call import call_library, write_setting
from .system_call_filter import filter_system_calls

PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 4, 24, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CAPABILITY_VERSION, CAPABILITIES = 0x20080522, 64

GIB, MIB = 1 << 30, 1 << 20
MEMORY_BYTES = 8 * GIB  # of one process's address space; the SDKs map 1 to 2 GiB
FILE_BYTES = 64 * MIB
OPEN_FILES, PROCESS_LIMIT = 1024, 512


def limit_process_count(is_root: bool) -> bool:
    """Bound how many processes there are at once; return False where they cannot be bounded.

    The limit of a user's processes does not hold for root. The bound of a PID namespace (Linux 6.14) does.
    """
    try:
        write_setting("/proc/sys/kernel/pid_max", str(PROCESS_LIMIT))
    except OSError:
        return not is_root and _counts_processes_by_namespace()
    return True


def limit_resources(cpu_s: int, is_alone: bool, file_bytes: int = FILE_BYTES) -> None:
    """Bound memory, processor time, files and processes of this process and its descendants."""
    limits = {
        resource.RLIMIT_AS: MEMORY_BYTES,
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
    }
    if is_alone and _counts_processes_by_namespace():
        limits[resource.RLIMIT_NPROC] = PROCESS_LIMIT
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (bound, bound))
        except (ValueError, OSError):
            if sys.platform == "linux":
                raise  # macOS has no limit of the address space


def drop_privileges() -> None:
    """Drop every capability for good, and some system calls; raise OSError where that fails."""
    if sys.platform != "linux":
        return
    with suppress(OSError):  # before Linux 4.3 there are none
        call_library("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(CAPABILITIES):
        with suppress(OSError):  # without privileges there is nothing to drop
            call_library("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    call_library("capset", header, (ctypes.c_uint32 * 6)())
    call_library("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call_library("prctl", PR_SET_DUMPABLE, 1)
    filter_system_calls()


def _counts_processes_by_namespace() -> bool:
    """Return True from Linux 5.14: before, a user's other programs count too."""
    parts = platform.release().split(".")
    with suppress(ValueError, IndexError):
        return (int(parts[0]), int(parts[1])) >= (5, 14)
    return False
