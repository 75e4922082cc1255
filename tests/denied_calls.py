"""Run a command where the kernel refuses some system calls, as a container's seccomp profile does."""

from __future__ import annotations

import platform
import subprocess
import sys

# By machine: a container's default profile refuses unshare without CAP_SYS_ADMIN.
NUMBERS = {
    "x86_64": {"mount": 165, "umount2": 166, "pivot_root": 155, "unshare": 272},
    "aarch64": {"mount": 40, "umount2": 39, "pivot_root": 41, "unshare": 97},
}
SHARED_NUMBERS = {"open_tree": 428, "move_mount": 429, "mount_setattr": 442}
FILTER = """
import ctypes, os, struct, sys
numbers, command = [int(each) for each in sys.argv[1].split(",")], sys.argv[2:]
steps = [(0x20, 0, 0, 0)]  # load the call's number
for number in numbers:
    steps += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | 1)]  # equal: fail with EPERM
steps.append((0x06, 0, 0, 0x7FFF0000))  # allow
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
program = Program(len(steps), ctypes.cast(code, ctypes.c_void_p))
library = ctypes.CDLL(None, use_errno=True)
assert library.prctl(38, 1, 0, 0, 0) == 0
assert library.prctl(22, 2, ctypes.byref(program)) == 0, ctypes.get_errno()
os.execv(command[0], command)
"""


def run_where_denied(names, arguments, **options):
    """Run this Python with arguments where the kernel refuses the named calls with EPERM."""
    numbers = NUMBERS[platform.machine()] | SHARED_NUMBERS
    denied = ",".join(str(numbers[name]) for name in names)
    command = [sys.executable, "-c", FILTER, denied, sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
