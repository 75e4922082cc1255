"""Writing what a report said: rows in bulk, the same statements on both databases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from gpufleet.nodes import schema
from gpufleet.nodes.model import WITNESSES, Value

T = TypeVar("T")

IDS_AT_ONCE = 500  # in one IN list: well under every database's limit
_ROWS_AT_ONCE = 5000


def slices(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut items into lists of at most ``size``."""
    whole = list(items)
    for start in range(0, len(whole), size):
        yield whole[start : start + size]


def upsert(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows, replacing those with the same primary key."""
    if not rows:
        return
    make = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = make(table)
    keys = [column.name for column in table.primary_key]
    rest = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    for some in slices(rows, _ROWS_AT_ONCE):
        connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=rest), some)


def write_nodes(
    connection: Connection, rows: dict[str, dict[str, Any]], fresh: Sequence[str], source: str, at: datetime
) -> None:
    """Update the known, then add the new: an update may free the slot that a new node takes."""
    new = set(fresh)
    known = [{"node_id": i, **_filled(row)} for i, row in rows.items() if i not in new]
    if known:
        columns: dict[str, Any] = {name: bindparam(name) for name in known[0] if name != "node_id"}
        statement = update(schema.node).where(schema.node.c.id == bindparam("node_id")).values(columns)
        connection.execute(statement, known)
    if new:
        born = [_newborn(i, rows[i], source, at) for i in fresh]
        connection.execute(insert(schema.node), born)
        connection.execute(insert(schema.history), [_birth(row) for row in born])


def _filled(row: dict[str, Any]) -> dict[str, Any]:
    slot = None if row["slot"] is None else str(row["slot"])
    return {**row, "kind": row["kind"] or "server", "slot": slot}


def _newborn(node_id: str, row: dict[str, Any], source: str, at: datetime) -> dict[str, Any]:
    """Return a new node's row: what has a cloud instance exists, a declared slot is only expected."""
    found = row["instance_id"] is not None
    return {
        "id": node_id,
        **_filled(row),
        "state": "discovered" if found else "expected",
        "state_since": at,
        "state_reason": f"{'found' if found else 'declared'} by {source}",
    }


def _birth(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "node_id": row["id"],
        "at": row["state_since"],
        "event": "created",
        "old_state": None,
        "new_state": row["state"],
        "reason": row["state_reason"],
        "attempt": None,
    }


def write_values(
    connection: Connection, source: str, values: dict[str, list[Value]], *, replace: bool
) -> None:
    """Store each value with its source; a complete report replaces what the source said before."""
    table = schema.observation
    rows = [
        {"node_id": i, "source": v.source, "key": v.key, "value": v.value, "observed_at": v.observed_at}
        for i, spoken in values.items()
        for v in spoken
    ]
    if not replace:
        upsert(connection, table, rows)
        return
    for ids in slices(values, IDS_AT_ONCE):
        connection.execute(delete(table).where(table.c.source == source, table.c.node_id.in_(ids)))
    for some in slices(rows, _ROWS_AT_ONCE):
        connection.execute(insert(table), some)


def write_presence(
    connection: Connection, source: str, here: Iterable[str], at: datetime, complete: bool
) -> list[str]:
    """Note who was seen; after a complete report return who went missing from the source."""
    table = schema.presence
    seen = set(here)
    rows = [{"node_id": i, "source": source, "observed_at": at, "missing_since": None} for i in sorted(seen)]
    upsert(connection, table, rows)
    if not complete:
        return []
    query = select(table.c.node_id).where(table.c.source == source, table.c.missing_since.is_(None))
    lost = [i for i in connection.execute(query).scalars() if i not in seen]
    for ids in slices(lost, IDS_AT_ONCE):
        gone = table.c.source == source, table.c.node_id.in_(ids)
        connection.execute(update(table).where(*gone).values(missing_since=at))
    reason = f"no longer in {source}"
    lines = [_event(i, at, "missing", reason) for i in lost]
    if lines:
        connection.execute(insert(schema.history), lines)
    return lost


def _event(node_id: str, at: datetime, event: str, reason: str) -> dict[str, Any]:
    row = {"node_id": node_id, "at": at, "event": event, "reason": reason}
    return row | {"old_state": None, "new_state": None, "attempt": None}


def missing_nodes(connection: Connection, ids: Sequence[str]) -> set[str]:
    """Return those of ``ids`` that every source which makes or declares nodes has lost."""
    table = schema.presence
    made: set[str] = set()
    present: set[str] = set()
    for some in slices(ids, IDS_AT_ONCE):
        for row in connection.execute(select(table).where(table.c.node_id.in_(some))):
            if row.source.partition(":")[0] in WITNESSES:
                continue
            made.add(row.node_id)
            if row.missing_since is None:
                present.add(row.node_id)
    return made - present
