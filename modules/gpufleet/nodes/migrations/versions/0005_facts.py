"""Add what nodes answered when they were asked for facts, compressed as it came."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TIME = sa.String(24)


def upgrade() -> None:
    """Add the table of answers."""
    op.create_table(
        "facts",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("node_id", sa.String(16), sa.ForeignKey("node.id"), nullable=False),
        sa.Column("digest", sa.String(32), nullable=False),
        sa.Column("first_at", TIME, nullable=False),
        sa.Column("last_at", TIME, nullable=False),
        sa.Column("answer", sa.LargeBinary, nullable=False),
    )
    op.create_index("facts_of_node", "facts", ["node_id", "number"])
