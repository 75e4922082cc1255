"""What the watch remembers between cycles and restarts: one small SQLite file in the state home.

It is not the registry: it has what is not yet a finding. A file that is lost costs what was pending, no finding.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from gpufleet.boundary import OWN_STATE, NotJsonError, decode_json
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.operations.watch.condition import NodeState

FILE = "watch.db"
SCHEMA = """
CREATE TABLE IF NOT EXISTS cycle (one INTEGER PRIMARY KEY CHECK (one = 1), axis REAL NOT NULL, wall REAL NOT NULL);
CREATE TABLE IF NOT EXISTS node (id TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS drained (id TEXT PRIMARY KEY, reason TEXT NOT NULL, confirmed INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS alert (key TEXT PRIMARY KEY, at REAL NOT NULL, ended INTEGER NOT NULL DEFAULT 0);
"""
ALERT_SECONDS = 30 * 86_400.0
"""How long an alert is remembered after it came last: Alertmanager repeats it every four hours by default."""


class WatchStore:
    """The file, open for one watch at a time: a second one is refused.

    The lock is a transaction that stays open in a second file, so that it ends with the process.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = sqlite3.connect(folder / f"{FILE}.lock", timeout=0, check_same_thread=False)
        try:
            self._lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            self._lock.close()
            hint = "end the other gpufleet watch of this project first"
            raise EnvironmentFault("a watch runs already", hint=hint) from None
        self._database = sqlite3.connect(folder / FILE, isolation_level=None, check_same_thread=False)
        try:
            self._database.executescript(SCHEMA)
        except sqlite3.DatabaseError as error:
            self.close()
            raise EnvironmentFault(
                f"{folder / FILE}: {error}", hint="move the file away: a new one is made"
            ) from None
        self._written: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()
        self._lock.close()

    def load_axis(self, now: datetime) -> tuple[float, float]:
        """Return the last cycle's time on the watch's axis, and the present one by the clock; 0 for a new file."""
        row = self._database.execute("SELECT axis, wall FROM cycle").fetchone()
        if row is None:
            return 0.0, 0.0
        return float(row[0]), float(row[0]) + max(0.0, now.timestamp() - float(row[1]))

    def load_nodes(self, axis: float) -> dict[str, NodeState]:
        """Return what was remembered after the cycle at ``axis``; a row that is not ours is forgotten."""
        states = {}
        for node_id, text in self._database.execute("SELECT id, state FROM node"):
            try:
                states[node_id] = NodeState.from_json(decode_json(text, FILE, OWN_STATE), axis)
            except (InputError, NotJsonError, KeyError, TypeError, ValueError):
                continue
            self._written[node_id] = text
        return states

    def save_cycle(self, axis: float, now: datetime, states: Mapping[str, NodeState]) -> None:
        """Write what changed in a cycle, all of it or nothing."""
        texts = {node_id: json.dumps(state.as_json(axis)) for node_id, state in states.items()}
        changed = [(node_id, text) for node_id, text in texts.items() if self._written.get(node_id) != text]
        gone = [(node_id,) for node_id in self._written.keys() - texts.keys()]
        with self._database:
            self._database.execute("BEGIN")
            self._database.executemany("INSERT OR REPLACE INTO node VALUES (?, ?)", changed)
            self._database.executemany("DELETE FROM node WHERE id = ?", gone)
            self._database.execute("INSERT OR REPLACE INTO cycle VALUES (1, ?, ?)", (axis, now.timestamp()))
        self._written = texts

    # Nodes that a scheduler was told about

    def load_drained(self) -> dict[str, tuple[str, bool]]:
        """Return reason and whether the scheduler confirmed it, by node id."""
        rows = self._database.execute("SELECT id, reason, confirmed FROM drained")
        return {node_id: (reason, bool(confirmed)) for node_id, reason, confirmed in rows}

    def save_drained(self, node_id: str, reason: str, *, confirmed: bool) -> None:
        self._database.execute(
            "INSERT OR REPLACE INTO drained VALUES (?, ?, ?)", (node_id, reason, confirmed)
        )

    def forget_drained(self, node_ids: Iterable[str]) -> None:
        self._database.executemany("DELETE FROM drained WHERE id = ?", [(node_id,) for node_id in node_ids])

    # Alerts

    def find_alert(self, key: str) -> bool | None:
        """Return whether a known alert ended; None for one that never came."""
        row = self._database.execute("SELECT ended FROM alert WHERE key = ?", (key,)).fetchone()
        return None if row is None else bool(row[0])

    def save_alert(self, key: str, at: float, *, ended: bool) -> None:
        self._database.execute("INSERT OR REPLACE INTO alert VALUES (?, ?, ?)", (key, at, ended))
        self._database.execute("DELETE FROM alert WHERE at < ?", (at - ALERT_SECONDS,))
