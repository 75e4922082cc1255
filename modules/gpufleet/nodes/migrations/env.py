"""Alembic's entry: the registry opens the connection and holds its write lock while migrations run."""

from __future__ import annotations

from alembic import context

from gpufleet.nodes.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
