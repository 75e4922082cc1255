"""Evaluated resource graphs in the user's cache folder, by the key that ``cache_key`` makes of their inputs.

A file is one header line with the key and a digest, then the list of resources. It is private, bounded in size, number
and age, and read like any outside data: what is damaged or was written by another user is evaluated again. Values that
a program marks as secret are not written: a decoded graph hides them anyway.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet import paths
from gpufleet.boundary import shorten_repr, write_bytes
from gpufleet.cost.inputs.program.cache_key import Installation, make_cache_key
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.engine import hide_secret_values
from gpufleet.errors import GpufleetError, InputError

SWITCH = "GPUFLEET_PROGRAM_CACHE"
ON_WORDS, OFF_WORDS = ("on", "1", "true", "yes"), ("off", "0", "false", "no")
FORMAT = 1
MIB = 1 << 20
HEADER_BYTES = 512
FILE_BYTES = 16 * MIB
FOLDER_BYTES, FOLDER_FILES = 64 * MIB, 256
LIFETIME_S = 2 * 24 * 3600.0


@dataclass(frozen=True)
class KeptGraph:
    """A program, the key of its graph (None if it cannot be kept), and the JSON of the graph (None if it is not)."""

    program: StackProgram
    key: str | None = None
    content: bytes | None = None

    def store_records(self, records: list[dict[str, Any]], installation: Installation) -> None:
        """Store the records of an evaluation, unless what it read has changed since the graph was looked up."""
        if self.key is not None and make_cache_key(self.program, installation) == self.key:
            store_graph(self.key, records)


def load_kept_graph(program: StackProgram, installation: Installation) -> KeptGraph:
    """Look up the graph of a program."""
    key = make_cache_key(program, installation) if is_enabled() else None
    return KeptGraph(program, key, load_graph(key) if key else None)


def is_enabled() -> bool:
    """Return whether evaluated graphs are kept: ``GPUFLEET_PROGRAM_CACHE=off`` switches it off.

    Raise InputError for a value that means neither on nor off.
    """
    value = os.environ.get(SWITCH, "").strip()
    lowercase = value.lower()
    if lowercase and lowercase not in ON_WORDS + OFF_WORDS:
        raise InputError(
            f"{shorten_repr(value)} is not a switch",
            where=SWITCH,
            remedy=f"use {', '.join(OFF_WORDS)} or {', '.join(ON_WORDS)}",
        )
    return lowercase not in OFF_WORDS


def find_cache_folder() -> Path:
    """Return the folder of kept graphs."""
    return paths.user_cache_folder() / "programs"


def load_graph(key: str) -> bytes | None:
    """Return the JSON of a kept graph, None if there is none or its file is damaged, too large or not private."""
    path = find_cache_folder() / key
    content = _read_private_file(path)
    if content is None:
        return None
    header, _, body = content.partition(b"\n")
    if header != _make_header(key, body):
        return None
    with suppress(OSError):
        os.utime(path)  # so that the oldest file is the one that was not used for longest
    return body


def store_graph(key: str, records: list[dict[str, Any]]) -> None:
    """Write the records of a graph; a folder that cannot be written to keeps nothing."""
    body = json.dumps({"resources": hide_secret_values(records)}).encode()
    if len(body) + HEADER_BYTES > FILE_BYTES:
        return
    folder = find_cache_folder()
    with suppress(OSError, GpufleetError):
        paths.ensure_private_folder(folder)
        write_bytes(folder / key, _make_header(key, body) + b"\n" + body, mode=0o600)
        _remove_surplus(folder)


def _make_header(key: str, body: bytes) -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    return json.dumps({"format": FORMAT, "key": key, "sha256": digest}).encode()


def _read_private_file(path: Path) -> bytes | None:
    """Return the content of a regular file of this user in a folder that only this user can write to."""
    try:
        if not _is_private(path.parent.lstat(), stat.S_ISDIR):
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not _is_private(os.fstat(descriptor), stat.S_ISREG):
                return None
            content = file.read(FILE_BYTES + 1)
    except OSError:
        return None
    return content if len(content) <= FILE_BYTES else None


def _is_private(status: os.stat_result, is_kind: Any) -> bool:
    return is_kind(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _remove_surplus(folder: Path) -> None:
    """Remove files that are too old, and the least recently used ones over the bounds."""
    files = []
    for entry in os.scandir(folder):
        with suppress(OSError):  # another process may remove it at the same moment
            status = entry.stat(follow_symlinks=False)
            files.append((status.st_mtime, status.st_size, entry.path))
    kept_bytes, oldest = 0, time.time() - LIFETIME_S
    for count, (used_at, size, path) in enumerate(sorted(files, reverse=True), start=1):
        kept_bytes += size
        if used_at < oldest or count > FOLDER_FILES or kept_bytes > FOLDER_BYTES:
            with suppress(OSError):
                Path(path).unlink()
