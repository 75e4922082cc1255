"""Files from outside, read whole and never past a limit."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from gpufleet.boundary.limit import OPERATOR_FILE, DocumentLimits
from gpufleet.boundary.text import build_size_limit_error, decode_text, make_printable
from gpufleet.errors import InputError

_OPEN_ALREADY = re.compile(r"/dev/stdin|(/dev|/proc/self)/fd/[0-9]+")


def read_bytes(
    path: Path, limits: DocumentLimits = OPERATOR_FILE, where: str = "", *, follow_symlinks: bool = True
) -> bytes:
    """Return a regular file's content; a pipe, device, folder or larger file is an InputError, as is a missing one.

    A pipe that the shell has opened for us, ``<(pulumi preview --json)``, is read as a file is.
    """
    label = where or make_printable(path)
    is_open = follow_symlinks and _OPEN_ALREADY.fullmatch(str(path)) is not None
    # Non-blocking, so that opening a pipe that no process writes to returns at once.
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if is_open else os.O_NONBLOCK)
    flags |= 0 if follow_symlinks else os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not is_open and not stat.S_ISREG(status.st_mode):
                raise InputError("is not a regular file", where=label, remedy="give a file")
            if status.st_size > limits.bytes:
                raise build_size_limit_error(status.st_size, label, limits)
            content = file.read(limits.bytes + 1)  # a file may grow, and /proc files say that they are empty
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot be read: {describe_read_error(error)}", where=label) from None
    if len(content) > limits.bytes:
        raise build_size_limit_error(len(content), label, limits)
    return content


def describe_read_error(error: Exception) -> str:
    """Return why a file cannot be read, without the number and the path of the system's message."""
    reason = error.strerror if isinstance(error, OSError) else None
    return make_printable(reason or error, 120)


def read_text(
    path: Path, limits: DocumentLimits = OPERATOR_FILE, where: str = "", *, follow_symlinks: bool = True
) -> str:
    """Return a regular file's text, as ``decode_text`` reads it."""
    label = where or make_printable(path)
    return decode_text(read_bytes(path, limits, label, follow_symlinks=follow_symlinks), label, limits)


def read_text_stream(stream: BinaryIO, where: str, limits: DocumentLimits = OPERATOR_FILE) -> str:
    """Return the text of a stream, such as standard input, to its end."""
    return decode_text(stream.read(limits.bytes + 1), where, limits)
