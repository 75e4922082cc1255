"""Converts database errors into one line with a hint, and never with a password."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError, OperationalError

from gpufleet.boundary import make_printable
from gpufleet.errors import EnvironmentFault, GpufleetError, InputError

URL_REMEDY = "for example sqlite:///registry.db or postgresql://user@host/gpufleet"
RESTORE = "restore it from a backup; or move it away, and `gpufleet nodes sync` begins a new one"

_MIB = 1 << 20
_SMALLEST_ROOM_BYTES = 2 * _MIB  # for a new registry; a transaction's log is rarely larger than the file

_HINTS = {
    "locked": "another gpufleet is writing; wait for it, or raise GPUFLEET_DATABASE_TIMEOUT (seconds)",
    "lock timeout": "another gpufleet is writing; wait for it, or raise GPUFLEET_DATABASE_TIMEOUT (seconds)",
    "readonly": "make the file and its folder writable for this user",
    "read-only": "make the database writable for this user",
    "is full": "free some space on its disk, then run it again; what was recorded before is safe",
    "no space": "free some space on its disk, then run it again; what was recorded before is safe",
    "disk i/o": "check whether its disk is damaged; what was recorded before is safe",
    "not a database": RESTORE,
    "malformed": RESTORE,
    "no such table": RESTORE,
    "no such column": RESTORE,
    "unable to open": "the registry must be a file in a folder that this user may read and write",
    "password": "correct the password in GPUFLEET_DATABASE_URL, or keep it in ~/.pgpass",
    "connection": "check that the server runs and that GPUFLEET_DATABASE_URL is correct",
}


_SYMPTOMS_OF_FULL_DISK = ("is full", "no space", "disk i/o", "unable to open")
"""SQLite also reports an I/O error, or that it cannot open, if its log finds no room."""


def unusable_registry_error(url: URL, problem: str) -> EnvironmentFault:
    """Return the error for a registry that cannot be read or written, with the hint that fits the problem."""
    symptom = problem.lower()
    hint = next((hint for sign, hint in _HINTS.items() if sign in symptom), None)
    if any(sign in symptom for sign in _SYMPTOMS_OF_FULL_DISK):
        hint = _describe_full_disk(url) or hint
    return EnvironmentFault(f"the registry {_format_url(url)} does not answer: {problem}", hint=hint)


def _describe_full_disk(url: URL) -> str | None:
    """Return how much to free on the disk of a SQLite registry, None if it has that much or cannot be looked at."""
    if url.get_backend_name() != "sqlite" or not url.database:
        return None
    file = Path(url.database)
    try:
        disk = os.statvfs(file.parent)
        used = sum(part.stat().st_size for part in file.parent.glob(f"{file.name}*"))
    except OSError:
        return None
    free, needed = disk.f_bavail * disk.f_frsize, _SMALLEST_ROOM_BYTES + 2 * used
    if free >= needed:
        return None
    return (
        f"its disk has {free // 1024:,} KiB free: free {needed / _MIB:.0f} MiB, then run it again; "
        "what was recorded before is safe"
    )


def damaged_registry_error(url: URL, symptom: str) -> EnvironmentFault:
    """Return the error for a registry that exists but is damaged."""
    return EnvironmentFault(f"the registry {_format_url(url)} does not answer: it {symptom}", hint=RESTORE)


@contextmanager
def convert_database_errors(url: URL) -> Iterator[None]:
    """Convert errors of the database (gone, locked, full, refused) into one-line errors."""
    try:
        yield
    except GpufleetError:
        raise
    except DatabaseError as error:
        first = _without_password(str(error.orig or error).strip().partition("\n")[0], url)
        if isinstance(error, OperationalError) or type(error) is DatabaseError:
            raise unusable_registry_error(url, first) from error
        if error.statement is None:  # refused before any statement: the URL's own options
            raise InputError(first, key="GPUFLEET_DATABASE_URL", remedy=URL_REMEDY) from None
        raise


def _format_url(url: URL) -> str:
    return make_printable(url.render_as_string(hide_password=True))


def _without_password(message: str, url: URL) -> str:
    password = str(url.password or "")
    return make_printable(message.replace(password, "***") if password else message)
