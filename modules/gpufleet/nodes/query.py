"""Reading the registry: rows into the values that everything else works with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from gpufleet.errors import InputError
from gpufleet.nodes import schema
from gpufleet.nodes.bulk_write import MAX_IDS_PER_QUERY, split_into_batches
from gpufleet.nodes.model import (
    DECLARED_HARDWARE,
    BurnInResult,
    Node,
    NodeHistoryEntry,
    NodeHold,
    SourcedValue,
    SourcePresence,
    SourceStatus,
)


def find_node_row(connection: Connection, reference: str) -> Any:
    """Return the row of the node with this id, name or rack/slot; InputError when none or several."""
    table = schema.node.c
    if (
        row := connection.execute(select(schema.node).where(table.id == reference)).one_or_none()
    ) is not None:
        return row
    rack, _, slot = reference.rpartition("/")
    match = (table.rack == rack) & (table.slot == slot) if rack else table.name == reference
    rows = connection.execute(select(schema.node).where(match)).all()
    candidates = [row for row in rows if row.state != "retired"] or rows
    if len(candidates) > 1:
        candidates = _drop_missing(connection, candidates) or candidates
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise InputError(f"no node {reference!r} in the registry", remedy="see: gpufleet nodes list")
    raise InputError(
        f"{len(candidates)} nodes are called {reference!r}",
        remedy=f"ids: {', '.join(r.id for r in candidates)}",
    )


def _drop_missing(connection: Connection, rows: Sequence[Any]) -> list[Any]:
    sightings = _load_sightings(connection, [row.id for row in rows])
    return [row for row in rows if not _node(row, (), sightings[row.id], {}).is_missing]


def load_nodes(connection: Connection, node_rows: Iterable[Any] | None = None) -> list[Node]:
    """Return nodes (all, when no rows are given) with their holds and sources, by rack, slot and name."""
    is_unfiltered = node_rows is None
    selected_rows = connection.execute(select(schema.node)).all() if node_rows is None else list(node_rows)
    ids = None if is_unfiltered else [row.id for row in selected_rows]
    holds, sources = _load_holds(connection, ids), _load_sightings(connection, ids)
    hardware = _load_declared_hardware(connection, ids)
    nodes = [_node(row, tuple(holds[row.id]), sources[row.id], hardware[row.id]) for row in selected_rows]
    return sorted(nodes, key=_sort_key)


def _sort_key(node: Node) -> tuple[Any, ...]:
    slot = node.slot or ""
    return (node.cloud or "", node.rack or "", int(slot) if slot.isdecimal() else 0, slot, node.name, node.id)


_SCALAR_FIELDS = tuple(
    field.name for field in fields(Node) if field.name not in ("accelerators", "hardware", "holds", "sources")
)


def _node(
    row: Any, holds: tuple[NodeHold, ...], sources: Sequence[SourcePresence], hardware: dict[str, Any]
) -> Node:
    plain = {name: getattr(row, name) for name in _SCALAR_FIELDS}
    accelerators = tuple(row.accelerators)
    return Node(**plain, accelerators=accelerators, hardware=hardware, holds=holds, sources=tuple(sources))


def _load_declared_hardware(connection: Connection, ids: Sequence[str] | None) -> dict[str, dict[str, Any]]:
    """Return the newest declared value of each name of ``DECLARED_HARDWARE`` by node; nodes report other keys."""
    table = schema.observation
    keys = {f"declared.{name}": name for name in DECLARED_HARDWARE}
    query = _select_for(table, ids).where(table.c.key.in_(keys)).order_by(table.c.revision)
    values: dict[str, dict[str, Any]] = defaultdict(dict)
    for row in connection.execute(query):
        values[row.node_id][keys[row.key]] = row.value
    return values


def _select_for(table: Any, ids: Sequence[str] | None) -> Any:
    query = select(table)
    return query if ids is None else query.where(table.c.node_id.in_(ids))


def _load_holds(connection: Connection, ids: Sequence[str] | None) -> dict[str, list[NodeHold]]:
    holds_by_node: dict[str, list[NodeHold]] = defaultdict(list)
    for row in connection.execute(_select_for(schema.hold, ids).order_by(schema.hold.c.kind)):
        holds_by_node[row.node_id].append(NodeHold(row.kind, row.reason, row.since))
    return holds_by_node


def _load_sightings(connection: Connection, ids: Sequence[str] | None) -> dict[str, list[SourcePresence]]:
    """Return who knows each node; a source's last complete report confirms every node that it did not lose."""
    sightings: dict[str, list[SourcePresence]] = defaultdict(list)
    answers = _last_reports(connection)
    for row in connection.execute(_select_for(schema.presence, ids).order_by(schema.presence.c.source)):
        number, answered_at = answers.get(row.source, (0, None))
        confirmed = row.missing_since is None and answered_at is not None and number > row.revision
        seen_at = answered_at if confirmed and answered_at else row.observed_at
        sightings[row.node_id].append(SourcePresence(row.source, seen_at, row.missing_since))
    return sightings


