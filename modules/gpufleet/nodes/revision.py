"""The order of what the registry learns: revisions that the database counts, never a wall clock.

Every writing transaction has one revision. What a process reports live takes the next one, so it is newer than
everything stored, whatever the clock says. An event that is ingested later is placed where it belongs: after the
last event of its run that the registry has, or, for a run that it has never met, by the run's clock. Each fact keeps
the revision that wrote it; a fact with a higher revision is newer.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from sqlalchemy import Connection, func, insert, select

from gpufleet.nodes import schema

STEP = 1 << 32
"""Distance between live revisions: room for the events of runs that are ingested later."""

FIRST_REVISION = STEP
"""The revision of a new registry's first transaction."""

_STRIDE = 1 << 10  # distance between placed events, so that another run still fits between two of them
_KEY = "gpufleet_revision"


def get_current_revision(connection: Connection) -> int:
    """Return the revision of the writing transaction that the connection is in."""
    return int(connection.info[_KEY])


def set_current_revision(connection: Connection, revision: int) -> None:
    """Set the revision of the connection's writing transaction."""
    connection.info[_KEY] = revision


def create_revision(connection: Connection, at: datetime) -> int:
    """Record and return a revision that is newer than every other."""
    newest = connection.execute(select(func.max(schema.revision.c.number))).scalar() or 0
    return _record(connection, (newest // STEP + 1) * STEP, at)


def insert_revision_after(connection: Connection, previous_revision: int, at: datetime) -> int:
    """Record and return a revision right after the previous one; it equals that one if no number is free."""
    table = schema.revision.c
    following = connection.execute(
        select(func.min(table.number)).where(table.number > previous_revision)
    ).scalar()
    if following is None:
        return create_revision(connection, at)
    room = previous_revision + _STRIDE < following
    return _record(connection, previous_revision + _STRIDE if room else previous_revision, at)


def insert_revision_before(connection: Connection, next_revision: int, at: datetime) -> int:
    """Record and return a revision before the next one, after whatever comes before that."""
    table = schema.revision.c
    previous = connection.execute(select(func.max(table.number)).where(table.number < next_revision)).scalar()
    return insert_revision_after(connection, previous or 0, at)


def insert_revision_by_time(connection: Connection, at: datetime) -> int:
    """Record and return a revision for something at ``at`` that only the clock can order.

    It comes before the first revision that is later by the clock. After a clock was set back that may be too early,
    never too late: the worst is that news is reported as stale.
    """
    table = schema.revision.c
    later = connection.execute(select(func.min(table.number)).where(table.at > at)).scalar()
    if later is None:
        return create_revision(connection, at)
    return insert_revision_before(connection, later, at)


def _record(connection: Connection, number: int, at: datetime) -> int:
    connection.execute(insert(schema.revision), {"number": number, "at": at})
    return number


def hash_event_key(*parts: object) -> str:
    """Return the key under which an event is known, from the parts that distinguish it from every other event."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "replace")).hexdigest()[:32]


def find_event_revision(connection: Connection, event_key: str) -> int | None:
    """Return the revision at which an event was applied, None where it was not."""
    table = schema.event.c
    number: int | None = connection.execute(select(table.revision).where(table.key == event_key)).scalar()
    return number


def find_first_revision_of_run(connection: Connection, run_id: str) -> int | None:
    """Return the lowest revision of a run's applied events, None where the registry has none of it."""
    table = schema.event.c
    number: int | None = connection.execute(
        select(func.min(table.revision)).where(table.run == run_id)
    ).scalar()
    return number


def record_applied_event(connection: Connection, event_key: str, run_id: str) -> None:
    """Record that an event was applied in this transaction."""
    connection.execute(
        insert(schema.event), {"key": event_key, "run": run_id, "revision": get_current_revision(connection)}
    )
