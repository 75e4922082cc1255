"""``gpufleet repairs``: faulty parts, what was done about them, and the step that follows."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from gpufleet.cli import output
from gpufleet.cli.group import LazyGroup

file_type = click.Path(dir_okay=False, path_type=Path)

part_argument = click.argument("part", metavar="SERIAL|UUID|NODE")


@click.group(cls=LazyGroup)
def repairs_command() -> None:
    """Show faulty parts with the next step, record what was done, pack a bundle for the vendor."""


@repairs_command.command("list")
@click.option("--all", "show_all", is_flag=True, help="Also parts without an open fault.")
@output.json_option
def list_repairs(show_all: bool, as_json: bool) -> None:
    """List parts with an open fault, where they are, and the next step."""
    from gpufleet.operations import node_view, repair
    from gpufleet.operations.text import repair as text_repair

    with node_view.open_existing_registry() as registry:
        statuses = [status for status in repair.list_part_statuses(registry) if show_all or status.faults]
    output.print_data(
        as_json, [status.as_json() for status in statuses], text_repair.format_part_statuses(statuses)
    )


@repairs_command.command("show")
@part_argument
@output.json_option
def show_repair(part: str, as_json: bool) -> None:
    """Show a part's faults, actions and places over time, across nodes."""
    from gpufleet.operations import node_view, repair
    from gpufleet.operations.text import repair as text_repair

    with node_view.open_existing_registry() as registry:
        details = [
            repair.build_part_details(registry, status)
            for status in repair.find_part_statuses(registry, part)
        ]
    if as_json:
        output.print_json(details)
        return
    for each in details:
        output.print_lines(*text_repair.format_part_details(each))
    if not details:
        output.print_lines(f"{part} has no part with an open fault", err=True)


@repairs_command.command("record")
@part_argument
@click.argument("action", metavar="ACTION")
@click.option("--reason", required=True, help="What was done and why, for the ledger.")
@click.option("--by", "actor", help="Who did it. Default: your login.")
@output.json_option
def record_repair(part: str, action: str, reason: str, actor: str | None, as_json: bool) -> None:
    """Record what was done to a part, or to every faulty part of a node.

    ACTION: correct, reset, reboot, reseat, inspect, diagnose, rma or replace.
    """
    from gpufleet.operations import node_view, repair

    with node_view.open_existing_registry() as registry:
        statuses = repair.record_action(registry, part, action, reason, actor)
    output.print_change(
        as_json,
        [status.as_json() for status in statuses],
        [repair.format_recorded_action(status, action) for status in statuses],
    )


@repairs_command.command("bundle")
@part_argument
@output.target_option("The archive to write, such as rma.tar.gz.", type=file_type, required=True)
@click.option(
    "--bug-report", type=file_type, help="What nvidia-bug-report.sh wrote on the node; redacted too."
)
@click.option(
    "--redact", "words", multiple=True, metavar="WORD", help="Also remove this name; may be repeated."
)
@output.json_flag
def write_repair_bundle(
    part: str, out: Path, bug_report: Path | None, words: tuple[str, ...], as_json: bool
) -> None:
    """Write one archive for the vendor: identity, timeline, evidence, raw records; redacted, with a manifest."""
    from gpufleet.operations import node_view, rma_bundle

    with node_view.open_existing_registry() as registry:
        bundle = rma_bundle.write_rma_bundle(registry, part, out, bug_report=bug_report, words=words)
    output.print_data(as_json, bundle.manifest, bundle.format_lines())


@repairs_command.command("steps")
@output.json_option
def show_repair_steps(as_json: bool) -> None:
    """Show the table of steps for each class of faults, with its sources."""
    from gpufleet.burnin import load_repair_ladders
    from gpufleet.operations.text import repair as text_repair

    output.print_data(
        as_json, [asdict(ladder) for ladder in load_repair_ladders()], text_repair.format_ladders()
    )
