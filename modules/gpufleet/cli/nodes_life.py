"""``gpufleet nodes export`` and ``retire``: the two ends of a node's life."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click


@click.command()
@click.option(
    "--format", "kind", type=click.Choice(["cloud-init"]), default="cloud-init", show_default=True,
    help="What to write: the first boot of a rack's nodes.",
)  # fmt: skip
@click.option("--rack", required=True, help="A rack of inventory/, by name; its file says how nodes boot.")
@click.option("--node", "nodes", multiple=True, metavar="NODE|RANGE", help="Only these nodes.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Default: .gpufleet/export/RACK."
)
@click.option(
    "--known-hosts",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also put the host keys into this file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def export(kind: str, as_json: bool, **asked: Any) -> None:  # noqa: ARG001 - one format so far
    """Write what a rack's nodes boot with first: cloud-init, firmware settings, netboot, host keys."""
    from gpufleet.operations import export as operation

    done = operation.run(operation.Request(**asked))
    if as_json:
        click.echo(json.dumps({"folder": str(done.folder), "files": sorted(done.made.files())}, indent=2))
        return
    for line in done.lines():
        click.echo(line)
