"""Add parts with their places and repair ledger, and who made a change of a node."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TIME = sa.String(24)


def upgrade() -> None:
    """Add the tables of parts; the database itself keeps ledger and places append-only."""
    op.add_column("history", sa.Column("actor", sa.String(255)))
    op.create_table(
        "part",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("serial", sa.String(255)),
        sa.Column("uuid", sa.String(255)),
        sa.Column("model", sa.String(255)),
        sa.Column("first_seen_at", TIME, nullable=False),
    )
    op.create_index("one_part_per_uuid", "part", ["kind", "uuid"], unique=True)
    op.create_index("part_by_serial", "part", ["kind", "serial"])
    op.create_table(
        "placement",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("part_id", sa.String(16), sa.ForeignKey("part.id"), nullable=False),
        sa.Column("node_id", sa.String(16), sa.ForeignKey("node.id")),
        sa.Column("rack", sa.String(255)),
        sa.Column("slot", sa.String(32)),
        sa.Column("position", sa.String(64), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("attempt", sa.String(64)),
        sa.Column("revision", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    )
    op.create_index("placement_of_part", "placement", ["part_id", "number"])
    op.create_index("placement_of_node", "placement", ["node_id"])
    op.create_table(
        "repair",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("part_id", sa.String(16), sa.ForeignKey("part.id"), nullable=False),
        sa.Column("node_id", sa.String(16), sa.ForeignKey("node.id")),
        sa.Column("at", TIME, nullable=False),
        sa.Column("event", sa.String(16), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("check_name", sa.String(64)),
        sa.Column("measured", sa.Float),
        sa.Column("threshold", sa.Float),
        sa.Column("unit", sa.String(32), nullable=False, server_default=""),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("attempt", sa.String(64)),
        sa.Column("digest", sa.String(64)),
        sa.Column("actor", sa.String(255)),
        sa.Column("revision", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    )
    op.create_index("repair_of_part", "repair", ["part_id", "number"])
    for table in ("placement", "repair"):
        _append_only(table)


def _append_only(table: str) -> None:
    """Make the database refuse to change or delete a row."""
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
