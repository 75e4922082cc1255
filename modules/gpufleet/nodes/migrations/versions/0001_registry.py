"""The first registry: nodes, what sources report of them, attempts and results, and an append-only history."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Times are text in UTC, 24 characters, so that they sort and compare alike on every database.
TIME = sa.String(24)
LIVE = sa.text("state <> 'retired'")


def upgrade() -> None:
    """Build every table; a migration spells its schema out, so that later code cannot change it."""
    _nodes()
    _sources()
    _lifecycle()
    for table in ("history", "result"):
        _append_only(table)


def _node_id(*, primary: bool = False) -> sa.Column[str]:
    return sa.Column("node_id", sa.String(16), sa.ForeignKey("node.id"), primary_key=primary, nullable=False)


def _nodes() -> None:
    op.create_table(
        "node",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("state_since", TIME, nullable=False),
        sa.Column("state_reason", sa.Text, nullable=False),
        sa.Column("cloud", sa.String(32)),
        sa.Column("region", sa.String(64)),
        sa.Column("pool", sa.String(255)),
        sa.Column("rack", sa.String(255)),
        sa.Column("slot", sa.String(32)),
        sa.Column("stack", sa.String(255)),
        sa.Column("template", sa.String(255)),
        sa.Column("machine", sa.String(255)),
        sa.Column("address", sa.String(255)),
        sa.Column("serial", sa.String(255)),
        sa.Column("instance_id", sa.String(512)),
        sa.Column("accelerators", sa.JSON, nullable=False),
        sa.Column("usd_per_hour", sa.Float),
        sa.Column("reachable", sa.Boolean),
        sa.Column("reachable_at", TIME),
        sa.Column("reachable_detail", sa.Text),
        sa.Column("attempt", sa.String(64)),
        sa.Column("verdict", sa.String(16)),
    )
    op.create_index("ix_node_name", "node", ["name"])
    op.create_index("ix_node_state", "node", ["state"])
    for name, columns in (
        ("one_live_node_per_serial", ["serial"]),
        ("one_live_node_per_instance", ["instance_id"]),
        ("one_live_node_per_slot", ["rack", "slot"]),
    ):
        op.create_index(name, "node", columns, unique=True, sqlite_where=LIVE, postgresql_where=LIVE)


def _sources() -> None:
    op.create_table(
        "observation",
        _node_id(primary=True),
        sa.Column("source", sa.String(255), primary_key=True),
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("value", sa.JSON),
        sa.Column("observed_at", TIME, nullable=False),
    )
    op.create_table(
        "presence",
        _node_id(primary=True),
        sa.Column("source", sa.String(255), primary_key=True),
        sa.Column("observed_at", TIME, nullable=False),
        sa.Column("missing_since", TIME),
    )
    op.create_table(
        "source",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("observed_at", TIME),
        sa.Column("failed_at", TIME),
        sa.Column("failure", sa.Text),
    )
    op.create_table(
        "conflict",
        sa.Column("kind", sa.String(32), primary_key=True),
        sa.Column("subject", sa.String(512), primary_key=True),
        sa.Column("source", sa.String(255), primary_key=True),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("nodes", sa.JSON, nullable=False),
        sa.Column("since", TIME, nullable=False),
        sa.Column("resolved_at", TIME),
    )


def _lifecycle() -> None:
    op.create_table(
        "hold",
        _node_id(primary=True),
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("since", TIME, nullable=False),
    )
    op.create_table(
        "attempt",
        _node_id(primary=True),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("verdict", sa.String(16)),
    )
    op.create_table(
        "result",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        _node_id(),
        sa.Column("attempt", sa.String(64), nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("report", sa.JSON, nullable=False),
        sa.Column("records", sa.JSON, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("recorded_at", TIME, nullable=False),
    )
    op.create_index("result_once", "result", ["node_id", "attempt", "digest"], unique=True)
    op.create_table(
        "history",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        _node_id(),
        sa.Column("at", TIME, nullable=False),
        sa.Column("event", sa.String(32), nullable=False),
        sa.Column("old_state", sa.String(16)),
        sa.Column("new_state", sa.String(16)),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("attempt", sa.String(64)),
    )
    op.create_index("history_of_node", "history", ["node_id", "number"])


def _append_only(table: str) -> None:
    """Make the database refuse to change or delete a row of the append-only tables."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            f"CREATE FUNCTION {table}_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{table} is append-only'; END $$"
        )
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {table}_append_only()"
        )
        return
    for verb in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )
