"""What nodes answered over SSH, kept as it came: a better reading can be applied later, and two answers compared.

An answer that equals the node's newest one only renews its time. The newest ``KEPT_ANSWERS`` of a node are kept.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update

from gpufleet.nodes import schema

KEPT_ANSWERS = 20
MAX_ANSWER_BYTES = 256 * 1024  # unpacked: four times what a probe reads


@dataclass(frozen=True, slots=True)
class RecordedFacts:
    """One answer of a node, with when it was first and last given."""

    node: str
    first_at: datetime
    last_at: datetime
    text: str


def record_facts(connection: Connection, node_id: str, text: str, at: datetime) -> None:
    """Keep an answer; an older one than the newest is not entered."""
    table = schema.facts
    answer = text.encode("utf-8", "replace")[:MAX_ANSWER_BYTES]
    digest = hashlib.sha256(answer).hexdigest()[:32]
    own = table.c.node_id == node_id
    newest = connection.execute(
        select(table).where(own).order_by(table.c.number.desc()).limit(1)
    ).one_or_none()
    if newest is not None and newest.last_at > at:
        return
    if newest is not None and newest.digest == digest:
        connection.execute(update(table).where(table.c.number == newest.number).values(last_at=at))
        return
    row = {
        "node_id": node_id,
        "digest": digest,
        "first_at": at,
        "last_at": at,
        "answer": zlib.compress(answer),
    }
    connection.execute(insert(table), row)
    kept = select(table.c.number).where(own).order_by(table.c.number.desc()).limit(KEPT_ANSWERS)
    numbers = [number for (number,) in connection.execute(kept)]
    connection.execute(delete(table).where(own, table.c.number < min(numbers)))


def load_facts(
    connection: Connection, node_ids: Iterable[str] | None = None, changed_since: datetime | None = None
) -> list[RecordedFacts]:
    """Return the kept answers of some nodes or all, oldest first; with a moment only of nodes that changed since."""
    table = schema.facts
    query = select(table).order_by(table.c.number)
    if node_ids is not None:
        query = query.where(table.c.node_id.in_(list(node_ids)))
    if changed_since is not None:
        changed = select(table.c.node_id).where(table.c.first_at >= changed_since)
        query = query.where(table.c.node_id.in_(changed))
    return [
        RecordedFacts(row.node_id, row.first_at, row.last_at, _unpack(row.answer))
        for row in connection.execute(query)
    ]


def _unpack(answer: bytes) -> str:
    return zlib.decompressobj().decompress(answer, MAX_ANSWER_BYTES).decode("utf-8", "replace")
