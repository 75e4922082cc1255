"""The store's tables. A new version adds a step to ``MIGRATIONS``; a store of a newer version is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet.errors import EnvironmentFault

if TYPE_CHECKING:
    import sqlite3  # imported where it is used: most commands find no store

MIGRATIONS = (
    """
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY, source TEXT NOT NULL, key TEXT NOT NULL, started_at TEXT NOT NULL,
        finished_at TEXT, taken INTEGER NOT NULL DEFAULT 0, unchanged INTEGER NOT NULL DEFAULT 0,
        set_apart INTEGER NOT NULL DEFAULT 0, UNIQUE (source, key)
    );
    CREATE TABLE batches (
        run INTEGER NOT NULL, name TEXT NOT NULL, rows INTEGER NOT NULL, PRIMARY KEY (run, name)
    ) WITHOUT ROWID;
    CREATE TABLE staged (
        run INTEGER NOT NULL, cloud TEXT, region TEXT, item TEXT, purchase TEXT, upfront TEXT, dated TEXT,
        source TEXT, kind TEXT, unit TEXT, as_of TEXT, usd_per_hour REAL, upfront_usd REAL, confidence TEXT,
        offered INTEGER, vcpus INTEGER, memory_gib REAL, arch TEXT, accelerator TEXT, accelerators REAL,
        accelerator_memory_gib REAL, place TEXT,
        PRIMARY KEY (run, cloud, item, region, purchase, upfront, dated, source)
    ) WITHOUT ROWID;
    CREATE TABLE prices (
        cloud TEXT, region TEXT, item TEXT, purchase TEXT, upfront TEXT, dated TEXT, source TEXT, kind TEXT,
        unit TEXT, as_of TEXT, usd_per_hour REAL, upfront_usd REAL, confidence TEXT, run INTEGER NOT NULL,
        PRIMARY KEY (cloud, item, region, purchase, upfront, dated, source)
    ) WITHOUT ROWID;
    CREATE TABLE apart (
        cloud TEXT, region TEXT, item TEXT, purchase TEXT, upfront TEXT, dated TEXT, source TEXT, code TEXT,
        reason TEXT, usd_per_hour REAL, place TEXT, run INTEGER NOT NULL,
        PRIMARY KEY (cloud, item, region, purchase, upfront, dated, source, code)
    ) WITHOUT ROWID;
    CREATE TABLE machines (
        cloud TEXT, item TEXT, vcpus INTEGER, memory_gib REAL, arch TEXT, accelerator TEXT, accelerators REAL,
        accelerator_memory_gib REAL, source TEXT, as_of TEXT, PRIMARY KEY (cloud, item)
    ) WITHOUT ROWID;
    CREATE TABLE current (
        cloud TEXT, region TEXT, item TEXT, purchase TEXT, kind TEXT, unit TEXT, as_of TEXT, dated TEXT,
        source TEXT, usd_per_hour REAL, confidence TEXT, accelerator TEXT, accelerators REAL, each REAL,
        PRIMARY KEY (cloud, item, region, purchase)
    ) WITHOUT ROWID;
    CREATE INDEX current_by_machine ON current (kind, usd_per_hour);
    CREATE INDEX current_by_accelerator ON current (kind, each);
    CREATE INDEX current_by_region ON current (region);
    CREATE INDEX current_by_model ON current (accelerator);
    """,
)
VERSION = len(MIGRATIONS)

# Commitments without an upfront payment come first; then the newest; then the highest confidence.
PREFERENCE_ORDER = """
    CASE upfront WHEN 'none' THEN 0 WHEN 'partial' THEN 1 ELSE 2 END, dated DESC,
    CASE confidence WHEN 'high' THEN 0 WHEN 'medium' THEN 1 ELSE 2 END, run DESC
"""
SELECT_NEWEST = f"""
    SELECT cloud, region, item, purchase, kind, unit, as_of, dated, source, usd_per_hour, confidence,
           accelerator, accelerators, CASE WHEN accelerators > 0 THEN usd_per_hour / accelerators END AS each
    FROM (
        SELECT p.*, m.accelerator, m.accelerators, row_number() OVER (
            PARTITION BY p.cloud, p.item, p.region, p.purchase ORDER BY {PREFERENCE_ORDER}) AS place
        FROM prices p LEFT JOIN machines m ON m.cloud = p.cloud AND m.item = p.item WHERE dated <= {{day}})
    WHERE place = 1
"""  # noqa: S608 - our own column names
REBUILD_CURRENT = f"INSERT INTO current {SELECT_NEWEST.format(day=repr('9999'))}"
SELECT_AS_OF = SELECT_NEWEST.format(day="?")


def migrate_store_schema(connection: sqlite3.Connection, path: str) -> None:
    """Migrate a store to this version in one transaction; refuse a newer or foreign file."""
    version = read_store_schema_version(connection, path)
    if version == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in MIGRATIONS[
            read_store_schema_version(connection, path) :
        ]:  # read again: another process may have migrated it
            for statement in filter(str.strip, migration.split(";")):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has ended it already
            connection.execute("ROLLBACK")
        raise


def read_store_schema_version(connection: sqlite3.Connection, path: str) -> int:
    """Return the version of a store's tables, 0 for an empty file."""
    import sqlite3

    try:
        # Tables and version are written together: counted first, tables of another process's migration have a version.
        tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.DatabaseError as error:
        raise EnvironmentFault(
            f"{path} is not a price store: {error}", hint="move it away and import the prices again"
        ) from None
    if version > VERSION:
        raise EnvironmentFault(
            f"{path} was written by a newer gpufleet (version {version}, this one reads {VERSION})",
            hint="update gpufleet, or set GPUFLEET_PRICES to another file",
        )
    if tables and not version:
        raise EnvironmentFault(
            f"{path} is the database of another program", hint="set GPUFLEET_PRICES to another file"
        )
    return version
