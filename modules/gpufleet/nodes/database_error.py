"""Converts database errors into one line with a hint, and never with a password."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError, OperationalError

from gpufleet.boundary import make_printable
from gpufleet.errors import EnvironmentFault, GpufleetError, InputError

URL_REMEDY = "for example sqlite:///registry.db or postgresql://user@host/gpufleet"
RESTORE = "restore it from a backup; or move it away, and `gpufleet nodes sync` begins a new one"

_HINTS = {
    "locked": "another gpufleet is writing; wait for it, or raise GPUFLEET_DATABASE_TIMEOUT (seconds)",
    "lock timeout": "another gpufleet is writing; wait for it, or raise GPUFLEET_DATABASE_TIMEOUT (seconds)",
    "readonly": "make the file and its folder writable for this user",
    "read-only": "make the database writable for this user",
    "is full": "free some space on its disk, then run it again; what was recorded before is safe",
    "no space": "free some space on its disk, then run it again; what was recorded before is safe",
    "disk i/o": "check whether its disk is full or damaged; what was recorded before is safe",
    "not a database": RESTORE,
    "malformed": RESTORE,
    "no such table": RESTORE,
    "no such column": RESTORE,
    "unable to open": "the registry must be a file in a folder that this user may read and write",
    "password": "correct the password in GPUFLEET_DATABASE_URL, or keep it in ~/.pgpass",
    "connection": "check that the server runs and that GPUFLEET_DATABASE_URL is correct",
}


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
            hint = next((hint for sign, hint in _HINTS.items() if sign in first.lower()), None)
            raise EnvironmentFault(
                f"the registry {_format_url(url)} does not answer: {first}", hint=hint
            ) from error
        if error.statement is None:  # refused before any statement: the URL's own options
            raise InputError(first, key="GPUFLEET_DATABASE_URL", remedy=URL_REMEDY) from None
        raise


def _format_url(url: URL) -> str:
    return make_printable(url.render_as_string(hide_password=True))


def _without_password(message: str, url: URL) -> str:
    password = str(url.password or "")
    return make_printable(message.replace(password, "***") if password else message)
