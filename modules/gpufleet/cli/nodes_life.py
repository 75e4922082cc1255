"""``gpufleet nodes export`` and ``retire``: the two ends of a node's life."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from gpufleet.cli import output


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
def export(kind: str, as_json: bool, **options: Any) -> None:  # noqa: ARG001 - one format so far
    """Write what a rack's nodes boot with first: cloud-init, firmware settings, netboot, host keys."""
    from gpufleet.operations import export as operation

    result = operation.export_first_boot(operation.Request(**options))
    if as_json:
        output.print_json({"folder": str(result.folder), "files": sorted(result.export.files())})
        return
    output.print_lines(*result.lines())


@click.command()
@click.argument("node")
@click.option("--reason", required=True, help="Why; kept in the node's history and in the certificate.")
@click.option("--wipe", is_flag=True, help="Wipe its drives first: a plan, its serial typed, evidence.")
@click.option("--confirm", metavar="SERIAL", help="The node's serial, instead of being asked for it.")
@click.option(
    "--method", default="auto", show_default=True, help="How to wipe; auto is the surest a drive knows."
)
@click.option("--force", is_flag=True, help="Although a job runs there.")
@click.option("--yes", is_flag=True, help="Retire without asking for the node's name; not with --wipe.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def retire(as_json: bool, **options: Any) -> None:
    """End a node's life: drain it, wipe it where asked, forget its keys and address.

    Asks for the node's name first; without a terminal it needs --yes.

    With --wipe the plan comes first: which drives, by serial, are wiped how, and which are left and why. Nothing is
    touched before the node's serial is typed.
    """
    from gpufleet import paths
    from gpufleet.operations import retire as operation
    from gpufleet.operations import show as view

    def prompt(question: str) -> str:
        if not sys.stdin.isatty():
            return ""
        return output.prompt(question)

    def report(line: str) -> None:
        output.print_lines(line, err=True)

    interaction = operation.Interaction(
        operation.make_runner(paths.project_root(), sys.stderr), prompt, report, can_ask=sys.stdin.isatty()
    )
    with view.open_registry() as registry:
        result = operation.retire(registry, operation.Request(**options), interaction)
    if as_json:
        output.print_json(result.as_json())
    else:
        output.print_lines(*result.lines)
