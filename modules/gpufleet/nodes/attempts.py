"""Burn-in attempts and their results: fenced, so that a late result of an old attempt changes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from gpufleet.nodes import journal, part_ledger, revision, schema
from gpufleet.nodes.part import PartObservation
from gpufleet.nodes.states import BURN_IN_HOLD, NEW_STATES, STATES, VERDICT_MOVES, WATCH_HOLD


def advance_node(
    connection: Connection, node: Any, target_state: str, reason: str, *, at: datetime, attempt: str | None
) -> Any:
    """Move a new node through the new states up to ``target_state``, with a history entry for each; return its row."""
    if node.state not in NEW_STATES:
        return node
    for state in NEW_STATES[NEW_STATES.index(node.state) + 1 : NEW_STATES.index(target_state) + 1]:
        journal.move_node(connection, node, state, reason, at=at, attempt=attempt)
        node = read_node_row(connection, node.id)
    return node


def read_node_row(connection: Connection, node_id: str) -> Any:
    """Return the node's row after changes made earlier in this transaction."""
    return connection.execute(select(schema.node).where(schema.node.c.id == node_id)).one()


def start_attempt_if_newest(
    connection: Connection,
    node: Any,
    attempt: str,
    kind: str,
    started_at: datetime,
    *,
    start_revision: int | None = None,
) -> bool:
    """Return True if an attempt is the node's current one; one that is new and newest is started.

    ``start_revision`` is the revision at which it began; now, when left out.
    """
    if node.attempt == attempt:
        return True
    if _attempt_row(connection, node.id, attempt) is not None:
        return False
    number = start_revision or revision.get_current_revision(connection)
    current = _attempt_row(connection, node.id, node.attempt) if node.attempt else None
    if current is not None and current.revision > number:
        return False
    journal.begin_attempt(connection, node, attempt, kind, started_at, revision_number=number)
    return True


def _attempt_row(connection: Connection, node_id: str, attempt: str) -> Any:
    table = schema.attempt
    query = select(table).where(table.c.node_id == node_id, table.c.id == attempt)
    return connection.execute(query).one_or_none()


def record_burn_in_result(
    connection: Connection,
    node: Any,
    attempt: str,
    report: dict[str, Any],
    records: Sequence[dict[str, Any]],
    *,
    reason: str,
    started_at: datetime,
    at: datetime,
    start_revision: int | None = None,
    seen: PartObservation | None = None,
) -> str:
    """Record a result, let it act on node and parts; return ``applied``, ``repeated``, ``ignored``."""
    digest = hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()
    if _is_recorded(connection, node.id, attempt, digest):
        return "repeated"
    if not start_attempt_if_newest(
        connection, node, attempt, "burn_in", started_at, start_revision=start_revision
    ):
        return record_ignored_result(connection, node.id, at, f"late result of attempt {attempt}", attempt)
    if _attempt_row(connection, node.id, attempt).ended_at is not None:
        return record_ignored_result(connection, node.id, at, f"attempt {attempt} had ended", attempt)
    if node.state_revision > revision.get_current_revision(connection):
        return record_ignored_result(
            connection, node.id, at, f"attempt {attempt} ran before the node became {node.state}", attempt
        )
    _store_result(connection, node.id, attempt, report=report, records=records, digest=digest, at=at)
    if seen is not None:
        part_ledger.record_part_observation(
            connection, node, seen, attempt=attempt, digest=digest, verdict=report["verdict"], at=at
        )
    return _apply_verdict(
        connection, read_node_row(connection, node.id), attempt, report["verdict"], reason=reason, at=at
    )


def _is_recorded(connection: Connection, node_id: str, attempt: str, digest: str) -> bool:
    columns = schema.result.c
    query = select(columns.number).where(
        columns.node_id == node_id, columns.attempt == attempt, columns.digest == digest
    )
    return connection.execute(query).first() is not None


def _store_result(
    connection: Connection,
    node_id: str,
    attempt: str,
    *,
    report: dict[str, Any],
    records: Sequence[dict[str, Any]],
    digest: str,
    at: datetime,
) -> None:
    """Keep the raw records with the report; only an incomplete verdict leaves the attempt open."""
    verdict = report["verdict"]
    columns = {
        "node_id": node_id,
        "attempt": attempt,
        "verdict": verdict,
        "digest": digest,
        "recorded_at": at,
    }
    connection.execute(insert(schema.result), columns | {"report": report, "records": list(records)})
    table = schema.attempt
    ended_at = None if verdict == "incomplete" else at
    own_attempt = table.c.node_id == node_id, table.c.id == attempt
    connection.execute(update(table).where(*own_attempt).values(ended_at=ended_at, verdict=verdict))
    connection.execute(update(schema.node).where(schema.node.c.id == node_id).values(verdict=verdict))


def _apply_verdict(
    connection: Connection, node: Any, attempt: str, verdict: str, *, reason: str, at: datetime
) -> str:
    """Move the node by ``VERDICT_MOVES``; only new nodes and those in a state that a verdict ends are moved."""
    if STATES[node.state].left_by == "verdict" and node.state != "burn_in":
        journal.move_node(connection, node, "burn_in", "burned in again", at=at, attempt=attempt)
        node = read_node_row(connection, node.id)
    node = advance_node(connection, node, "burn_in", "burn-in ran", at=at, attempt=attempt)
    if node.state != "burn_in":
        return record_ignored_result(
            connection, node.id, at, f"{verdict}: no move out of {node.state}", attempt
        )
    new_state, hold_kind = VERDICT_MOVES[verdict]
    if new_state == node.state:
        journal.renew_state_reason(connection, node.id, f"{verdict}: {reason}")
        journal.add_history_entry(connection, node.id, at, "verdict", f"{verdict}: {reason}", attempt=attempt)
    else:
        journal.move_node(connection, node, new_state, f"{verdict}: {reason}", at=at, attempt=attempt)
    if hold_kind:
        journal.set_node_hold(connection, node.id, hold_kind, f"{BURN_IN_HOLD}{verdict}: {reason}", at)
    elif verdict == "healthy":
        _clear_own_hold(connection, node.id, _attempt_row(connection, node.id, attempt).started_at, at)
    return "applied"


def _clear_own_hold(connection: Connection, node_id: str, started_at: datetime, at: datetime) -> None:
    """Release a hold of an earlier burn-in, or of the watch from before the attempt; never a person's."""
    table = schema.hold
    query = select(table.c.reason, table.c.since).where(
        table.c.node_id == node_id, table.c.kind == "operator"
    )
    hold = connection.execute(query).one_or_none()
    if hold is None:
        return
    if hold.reason.startswith(BURN_IN_HOLD) or (
        hold.reason.startswith(WATCH_HOLD) and hold.since < started_at
    ):
        journal.release_node_hold(connection, node_id, "operator", "burn-in is healthy now", at)


def record_ignored_result(
    connection: Connection, node_id: str, at: datetime, reason: str, attempt: str | None
) -> str:
    """Add one line of history for something that changed nothing, even if it is reported several times."""
    columns = schema.history.c
    query = select(columns.number).where(
        columns.node_id == node_id, columns.event == "ignored", columns.reason == reason
    )
    if connection.execute(query).first() is None:
        journal.add_history_entry(connection, node_id, at, "ignored", reason, attempt=attempt)
    return "ignored"
