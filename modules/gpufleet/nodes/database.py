"""The registry's database: connections, the one-writer rule, migrations.

Writers take turns on both databases (``BEGIN IMMEDIATE`` on SQLite, an advisory lock on PostgreSQL): each
transaction is short, and what it read is still true when it writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, OperationalError

from gpufleet.errors import EnvironmentFault, InputError

HEAD = "0001"
"""The newest migration in ``migrations/versions``; a test compares them."""

BUSY_SECONDS = 30
_WRITER_LOCK = 7_465_823_901  # any fixed number: the advisory lock that writers of one database share


class Database:
    """Opens the database, bringing its schema up to date first."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = _engine(url)
        with _reported(url):
            if self._version() != HEAD:
                self._migrate()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection that sees one moment of the registry."""
        with _reported(self.url), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give the registry's one writing transaction; all of it happens or nothing."""
        options = {"gpufleet_writer": True}
        with (
            _reported(self.url),
            self.engine.connect().execution_options(**options) as connection,
            connection.begin(),
        ):
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _WRITER_LOCK})
            yield connection

    def close(self) -> None:
        self.engine.dispose()

    def _version(self) -> str | None:
        with self.engine.connect() as connection:
            if not inspect(connection).has_table("alembic_version"):
                return None
            return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()

    def _migrate(self) -> None:
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", "gpufleet.nodes:migrations")
        with self.writing() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def exists(url: str) -> bool:
    """Say whether there is a registry to read, without making one."""
    parsed = _parsed(url)
    if parsed.get_backend_name() != "sqlite":
        return True
    return bool(parsed.database) and Path(str(parsed.database)).is_file()


def _parsed(url: str) -> Any:
    try:
        return make_url(url)
    except ArgumentError:
        raise InputError("not a database URL", key="GPUFLEET_DATABASE_URL", remedy=_URL_REMEDY) from None


_URL_REMEDY = "for example sqlite:///registry.db or postgresql://user@host/gpufleet"


def _engine(url: str) -> Engine:
    parsed = _parsed(url)
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if parsed.database:
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(parsed, connect_args={"timeout": BUSY_SECONDS})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    if backend != "postgresql":
        raise InputError(f"no support for {backend}", key="GPUFLEET_DATABASE_URL", remedy=_URL_REMEDY)
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    try:
        return create_engine(parsed)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        hint = "pip install 'gpufleet[postgresql]'"
        raise EnvironmentFault(f"PostgreSQL needs a driver: {error}", hint=hint) from None


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we write BEGIN ourselves: the driver's own would come too late
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writer = connection.get_execution_options().get("gpufleet_writer")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writer else "BEGIN")


@contextmanager
def _reported(url: str) -> Iterator[None]:
    """Turn the database's own trouble (gone, locked, full, refused) into one line of ours."""
    try:
        yield
    except DatabaseError as error:
        if not (isinstance(error, OperationalError) or type(error) is DatabaseError):
            raise
        first = str(error.orig).strip().splitlines()[0] if error.orig else str(error)
        shown = make_url(url).render_as_string(hide_password=True)
        raise EnvironmentFault(f"the registry {shown} does not answer: {first}") from error
