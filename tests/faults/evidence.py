"""The content of a registry, read with plain SQL and without the code that wrote it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

Row = dict[str, Any]
TABLES = ("node", "observation", "presence", "source", "hold", "attempt", "result", "history", "conflict")
PASSING = {"healthy": 0, "degraded": 1}


class Evidence:
    """The rows of all tables of a registry at one moment; empty for a missing registry."""

    def __init__(self, url: str) -> None:
        self.tables: dict[str, list[Row]] = read(url)
        self.names = {row["id"]: row["name"] for row in self["node"]}

    def __getitem__(self, table: str) -> list[Row]:
        return self.tables.get(table, [])

    def node(self, name: str) -> Row:
        """Return a live node by its name; empty when there is none."""
        return next((row for row in self["node"] if row["name"] == name and row["state"] != "retired"), {})

    def rows_of(self, table: str, name: str) -> list[Row]:
        """Return a table's rows of one node, by its name."""
        return [row for row in self[table] if self.names.get(row["node_id"]) == name]

    def moves(self, name: str) -> list[tuple[str, str]]:
        """Return the states that a node went to, each with its reason, oldest first."""
        rows = sorted(self.rows_of("history", name), key=lambda row: row["number"])
        return [(row["new_state"], row["reason"]) for row in rows if row["new_state"]]

    def rows_by_table(self, name: str) -> dict[str, list[Row]]:
        """Return everything of one node, to be compared before and after."""
        rows = {"node": [row for row in self["node"] if row["name"] == name]}
        others = (table for table in TABLES if table not in ("node", "source", "conflict"))
        return rows | {table: self.rows_of(table, name) for table in others}

    def digest(self) -> dict[str, Any]:
        """Return what two registries of the same life have in common: no ids, no times."""
        return {row["name"]: self._digest_of(row) for row in self["node"] if row["state"] != "retired"}

    def _digest_of(self, row: Row) -> dict[str, Any]:
        name = row["name"]
        stable_rows = (
            "kind",
            "state",
            "rack",
            "slot",
            "stack",
            "template",
            "machine",
            "address",
            "serial",
            "verdict",
        )
        return {key: row[key] for key in stable_rows} | {
            "reachable": None if row["reachable"] is None else bool(row["reachable"]),
            "sources": sorted(
                row["source"] for row in self.rows_of("presence", name) if not row["missing_since"]
            ),
            "holds": sorted(row["kind"] for row in self.rows_of("hold", name)),
            "results": sorted((row["attempt"], row["verdict"]) for row in self.rows_of("result", name)),
        }

    def faults(self) -> Iterator[str]:
        """Name what no history can explain: the invariants of every registry at every moment."""
        for row in self["node"]:
            moves = self.moves(row["name"]) if self._is_only(row) else [(row["state"], "")]
            if not moves or moves[-1][0] != row["state"]:
                yield f"{row['name']} is {row['state']}, its history ends in {moves[-1:] or 'nothing'}"
            if row["state"] == "ready":
                yield from self.find_unearned_states(row)

    def _is_only(self, row: Row) -> bool:
        return sum(node["name"] == row["name"] for node in self["node"]) == 1

    def find_unearned_states(self, row: Row) -> Iterator[str]:
        """Yield nodes that are ready without a passed current attempt."""
        attempts = [
            attempt
            for attempt in self["attempt"]
            if attempt["node_id"] == row["id"] and attempt["id"] == row["attempt"]
        ]
        results = [
            result["verdict"]
            for result in sorted(self["result"], key=lambda each: each["number"])
            if result["node_id"] == row["id"] and result["attempt"] == row["attempt"]
        ]
        if not attempts or attempts[0]["ended_at"] is None or attempts[0]["verdict"] not in PASSING:
            yield f"{row['name']} is ready, its current attempt {row['attempt']} has not passed: {attempts}"
        elif not results or results[-1] not in PASSING:
            yield f"{row['name']} is ready, attempt {row['attempt']} has no passing result: {results}"


def read(url: str) -> dict[str, list[Row]]:
    """Return every row of every table of the registry."""
    return _read_postgres(url) if url.startswith("postgresql") else _read_sqlite(sqlite_path(url))


def sqlite_path(url: str) -> Path:
    """Return the file that a SQLite URL names."""
    return Path(url.removeprefix("sqlite:///"))


def _read_sqlite(path: Path) -> dict[str, list[Row]]:
    if not path.is_file():
        return {}
    with closing(sqlite3.connect(path, timeout=60)) as link:
        link.row_factory = sqlite3.Row
        tables = {name for (name,) in link.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        rows = {table: link.execute(f"SELECT * FROM {table}") for table in TABLES if table in tables}
        return {table: [_plain(dict(row)) for row in cursor] for table, cursor in rows.items()}


def _read_postgres(url: str) -> dict[str, list[Row]]:
    import psycopg
    from psycopg.rows import dict_row

    with psycopg.connect(url.replace("postgresql+psycopg", "postgresql"), row_factory=dict_row) as link:
        names = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        tables = {row["tablename"] for row in link.execute(names)}
        return {
            table: [_plain(row) for row in link.execute(f"SELECT * FROM {table}")]
            for table in TABLES
            if table in tables
        }


def _plain(row: Row) -> Row:
    """Return JSON columns as text on both databases, so that rows compare."""
    return {
        key: json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value
        for key, value in row.items()
    }


def integrity(url: str) -> Iterator[str]:
    """Yield the errors that SQLite's integrity check reports."""
    path = sqlite_path(url)
    if url.startswith("postgresql") or not path.is_file():
        return
    with closing(sqlite3.connect(path, timeout=60)) as link:
        for pragma in ("integrity_check", "foreign_key_check"):
            rows = [row for row in link.execute(f"PRAGMA {pragma}") if row != ("ok",)]
            if rows:
                yield f"{pragma}: {rows[:3]}"
