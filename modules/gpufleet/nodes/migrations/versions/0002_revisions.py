"""Order facts by revisions that the database counts, not by the clocks of the machines that reported them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TIME = sa.String(24)
STEP = 1 << 32
# Facts of an older registry are ranked by their times once: the best order that is known of them.
RANKED = {
    "node": {"state_revision": "state_since", "reachable_revision": "reachable_at"},
    "observation": {"revision": "observed_at"},
    "presence": {"revision": "observed_at"},
    "source": {"revision": "observed_at"},
    "attempt": {"revision": "started_at"},
}


def upgrade() -> None:
    """Add the revisions, and give every fact that is there the place of its time."""
    for table, columns in RANKED.items():
        for name in columns:
            op.add_column(table, sa.Column(name, sa.BigInteger, nullable=False, server_default=sa.text("0")))
    op.add_column("presence", sa.Column("digest", sa.String(32)))
    op.create_table(
        "revision",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("at", TIME, nullable=False),
    )
    op.create_index("ix_revision_number", "revision", ["number"])
    op.create_index("ix_revision_at", "revision", ["at"])
    op.create_table(
        "event",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("run", sa.String(255), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_event_run", "event", ["run", "revision"])
    _rank()


def _rank() -> None:
    times = " UNION ".join(
        f"SELECT {time} AS at FROM {table} WHERE {time} IS NOT NULL"  # noqa: S608 - names from the table above
        for table, columns in RANKED.items()
        for time in columns.values()
    )
    op.execute(
        f"INSERT INTO revision (number, at) "  # noqa: S608 - as above
        f"SELECT {STEP} * row_number() OVER (ORDER BY at), at FROM ({times}) AS every_time"
    )
    for table, columns in RANKED.items():
        for name, time in columns.items():
            op.execute(
                f"UPDATE {table} SET {name} = "  # noqa: S608 - as above
                f"(SELECT number FROM revision WHERE revision.at = {table}.{time}) WHERE {time} IS NOT NULL"
            )
