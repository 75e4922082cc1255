"""Contradictions between sources: recorded, shown, and the nodes concerned held until someone decides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select, update

from gpufleet.nodes import journal, schema
from gpufleet.nodes.bulk_write import upsert
from gpufleet.nodes.model import SourceConflict
from gpufleet.nodes.node_index import IdentityContradiction

ReportedContradictions = tuple[str, Sequence[IdentityContradiction], datetime, bool]
"""A source, the contradictions of its report, when it reported, whether the report was complete."""


def record_conflicts(connection: Connection, reports: Sequence[ReportedContradictions]) -> None:
    """Open new conflicts with a drift hold on their nodes; a complete report closes what it does not repeat."""
    table = schema.conflict
    open_now: dict[str, dict[tuple[str, str], Any]] = defaultdict(dict)
    sources = {source for source, *_ in reports}
    for row in connection.execute(select(table).where(table.c.resolved_at.is_(None))):
        if row.source in sources:
            open_now[row.source][row.kind, row.subject] = row
    for source, contradictions, at, is_complete in reports:
        open_rows = open_now[source]
        rows = {
            (contradiction.kind, contradiction.subject): _row(contradiction, source, open_rows, at)
            for contradiction in contradictions
        }
        upsert(connection, table, list(rows.values()))
        for contradiction in contradictions:
            if (contradiction.kind, contradiction.subject) not in open_rows:
                for node_id in contradiction.nodes:
                    journal.set_node_hold(
                        connection, node_id, "drift", f"conflict: {contradiction.detail}", at
                    )
        for kind, subject in set(open_rows) - set(rows) if is_complete else ():
            key = table.c.kind == kind, table.c.subject == subject, table.c.source == source
            connection.execute(update(table).where(*key).values(resolved_at=at))


def _row(
    contradiction: IdentityContradiction, source: str, open_now: dict[Any, Any], at: datetime
) -> dict[str, Any]:
    earlier = open_now.get((contradiction.kind, contradiction.subject))
    return {
        "kind": contradiction.kind,
        "subject": contradiction.subject,
        "source": source,
        "detail": contradiction.detail,
        "nodes": list(contradiction.nodes),
        "since": earlier.since if earlier else at,
        "resolved_at": None,
    }


def load_open_conflicts(connection: Connection) -> list[SourceConflict]:
    """Return the unresolved conflicts, oldest first."""
    table = schema.conflict
    query = select(table).where(table.c.resolved_at.is_(None)).order_by(table.c.since, table.c.subject)
    return [
        SourceConflict(row.kind, row.subject, row.detail, row.source, tuple(row.nodes), row.since)
        for row in connection.execute(query)
    ]
