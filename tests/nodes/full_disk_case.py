"""Runs on a small disk: sync a registry at one level of free space after another, and print what came of each."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from datetime import UTC, datetime
from pathlib import Path

from alembic import command
from alembic.config import Config

from full_disk import fill_disk
from gpufleet.errors import EnvironmentFault
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry, SourceReport, database

START = datetime(2026, 11, 21, tzinfo=UTC)
OLD_NODES, NEW_NODES = 20, 200
KIB = 1024
STEPS = {"first": range(0, 600 * KIB, 20 * KIB), "existing": range(0, 1600 * KIB, 80 * KIB)}
STEPS["migration"] = STEPS["first"]


def sync(url, count):
    """Report ``count`` nodes."""
    declared = {"kind": "cloud_vm", "cloud": "aws", "machine": "g5.2xlarge"}
    seen = [
        NodeObservation(
            "pulumi:a",
            f"n{i:04}",
            NodeIdentity(instance_id=f"i-{i:08}"),
            declared=declared,
            observed_at=START,
        )
        for i in range(count)
    ]
    with Registry(url) as registry:
        registry.apply_source_report(SourceReport("pulumi:a", START, seen))


def make_registry_of_version(file, version):
    """Make a registry of an older gpufleet with one node of it."""
    url = database._parse_url(f"sqlite:///{file}")
    engine = database._engine(url, 5.0)
    config = Config()
    config.set_main_option("script_location", "gpufleet.nodes:migrations")
    with database._writing(engine, url, 5.0) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, version)
    engine.dispose()


def read_registry(file):
    """Return what SQLite says about the file, its schema's version and its number of nodes; None without a file."""
    if not file.exists():
        return None
    with sqlite3.connect(file) as connection:
        integrity = connection.execute("PRAGMA integrity_check").fetchone()[0]
        version = connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'part'").fetchone()[0]
        nodes = connection.execute("SELECT count(*) FROM node").fetchone()[0]
    connection.close()
    return {"integrity": integrity, "version": version, "has_parts": bool(tables), "nodes": nodes}


def run_level(disk, kind, leave, prepared):
    """Sync with so many bytes free, then with enough of them."""
    folder = disk / "state"
    folder.mkdir(mode=0o700)
    file, error = folder / "registry.db", None
    url = f"sqlite:///{file}"
    if prepared:
        shutil.copy(prepared, file)
    with fill_disk(disk, leave):
        try:
            sync(url, NEW_NODES if kind == "existing" else OLD_NODES)
        except EnvironmentFault as fault:
            error = {"code": fault.exit_code, "message": str(fault), "hint": fault.hint}
    left = sorted(path.name for path in folder.iterdir())
    between = read_registry(file)
    sync(url, NEW_NODES)
    after = read_registry(file)
    shutil.rmtree(folder)
    return {"leave": leave, "error": error, "left": left, "between": between, "after": after}


def main():
    """Print the result of each level as a line of JSON."""
    disk, kind = Path(sys.argv[1]), sys.argv[2]
    prepared = None
    if kind != "first":
        prepared = disk / "prepared.db"
        if kind == "existing":
            sync(f"sqlite:///{prepared}", OLD_NODES)
        else:
            make_registry_of_version(prepared, "0001")
    for leave in STEPS[kind]:
        print(json.dumps(run_level(disk, kind, leave, prepared)), flush=True)


if __name__ == "__main__":
    main()
