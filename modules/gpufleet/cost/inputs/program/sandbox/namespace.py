"""Enter namespaces of our own: users, files, processes, network and the rest."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
import sys
from contextlib import suppress

from .system_call import MOUNT_SETATTR, call_library, call_system, write_setting

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS = 0x20000, 0x2000000, 0x4000000
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x8000000, 0x10000000, 0x20000000, 0x40000000
NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET
MS_REC, MS_PRIVATE = 0x4000, 0x40000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
INNER_ID = 1000  # who root is inside: a number that gets no privileges from running a program


def can_enter_namespaces() -> bool:
    """Return whether the kernel lets a process like this one be confined; this one stays as it is."""
    child = os.fork()
    if child == 0:
        try:
            enter_namespaces()
        except BaseException:  # noqa: BLE001 - this process does nothing else
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def enter_namespaces() -> None:
    """Enter namespaces; raise OSError where the kernel does not allow it. Nothing here depends on a project."""
    if sys.platform != "linux":
        raise OSError(f"{sys.platform} has no namespaces")
    _require_mount_attributes()
    uid, gid = os.getuid(), os.getgid()
    try:
        call_library("unshare", CLONE_NEWUSER | NAMESPACES)
    except OSError:
        call_library("unshare", NAMESPACES)  # root needs no user namespace
    else:
        write_setting("/proc/self/setgroups", "deny")
        write_setting("/proc/self/uid_map", f"{uid or INNER_ID} {uid} 1")
        write_setting("/proc/self/gid_map", f"{gid or INNER_ID} {gid} 1")
    call_library("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    _start_loopback()


def _start_loopback() -> None:
    """Start the loopback device of this network namespace: Pulumi's SDKs serve a program's callbacks on it."""
    with socket.socket() as device, suppress(OSError):
        fcntl.ioctl(device, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))


def _require_mount_attributes() -> None:
    """Raise OSError before Linux 5.12, which makes a whole tree read-only in one call."""
    try:
        call_system(MOUNT_SETATTR, -1, b"", 0, None, 0)
    except OSError as error:
        if error.errno == errno.EINVAL:  # the call exists, and refuses a size of zero
            return
    raise OSError("hiding files needs Linux 5.12")
