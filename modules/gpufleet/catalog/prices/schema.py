"""The store's tables. A new version adds a step to ``STEPS``; a store written by a newer one is refused."""

from __future__ import annotations

import sqlite3

from gpufleet.errors import EnvironmentFault

STEPS = (
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
VERSION = len(STEPS)

# Commitments paid without money at the start are compared first; then the newest; then the best trusted.
ORDER = """
    CASE upfront WHEN 'none' THEN 0 WHEN 'partial' THEN 1 ELSE 2 END, dated DESC,
    CASE confidence WHEN 'high' THEN 0 WHEN 'medium' THEN 1 ELSE 2 END, run DESC
"""
NEWEST = f"""
    SELECT cloud, region, item, purchase, kind, unit, as_of, dated, source, usd_per_hour, confidence,
           accelerator, accelerators, CASE WHEN accelerators > 0 THEN usd_per_hour / accelerators END AS each
    FROM (
        SELECT p.*, m.accelerator, m.accelerators, row_number() OVER (
            PARTITION BY p.cloud, p.item, p.region, p.purchase ORDER BY {ORDER}) AS place
        FROM prices p LEFT JOIN machines m ON m.cloud = p.cloud AND m.item = p.item WHERE dated <= {{day}})
    WHERE place = 1
"""  # noqa: S608 - our own words
REBUILD = f"INSERT INTO current {NEWEST.format(day=repr('9999'))}"
AS_OF = NEWEST.format(day="?")


def prepare(link: sqlite3.Connection, path: str) -> None:
    """Bring a store to this version's tables, in one transaction; refuse a newer or foreign file."""
    found = version(link, path)
    if found == VERSION:
        return
    link.execute("BEGIN IMMEDIATE")
    try:
        for step in STEPS[version(link, path) :]:  # asked again: another process may have been first
            for statement in filter(str.strip, step.split(";")):
                link.execute(statement)
        link.execute(f"PRAGMA user_version = {VERSION}")
        link.execute("COMMIT")
    except BaseException:
        link.execute("ROLLBACK")
        raise


def version(link: sqlite3.Connection, path: str) -> int:
    """Return the version of a store's tables, 0 for an empty file."""
    try:
        found = int(link.execute("PRAGMA user_version").fetchone()[0])
        tables = int(link.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    except sqlite3.DatabaseError as error:
        raise EnvironmentFault(
            f"{path} is no price store: {error}", hint="move it away and import the prices again"
        ) from None
    if found > VERSION:
        raise EnvironmentFault(
            f"{path} was written by a newer gpufleet (version {found}, this one reads {VERSION})",
            hint="update gpufleet, or point GPUFLEET_PRICES at another file",
        )
    if tables and not found:
        raise EnvironmentFault(
            f"{path} is another program's database", hint="point GPUFLEET_PRICES elsewhere"
        )
    return found
