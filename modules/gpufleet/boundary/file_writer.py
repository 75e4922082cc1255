"""Files that a verb writes: whole or not at all, and through no symlink."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpufleet.boundary.text import make_printable
from gpufleet.errors import EnvironmentFault, InputError


def refuse_symlinks(path: Path, where: str = "") -> None:
    """Raise InputError for a symlink, or for a path that leads through one below the current folder.

    A pull request can plant both in its checkout, where a CI job then reads a secret or writes over a file.
    """
    label, here = where or make_printable(path), Path.cwd()
    full = path if path.is_absolute() else here / path
    below = [full, *full.parents]
    steps = [step for step in below if step == full or (here in step.parents and step != here)]
    if any(step.is_symlink() for step in steps):
        raise InputError(
            "is a symbolic link or contains one in its path",
            where=label,
            remedy="give the path of the file itself",
        )


def write_text(path: Path, text: str, where: str = "", *, mode: int | None = None) -> None:
    """Write a file whole or not at all, never through a symlink; ``mode`` is that of the umask unless given."""
    write_bytes(path, text.encode(), where, mode=mode)


def write_bytes(path: Path, content: bytes, where: str = "", *, mode: int | None = None) -> None:
    """Write a file as ``write_text`` does."""
    label = where or make_printable(path)
    refuse_symlinks(path, label)
    with convert_write_errors(label):
        handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                os.fchmod(handle, _default_mode() if mode is None else mode)
                file.write(content)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


@contextmanager
def convert_write_errors(where: str) -> Iterator[None]:
    """Raise EnvironmentFault if a file could not be written because the disk is full, InputError for its path."""
    try:
        with convert_full_disk(where):
            yield
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", where=where) from None


@contextmanager
def convert_full_disk(where: str) -> Iterator[None]:
    """Raise EnvironmentFault for a full disk; other errors stay as they are."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        hint = "free some space on its disk, then run it again"
        raise EnvironmentFault(f"{where}: cannot be written: {error.strerror}", hint=hint) from None


def sync_to_disk(path: Path) -> None:
    """Wait until the disk has a file, or a folder's list of names: a rename alone may not survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system without fsync for folders
            raise
    finally:
        os.close(descriptor)


def _default_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
