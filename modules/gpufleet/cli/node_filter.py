"""Which nodes a verb of ``gpufleet nodes`` is about; together the options of ``operations.node_view.NodeFilter``."""

from __future__ import annotations

import click

names_argument = click.argument("names", nargs=-1, metavar="[NODE]...")
state_option = click.option("--state", help="Only nodes in this state.")
rack_option = click.option("--rack", help="Only nodes of this rack.")
pool_option = click.option("--pool", help="Only nodes of this pool.")
