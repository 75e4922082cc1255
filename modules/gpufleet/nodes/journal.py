"""Moves, holds and attempts: every change of a node's life, each with its line of history.

All functions work inside the caller's writing transaction; history rows are only ever added.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from gpufleet.nodes import revision, schema
from gpufleet.nodes.bulk_write import upsert
from gpufleet.nodes.states import check_hold_kind, check_state_change

LONGEST_REASON = 2000  # characters
_ACTOR = "gpufleet_actor"


def set_current_actor(connection: Connection, actor: str | None) -> None:
    """Set who makes the changes of the connection's writing transaction; None for a program's own."""
    connection.info[_ACTOR] = actor


def trim_reason(reason: str) -> str:
    """Return a reason as the registry keeps it: without NUL characters, cut where it is too long."""
    text = reason.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 1]}…"


def add_history_entry(
    connection: Connection,
    node_id: str,
    at: datetime,
    event: str,
    reason: str,
    *,
    old_and_new_state: tuple[str, str] | None = None,
    attempt: str | None = None,
) -> None:
    """Add one line to a node's history; the reason is trimmed to ``LONGEST_REASON``."""
    old, new = old_and_new_state or (None, None)
    row = {"node_id": node_id, "at": at, "event": event, "reason": trim_reason(reason), "attempt": attempt}
    moved = {"old_state": old, "new_state": new, "actor": connection.info.get(_ACTOR)}
    connection.execute(insert(schema.history), row | moved)


def move_node(
    connection: Connection,
    node: Any,
    new_state: str,
    reason: str,
    *,
    at: datetime,
    attempt: str | None = None,
) -> None:
    """Move a node to a state that the table allows."""
    check_state_change(node.name, node.state, new_state)
    number = revision.get_current_revision(connection)
    change = {
        "state": new_state,
        "state_since": at,
        "state_reason": trim_reason(reason),
        "state_revision": number,
    }
    connection.execute(update(schema.node).where(schema.node.c.id == node.id).values(change))
    add_history_entry(
        connection, node.id, at, "state", reason, old_and_new_state=(node.state, new_state), attempt=attempt
    )


def renew_state_reason(connection: Connection, node_id: str, reason: str) -> None:
    """Set why a node is in the state that it keeps."""
    change = {"state_reason": trim_reason(reason)}
    connection.execute(update(schema.node).where(schema.node.c.id == node_id).values(change))


def set_node_hold(connection: Connection, node_id: str, kind: str, reason: str, at: datetime) -> bool:
    """Set a hold; return True if anything changed."""
    check_hold_kind(node_id, kind)
    table, reason = schema.hold, trim_reason(reason)
    query = select(table.c.reason).where(table.c.node_id == node_id, table.c.kind == kind)
    if connection.execute(query).scalar() == reason:
        return False
    upsert(connection, table, [{"node_id": node_id, "kind": kind, "reason": reason, "since": at}])
    add_history_entry(connection, node_id, at, "hold", f"{kind}: {reason}")
    return True


def release_node_hold(connection: Connection, node_id: str, kind: str, reason: str, at: datetime) -> bool:
    """Release a hold; return True if there was one."""
    check_hold_kind(node_id, kind)
    table = schema.hold
    deletion = connection.execute(delete(table).where(table.c.node_id == node_id, table.c.kind == kind))
    if not deletion.rowcount:
        return False
    add_history_entry(connection, node_id, at, "release", f"{kind}: {reason}")
    return True


def begin_attempt(
    connection: Connection, node: Any, attempt: str, kind: str, at: datetime, *, revision_number: int
) -> None:
    """Make an attempt the node's current one; results of earlier ones no longer count."""
    row = {"node_id": node.id, "id": attempt, "kind": kind, "started_at": at, "revision": revision_number}
    connection.execute(insert(schema.attempt), row)
    connection.execute(update(schema.node).where(schema.node.c.id == node.id).values(attempt=attempt))
    add_history_entry(connection, node.id, at, "attempt", f"{kind} attempt started", attempt=attempt)
