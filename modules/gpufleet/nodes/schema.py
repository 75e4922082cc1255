"""The registry's tables: one schema on SQLite and PostgreSQL. Migrations build it; tests hold them equal."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    text,
)

from gpufleet.nodes.model import format_utc_time

metadata = MetaData()


class UtcTime(TypeDecorator[datetime]):
    """A time in UTC, kept as text that sorts by time, the same on every database."""

    impl = String(24)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        return None if value is None else format_utc_time(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - as above
        return None if value is None else datetime.fromisoformat(value)


def _node_id(*, primary: bool = False) -> Column[str]:
    return Column("node_id", String(16), ForeignKey("node.id"), primary_key=primary, nullable=False)


def _revision(name: str = "revision") -> Column[int]:
    """Return the column of the revision that wrote a fact (``nodes/revision.py``)."""
    return Column(name, BigInteger, nullable=False, server_default=text("0"), default=0)


node = Table(
    "node",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", String(255), nullable=False, index=True),
    Column("kind", String(32), nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("state_since", UtcTime, nullable=False),
    Column("state_reason", Text, nullable=False),
    Column("cloud", String(32)),
    Column("region", String(64)),
    Column("pool", String(255)),
    Column("rack", String(255)),
    Column("slot", String(32)),
    Column("stack", String(255)),
    Column("template", String(255)),
    Column("machine", String(255)),
    Column("address", String(255)),
    Column("serial", String(255)),
    Column("instance_id", String(512)),
    Column("account", String(64), nullable=False, server_default="", default=""),
    Column("accelerators", JSON, nullable=False),
    Column("usd_per_hour", Float),
    Column("reachable", Boolean),
    Column("reachable_at", UtcTime),
    Column("reachable_detail", Text),
    Column("attempt", String(64)),
    Column("verdict", String(16)),
    _revision("state_revision"),
    _revision("reachable_revision"),
)

_LIVE = text("state <> 'retired'")
for _name, _columns in {
    "one_live_node_per_serial": (node.c.serial,),
    "one_live_node_per_instance": (node.c.account, node.c.instance_id),
    "one_live_node_per_slot": (node.c.rack, node.c.slot),
}.items():
    Index(_name, *_columns, unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE)

observation = Table(
    "observation",
    metadata,
    _node_id(primary=True),
    Column("source", String(255), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("value", JSON),
    Column("observed_at", UtcTime, nullable=False),
    _revision(),
)

presence = Table(
    "presence",
    metadata,
    _node_id(primary=True),
    Column("source", String(255), primary_key=True),
    Column("observed_at", UtcTime, nullable=False),
    Column("missing_since", UtcTime),
    _revision(),
    Column("digest", String(32)),
)

source = Table(
    "source",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("observed_at", UtcTime),
    Column("failed_at", UtcTime),
    Column("failure", Text),
    _revision(),
)

hold = Table(
    "hold",
    metadata,
    _node_id(primary=True),
    Column("kind", String(16), primary_key=True),
    Column("reason", Text, nullable=False),
    Column("since", UtcTime, nullable=False),
)

attempt = Table(
    "attempt",
    metadata,
    _node_id(primary=True),
    Column("id", String(64), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("started_at", UtcTime, nullable=False),
    Column("ended_at", UtcTime),
    Column("verdict", String(16)),
    _revision(),
)

result = Table(
    "result",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    _node_id(),
    Column("attempt", String(64), nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("report", JSON, nullable=False),
    Column("records", JSON, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("recorded_at", UtcTime, nullable=False),
    Index("result_once", "node_id", "attempt", "digest", unique=True),
)

history = Table(
    "history",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    _node_id(),
    Column("at", UtcTime, nullable=False),
    Column("event", String(32), nullable=False),
    Column("old_state", String(16)),
    Column("new_state", String(16)),
    Column("reason", Text, nullable=False),
    Column("attempt", String(64)),
    Column("actor", String(255)),
    Index("history_of_node", "node_id", "number"),
)

facts = Table(
    "facts",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    _node_id(),
    Column("digest", String(32), nullable=False),
    Column("first_at", UtcTime, nullable=False),
    Column("last_at", UtcTime, nullable=False),
    Column("answer", LargeBinary, nullable=False),
    Index("facts_of_node", "node_id", "number"),
)

part = Table(
    "part",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("serial", String(255)),
    Column("uuid", String(255)),
    Column("model", String(255)),
    Column("first_seen_at", UtcTime, nullable=False),
    Index("one_part_per_uuid", "kind", "uuid", unique=True),
    Index("part_by_serial", "kind", "serial"),
)

placement = Table(
    "placement",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("part_id", String(16), ForeignKey("part.id"), nullable=False),
    Column("node_id", String(16), ForeignKey("node.id")),
    Column("rack", String(255)),
    Column("slot", String(32)),
    Column("position", String(64), nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("attempt", String(64)),
    _revision(),
    Index("placement_of_part", "part_id", "number"),
    Index("placement_of_node", "node_id"),
)

repair = Table(
    "repair",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("part_id", String(16), ForeignKey("part.id"), nullable=False),
    Column("node_id", String(16), ForeignKey("node.id")),
    Column("at", UtcTime, nullable=False),
    Column("event", String(16), nullable=False),
    Column("name", String(64), nullable=False),
    Column("check_name", String(64)),
    Column("measured", Float),
    Column("threshold", Float),
    Column("unit", String(32), nullable=False, server_default=""),
    Column("detail", Text, nullable=False),
    Column("attempt", String(64)),
    Column("digest", String(64)),
    Column("actor", String(255)),
    _revision(),
    Index("repair_of_part", "part_id", "number"),
)

conflict = Table(
    "conflict",
    metadata,
    Column("kind", String(32), primary_key=True),
    Column("subject", String(512), primary_key=True),
    Column("source", String(255), primary_key=True),
    Column("detail", Text, nullable=False),
    Column("nodes", JSON, nullable=False),
    Column("since", UtcTime, nullable=False),
    Column("resolved_at", UtcTime),
)

revision = Table(
    "revision",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("number", BigInteger, nullable=False, index=True),
    Column("at", UtcTime, nullable=False, index=True),
)

event = Table(
    "event",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("run", String(255), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Index("ix_event_run", "run", "revision"),
)
