"""Add the account of a cloud instance to its identity: ids of two accounts may be the same."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

LIVE = sa.text("state <> 'retired'")
INDEX = "one_live_node_per_instance"


def upgrade() -> None:
    """Add the column, empty for every node that is there, and have the index include it."""
    op.add_column("node", sa.Column("account", sa.String(64), nullable=False, server_default=""))
    op.drop_index(INDEX, "node")
    columns = ["account", "instance_id"]
    op.create_index(INDEX, "node", columns, unique=True, sqlite_where=LIVE, postgresql_where=LIVE)
