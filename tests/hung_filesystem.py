"""A file system that never answers: a process that touches it waits for the device, where no signal reaches it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct

LIBC = ctypes.CDLL(None, use_errno=True)
DETACH = 2
# linux/fuse.h: fuse_in_header, fuse_out_header and fuse_init_out of protocol 7.31.
REQUEST_BYTES = 1 << 20
HEADER, REPLY, INIT_REPLY = "<IIQQIII4x", "<IiQ", "<IIIIHHIIHHI28x"


def answer_start_only(device):
    """Answer the kernel's first request, then read requests without ever answering."""
    with contextlib.suppress(OSError):
        request = os.read(device, REQUEST_BYTES)
        unique = struct.unpack_from(HEADER, request)[2]
        body = struct.pack(INIT_REPLY, 7, 31, 65_536, 0, 12, 9, 65_536, 1, 16, 0, 0)
        os.write(device, struct.pack(REPLY, struct.calcsize(REPLY) + len(body), 0, unique) + body)
        while True:
            os.read(device, REQUEST_BYTES)


@contextlib.contextmanager
def mount_hung_filesystem(folder):
    """Mount the file system on a folder; give why it cannot be mounted here, or nothing."""
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        yield f"no /dev/fuse: {error.strerror}"
        return
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if LIBC.mount(b"hung", os.fsencode(folder), b"fuse", 0, options):
        os.close(device)
        yield f"cannot mount: {os.strerror(ctypes.get_errno())}"
        return
    server = os.fork()
    if not server:
        answer_start_only(device)
        os._exit(0)
    os.close(device)
    try:
        yield ""
    finally:
        LIBC.umount2(os.fsencode(folder), DETACH)
        # The end of its server ends every request, and with it the processes that wait.
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
