"""Files from outside, read whole and never past a limit; files for outside, written whole and through no symlink."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from gpufleet.boundary.limit import OPERATOR_FILE, Limits
from gpufleet.boundary.text import decode_text, printable, too_large
from gpufleet.errors import InputError


def read_bytes(
    path: Path, limits: Limits = OPERATOR_FILE, where: str = "", *, follow_symlinks: bool = True
) -> bytes:
    """Return a regular file's content; a pipe, device, folder or larger file is an InputError, as is a missing one."""
    label = where or printable(path)
    # Non-blocking, so that opening a pipe that nobody writes to returns at once.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_symlinks else os.O_NOFOLLOW)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError("is not a regular file", where=label, remedy="give a file")
            if status.st_size > limits.bytes:
                raise too_large(status.st_size, label, limits)
            content = file.read(limits.bytes + 1)  # a file may grow, and /proc files say that they are empty
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if isinstance(error, InputError):
            raise
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot be read: {reason}", where=label) from None
    if len(content) > limits.bytes:
        raise too_large(len(content), label, limits)
    return content


def read_text(
    path: Path, limits: Limits = OPERATOR_FILE, where: str = "", *, follow_symlinks: bool = True
) -> str:
    """Return a regular file's text, as ``decode_text`` reads it."""
    label = where or printable(path)
    return decode_text(read_bytes(path, limits, label, follow_symlinks=follow_symlinks), label, limits)


def refuse_symlinks(path: Path, where: str = "") -> None:
    """Raise InputError for a symlink, or for a path that leads through one below the current folder.

    A pull request can plant both in its checkout, where a CI job then reads a secret or writes over a file.
    """
    label, here = where or printable(path), Path.cwd()
    full = path if path.is_absolute() else here / path
    below = [full, *full.parents]
    steps = [step for step in below if step == full or (here in step.parents and step != here)]
    if any(step.is_symlink() for step in steps):
        raise InputError("is a symlink, or leads through one", where=label, remedy="name the file itself")


def write_text(path: Path, text: str, where: str = "", *, mode: int | None = None) -> None:
    """Write a file whole or not at all, never through a symlink; ``mode`` is that of the umask unless given."""
    label = where or printable(path)
    refuse_symlinks(path, label)
    try:
        handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                os.fchmod(handle, _default_mode() if mode is None else mode)
                file.write(text)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", where=label) from None


def _default_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
