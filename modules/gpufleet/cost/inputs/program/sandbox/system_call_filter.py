"""Refuse the system calls that reach what no namespace divides: kernel keys, other machines' buses, kernel programs.

A user's and a session's keyrings belong to a user's number in the whole kernel, so a new session keyring hides
nothing. A socket of AF_VSOCK reaches the hypervisor from any network namespace, and io_uring opens sockets that a
filter of ``socket`` does not see.
"""

from __future__ import annotations

import ctypes
import errno
import struct
import sys

from .system_call import IO_URING_SETUP, Machine, call_library, find_machine

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
ALLOW, FAIL = 0x7FFF0000, 0x00050000  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO
LOAD, JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
# Offsets in struct seccomp_data.
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16

X32_BIT = 0x40000000  # numbers of x86-64's second set of calls begin here
# Unix, IPv4, IPv6, netlink: what a network namespace divides (network_namespaces(7)), and Python's libraries use.
FAMILIES = (1, 2, 10, 16)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def filter_system_calls() -> None:
    """Refuse the calls for this process and its descendants; raise OSError where the kernel has no filter."""
    steps = ctypes.create_string_buffer(make_filter(find_machine(), sys.byteorder == "big"))
    program = _Program(len(steps) // 8, ctypes.cast(steps, ctypes.c_void_p))
    call_library("prctl", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)


def make_filter(machine: Machine, is_big_endian: bool) -> bytes:
    """Return the steps of a filter (struct sock_filter): what they do not name is allowed."""
    lower_half = FIRST_ARGUMENT + (4 if is_big_endian else 0)  # of the family: the kernel reads an int
    no_such_call, refused = FAIL | errno.ENOSYS, FAIL | errno.EPERM
    steps = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_IF_EQUAL, 1, 0, machine.architecture),
        (RETURN, 0, 0, no_such_call),  # another architecture's calls have other numbers
        (LOAD, 0, 0, NUMBER),
        (JUMP_IF_AT_LEAST, 0, 1, X32_BIT),
        (RETURN, 0, 0, no_such_call),
    ]
    for number in (*machine.refused, IO_URING_SETUP):
        steps += [(JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, refused)]
    steps += [
        (JUMP_IF_EQUAL, 1, 0, machine.socket),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, lower_half),
    ]
    for family in FAMILIES:
        steps += [(JUMP_IF_EQUAL, 0, 1, family), (RETURN, 0, 0, ALLOW)]
    steps.append((RETURN, 0, 0, FAIL | errno.EAFNOSUPPORT))
    return b"".join(struct.pack("HBBI", *step) for step in steps)