def _last_reports(connection: Connection) -> dict[str, tuple[int, datetime | None]]:
    """Return the revision and time of each source's last complete report."""
    table = schema.source.c
    query = select(table.name, table.revision, table.observed_at)
    return {row.name: (row.revision, row.observed_at) for row in connection.execute(query)}


def load_sourced_values(connection: Connection, node_id: str) -> list[SourcedValue]:
    """Return every value that any source gives for a node, with source and time."""
    table, answers = schema.observation, _last_reports(connection)
    lost_sources = {
        sighting.source
        for sighting in _load_sightings(connection, [node_id])[node_id]
        if sighting.missing_since
    }
    query = select(table).where(table.c.node_id == node_id).order_by(table.c.key, table.c.source)
    node_values = []
    for row in connection.execute(query):
        number, at = answers.get(row.source, (0, None))
        confirmed = row.source not in lost_sources and at is not None and number > row.revision
        rank, seen_at = (number, at) if confirmed and at else (row.revision, row.observed_at)
        node_values.append(SourcedValue(row.source, row.key, row.value, seen_at, rank))
    return node_values


def load_values_by_node(connection: Connection, node_ids: Sequence[str]) -> dict[str, list[SourcedValue]]:
    """Return every value that any source gives, by node id; a complete report renews the times of its values only."""
    table = schema.observation
    values: dict[str, list[SourcedValue]] = defaultdict(list)
    for ids in split_into_batches(node_ids, MAX_IDS_PER_QUERY):
        for row in connection.execute(
            select(table).where(table.c.node_id.in_(ids)).order_by(table.c.revision)
        ):
            values[row.node_id].append(
                SourcedValue(row.source, row.key, row.value, row.observed_at, row.revision)
            )
    return values


def load_newest_values(connection: Connection, key: str) -> dict[str, Any]:
    """Return the newest value of a key that any source gives, by node id; nodes without one are left out."""
    table = schema.observation.c
    query = select(table.node_id, table.value).where(table.key == key).order_by(table.revision, table.source)
    return {row.node_id: row.value for row in connection.execute(query)}


def load_verdict_reasons(connection: Connection) -> dict[str, str]:
    """Return the newest recorded reason of each node's present verdict, by node id: ``faulty: cpu failed``."""
    table, node = schema.history.c, schema.node.c
    query = (
        select(table.node_id, table.reason)
        .join_from(schema.history, schema.node, table.node_id == node.id)
        .where(table.event.in_(("state", "verdict")), table.reason.startswith(node.verdict.concat(": ")))
        .order_by(table.number)
    )
    return {row.node_id: row.reason for row in connection.execute(query)}


def load_node_history(connection: Connection, node_id: str) -> list[NodeHistoryEntry]:
    """Return a node's history, oldest first."""
    table = schema.history
    query = select(table).where(table.c.node_id == node_id).order_by(table.c.number)
    return [_read_history_row(row) for row in connection.execute(query)]


def load_state_history(connection: Connection) -> dict[str, list[NodeHistoryEntry]]:
    """Return the entries of every node that begin a state, oldest first, by node id."""
    table = schema.history
    query = select(table).where(table.c.new_state.is_not(None)).order_by(table.c.number)
    entries: dict[str, list[NodeHistoryEntry]] = defaultdict(list)
    for row in connection.execute(query):
        entries[row.node_id].append(_read_history_row(row))
    return dict(entries)


def load_history_since(connection: Connection, since: datetime) -> list[NodeHistoryEntry]:
    """Return the entries of all nodes from a moment on, oldest first."""
    table = schema.history
    query = select(table).where(table.c.at >= since).order_by(table.c.number)
    return [_read_history_row(row) for row in connection.execute(query)]


def _read_history_row(row: Any) -> NodeHistoryEntry:
    return NodeHistoryEntry(
        row.node_id,
        row.at,
        row.event,
        row.old_state,
        row.new_state,
        row.reason,
        row.attempt,
        row.number,
        row.actor,
    )


def load_burn_in_results(
    connection: Connection, node_id: str | None, attempt: str | None, since: datetime | None = None
) -> list[BurnInResult]:
    """Return burn-in results, oldest first: of one node, of one attempt, recorded since a moment, or all."""
    table = schema.result
    query = select(table).order_by(table.c.number)
    if node_id:
        query = query.where(table.c.node_id == node_id)
    if attempt:
        query = query.where(table.c.attempt == attempt)
    if since:
        query = query.where(table.c.recorded_at >= since)
    return [
        BurnInResult(
            row.node_id,
            row.attempt,
            row.verdict,
            row.report,
            row.records,
            row.recorded_at,
            row.number,
            row.digest,
        )
        for row in connection.execute(query)
    ]


def load_source_statuses(connection: Connection) -> list[SourceStatus]:
    """Return how each source last answered."""
    table = schema.source
    return [
        SourceStatus(row.name, row.observed_at, row.failed_at, row.failure)
        for row in connection.execute(select(table).order_by(table.c.name))
    ]
