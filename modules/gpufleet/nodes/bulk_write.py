"""Writes the values of reports: rows in bulk, the same statements on both databases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from gpufleet.nodes import schema
from gpufleet.nodes.model import is_witness_source
from gpufleet.nodes.source_report import SourceReport

T = TypeVar("T")

MAX_IDS_PER_QUERY = 500  # in one IN list: well under every database's limit
_MAX_ROWS_PER_STATEMENT = 5000


def split_into_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut items into lists of at most ``size``."""
    sequence = list(items)
    for start in range(0, len(sequence), size):
        yield sequence[start : start + size]


def upsert(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows, replacing those with the same primary key."""
    if not rows:
        return
    make = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = make(table)
    keys = [column.name for column in table.primary_key]
    new_columns = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    for batch in split_into_batches(rows, _MAX_ROWS_PER_STATEMENT):
        connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=new_columns), batch)


def update_nodes(connection: Connection, rows: dict[str, dict[str, Any]]) -> None:
    """Write the merged fields of known nodes."""
    if not rows:
        return
    node_rows = [{"node_id": i, **convert_to_node_columns(row)} for i, row in rows.items()]
    columns: dict[str, Any] = {name: bindparam(name) for name in node_rows[0] if name != "node_id"}
    statement = update(schema.node).where(schema.node.c.id == bindparam("node_id")).values(columns)
    connection.execute(statement, node_rows)


def insert_nodes(connection: Connection, node_rows: Sequence[dict[str, Any]]) -> None:
    """Insert new nodes, each with its first line of history."""
    for batch in split_into_batches(node_rows, _MAX_ROWS_PER_STATEMENT):
        connection.execute(insert(schema.node), batch)
        connection.execute(insert(schema.history), [_created_event(row) for row in batch])


def convert_to_node_columns(merged_fields: dict[str, Any]) -> dict[str, Any]:
    """Return merged fields as the node's row has them."""
    slot = None if merged_fields["slot"] is None else str(merged_fields["slot"])
    account = merged_fields["account"] or ""
    return {**merged_fields, "kind": merged_fields["kind"] or "server", "slot": slot, "account": account}


def build_new_node_row(
    node_id: str,
    merged_fields: dict[str, Any],
    source: str,
    at: datetime,
    *,
    retired_identities: set[tuple[str, ...]],
    revision: int,
) -> dict[str, Any]:
    """Return a new node's row: what has a cloud instance exists, a declared slot is only expected.

    Its state has revision 0, so that a run from before its first sync still counts, unless a retired node had its
    name or place (``retired_identities``): reports of that one must not count.
    """
    exists = merged_fields["instance_id"] is not None
    columns = convert_to_node_columns(merged_fields)
    successor = not retired_identities.isdisjoint(
        {(columns["name"],), (columns["rack"] or "", columns["slot"] or "")}
    )
    return {
        "id": node_id,
        **columns,
        "state": "discovered" if exists else "expected",
        "state_since": at,
        "state_reason": f"{'found' if exists else 'declared'} by {source}",
        "state_revision": revision if successor else 0,
    }


def _created_event(row: dict[str, Any]) -> dict[str, Any]:
    return _event(row["id"], row["state_since"], "created", row["state_reason"]) | {"new_state": row["state"]}


def delete_sourced_values(connection: Connection, keys_by_source: dict[str, list[tuple[str, str]]]) -> None:
    """Delete values that their source no longer gives: by source, (node, key)."""
    table = schema.observation.c
    same_value = (
        table.source == bindparam("of"),
        table.node_id == bindparam("node"),
        table.key == bindparam("name"),
    )
    rows = [
        {"of": source, "node": i, "name": key} for source, batch in keys_by_source.items() for i, key in batch
    ]
    for value_rows in split_into_batches(rows, _MAX_ROWS_PER_STATEMENT):
        connection.execute(delete(schema.observation).where(*same_value), value_rows)


def upsert_sourced_values(connection: Connection, value_rows: Sequence[dict[str, Any]]) -> None:
    """Store values; one that the same source gave before is replaced. The last of several counts."""
    last = {(row["node_id"], row["source"], row["key"]): row for row in value_rows}
    upsert(connection, schema.observation, list(last.values()))


def mark_nodes_missing(
    connection: Connection, missing_nodes: Sequence[tuple[str, str, datetime]], revision: int
) -> None:
    """Mark nodes as missing from a source: (node, source, when)."""
    table = schema.presence
    by_source: dict[tuple[str, datetime], list[str]] = defaultdict(list)
    for node_id, source, at in missing_nodes:
        by_source[source, at].append(node_id)
    for (source, at), node_ids in by_source.items():
        for ids in split_into_batches(node_ids, MAX_IDS_PER_QUERY):
            presence_of_nodes = table.c.source == source, table.c.node_id.in_(ids)
            connection.execute(
                update(table).where(*presence_of_nodes).values(missing_since=at, revision=revision)
            )
    lines = [_event(i, at, "missing", f"no longer in {source}") for i, source, at in missing_nodes]
    if lines:
        connection.execute(insert(schema.history), lines)


def record_source_report_times(
    connection: Connection, reports: Iterable[SourceReport], revision: int
) -> None:
    """Record when each source last answered in full."""
    answered = {
        report.source: {
            "name": report.source,
            "observed_at": report.observed_at,
            "failed_at": None,
            "failure": None,
            "revision": revision,
        }
        for report in reports
    }
    upsert(connection, schema.source, list(answered.values()))


def _event(node_id: str, at: datetime, event: str, reason: str) -> dict[str, Any]:
    row = {"node_id": node_id, "at": at, "event": event, "reason": reason}
    return row | {"old_state": None, "new_state": None, "attempt": None}


def find_missing_nodes(connection: Connection, node_ids: Sequence[str]) -> set[str]:
    """Return those of ``ids`` that every source which makes or declares nodes has lost."""
    table = schema.presence
    declared_or_made: set[str] = set()
    present: set[str] = set()
    for batch in split_into_batches(node_ids, MAX_IDS_PER_QUERY):
        for row in connection.execute(select(table).where(table.c.node_id.in_(batch))):
            if is_witness_source(row.source):
                continue
            declared_or_made.add(row.node_id)
            if row.missing_since is None:
                present.add(row.node_id)
    return declared_or_made - present
