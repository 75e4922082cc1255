"""The file of a SQLite registry: it appears under its name only when it is whole and on the disk."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy.engine import URL

from gpufleet import paths
from gpufleet.boundary import sync_to_disk
from gpufleet.errors import EnvironmentFault
from gpufleet.nodes.database_error import damaged_registry_error, unusable_registry_error

_SMALLEST_FILE = 512  # bytes of a page: SQLite takes anything shorter for a new database


def sqlite_file_path(url: URL) -> Path | None:
    """Return the file of a SQLite URL, None for another database or one in memory."""
    name = url.database
    plain = (
        url.get_backend_name() == "sqlite" and name and name != ":memory:" and not name.startswith("file:")
    )
    return Path(str(name)) if plain else None


def ensure_registry_file(path: Path, url: URL, make_schema: Callable[[URL], None]) -> None:
    """Create a missing registry; an existing one stays. ``make_schema`` builds one at a URL and closes it.

    The file and its folder are for their owner alone, whatever the umask: they say where every node is.
    """
    try:
        if path.exists() or path.is_symlink():
            _restrict_permissions(path)
            if path.is_file() and path.stat().st_size < _SMALLEST_FILE:
                raise damaged_registry_error(url, "is cut off")
            return
        paths.ensure_private_folder(path.parent, restrict_existing=False)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            draft = Path(folder) / path.name
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            make_schema(url.set(database=str(draft)))
            _publish(draft, path, url)
    except OSError as error:
        hint = (
            "the registry must be a file in a folder that this user may write to, on a disk with free space"
        )
        raise EnvironmentFault(
            f"the registry {path} cannot be created: {error.strerror}", hint=hint
        ) from None


def _publish(draft: Path, path: Path, url: URL) -> None:
    """Give a complete draft its name; what a journal or a log next to it still has would be lost."""
    try:
        with closing(sqlite3.connect(draft)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")  # here, where no other process has the file open
        uri = f"{draft.absolute().as_uri()}?immutable=1"  # reads the file alone
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.DatabaseError as error:
        verdict = str(error)
    if verdict != "ok":
        raise unusable_registry_error(url, verdict)
    sync_to_disk(draft)
    with suppress(FileExistsError):  # another process was first, and its registry counts
        os.link(draft, path)
    sync_to_disk(path.parent)


def _restrict_permissions(path: Path) -> None:
    """Restrict a registry file that others may read, if this user owns it."""
    paths.ensure_private_folder(path.parent, restrict_existing=path.parent.name == paths.STATE_FOLDER)
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        file = path.with_name(name)
        if file.is_file() and file.stat().st_uid == os.geteuid() and file.stat().st_mode & 0o077:
            file.chmod(0o600)
