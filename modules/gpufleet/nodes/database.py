"""The registry's database: connections, the one-writer rule, migrations.

Writers take turns on both databases (``BEGIN IMMEDIATE`` on SQLite, an advisory lock on PostgreSQL): each
transaction is short, and what it read is still true when it writes. A registry that cannot be used is an
EnvironmentFault with what helps: it never looks empty. A new SQLite file appears under its name only when it is
whole, so a file that is empty is a damaged one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from gpufleet.boundary import shorten_repr
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.extra import format_install_command
from gpufleet.nodes.database_error import URL_REMEDY, convert_database_errors, damaged_registry_error
from gpufleet.nodes.registry_file import ensure_registry_file, sqlite_file_path

VERSIONS = ("0001", "0002", "0003", "0004", "0005")
HEAD = VERSIONS[-1]
"""The migrations in ``migrations/versions``, and the newest; a test compares them."""

TIMEOUT = "GPUFLEET_DATABASE_TIMEOUT"
"""Environment variable: seconds to wait for another writer, or for a server to answer."""

SQLITE_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON")
"""A power loss may take the last transactions and never the consistency: the log is synced before a checkpoint only."""

DRAFT_PRAGMAS = ("journal_mode=DELETE", "synchronous=FULL", "foreign_keys=ON")
"""A draft is published as one file: a checkpoint of a log that fails on a full disk would fail silently."""

_USUAL_TIMEOUT = 30.0
_WRITER_LOCK = 7_465_823_901  # any fixed number: the advisory lock that writers of one database share


class RegistryDatabase:
    """Opens the database, bringing its schema up to date first."""

    def __init__(self, url: str) -> None:
        self.timeout = _timeout()
        self.url = _parse_url(url)
        path = sqlite_file_path(self.url)
        if path is not None:
            ensure_registry_file(path, self.url, self._make_schema)
        self.engine = _engine(self.url, self.timeout)
        _migrate(self.engine, self.url, self.timeout)

    def _make_schema(self, draft: URL) -> None:
        engine = _engine(draft, self.timeout, DRAFT_PRAGMAS)
        try:
            _migrate(engine, self.url, self.timeout)
        finally:
            engine.dispose()

    def __repr__(self) -> str:
        return f"RegistryDatabase({self.url.render_as_string(hide_password=True)})"

    @contextmanager
    def read_transaction(self) -> Iterator[Connection]:
        """Yield a connection that sees the registry at one moment."""
        with convert_database_errors(self.url), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write_transaction(self) -> Iterator[Connection]:
        """Yield the registry's one writing transaction; all of it happens or nothing."""
        with _writing(self.engine, self.url, self.timeout) as connection:
            yield connection

    def close(self) -> None:
        self.engine.dispose()


def database_exists(url: str) -> bool:
    """Return True if there is something where the registry should be, usable or not; make nothing."""
    path = sqlite_file_path(_parse_url(url))
    if path is None:
        return True
    try:
        return path.exists() or path.is_symlink()
    except OSError as error:
        raise EnvironmentFault(f"the registry {path} cannot be read: {error.strerror}") from None


def _timeout() -> float:
    timeout_text = os.environ.get(TIMEOUT)
    try:
        seconds = float(timeout_text) if timeout_text else _USUAL_TIMEOUT
    except ValueError:
        seconds = -1
    if not 0 < seconds <= 3600:  # noqa: PLR2004 - an hour
        raise InputError(
            f"{shorten_repr(timeout_text)} is not a timeout in seconds",
            key=TIMEOUT,
            remedy="give more than 0 and at most 3600",
        )
    return seconds


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # ValueError: a port that is not a number
        raise InputError("not a database URL", key="GPUFLEET_DATABASE_URL", remedy=URL_REMEDY) from None
    backend = parsed.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise InputError(
            f"databases of type {backend} are not supported", key="GPUFLEET_DATABASE_URL", remedy=URL_REMEDY
        )
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed


def _engine(url: URL, timeout: float, pragmas: Sequence[str] = SQLITE_PRAGMAS) -> Engine:
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": timeout})
        event.listen(engine, "connect", partial(_prepare_sqlite, pragmas))
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    limits = {} if "connect_timeout" in url.query else {"connect_timeout": max(2, round(timeout))}
    try:
        return create_engine(url, connect_args=limits)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        command = format_install_command("postgresql")
        raise EnvironmentFault(f"{url.drivername} needs a driver: {error}: {command}") from None


def _prepare_sqlite(pragmas: Sequence[str], connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we write BEGIN ourselves: the driver's own would come too late
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writer = connection.get_execution_options().get("gpufleet_writer")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writer else "BEGIN")


@contextmanager
def _writing(engine: Engine, url: URL, timeout: float) -> Iterator[Connection]:
    options = {"gpufleet_writer": True}
    with (
        convert_database_errors(url),
        engine.connect().execution_options(**options) as connection,
        connection.begin(),
    ):
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SET LOCAL lock_timeout = {round(timeout * 1000)}"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _WRITER_LOCK})
        yield connection


def _migrate(engine: Engine, url: URL, timeout: float) -> None:
    """Migrate the schema to this version; EnvironmentFault for one that this version does not know."""
    with convert_database_errors(url):
        version = _version(engine, url)
        if version == HEAD:
            return
        if version is not None and version not in VERSIONS:
            location = url.render_as_string(hide_password=True)
            raise EnvironmentFault(
                f"the registry {location} was made by a newer gpufleet (schema {version})",
                hint="upgrade: pip install --upgrade gpufleet",
            )
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", "gpufleet.nodes:migrations")
        with _writing(engine, url, timeout) as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def _version(engine: Engine, url: URL) -> str | None:
    """Return the schema's version, None for a database without any table."""
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        if "alembic_version" in tables:
            version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
            if version is not None:
                return str(version)
        elif not tables or url.get_backend_name() == "postgresql":
            return None
    raise damaged_registry_error(url, "is not a registry of gpufleet")
