"""``gpufleet nodes first-boot``, ``retire`` and ``sweep``: the two ends of a node's life, and what was forgotten."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gpufleet.cli import output, terminal


@click.command("first-boot")
@click.option(
    "--rack", required=True, help="The rack whose nodes to export; its file needs a `boot:` section."
)
@click.option("--node", "nodes", multiple=True, metavar="NODE|RANGE", help="Only these nodes.")
@output.target_option(
    "Default: .gpufleet/export/RACK.", "FOLDER", type=click.Path(file_okay=False, path_type=Path)
)
@click.option(
    "--known-hosts",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also add the host keys to this file.",
)
@output.json_flag
def export_first_boot_files(as_json: bool, **options: Any) -> None:
    """Write the first-boot files of a rack's nodes: cloud-init, firmware settings, netboot, host keys."""
    from gpufleet.operations import export as operation

    result = operation.export_first_boot(operation.FirstBootExportRequest(**options))
    output.print_data(
        as_json,
        {"folder": str(result.folder), "files": sorted(result.export.files_by_path())},
        result.format_summary_lines(),
    )


@click.command("retire")
@click.argument("node")
@click.option("--reason", required=True, help="The reason, for the node's history and the certificate.")
@click.option("--by", "actor", help="Who does it, for the history. Default: your login.")
@click.option("--wipe", is_flag=True, help="Wipe its drives first, with a plan, a confirmation and evidence.")
@click.option("--confirm", metavar="SERIAL", help="The node's serial, instead of the prompt.")
@click.option(
    "--method",
    default="auto",
    show_default=True,
    help="Wipe method; auto is the safest one that a drive supports.",
)
@click.option("--force", is_flag=True, help="Retire it even if a job runs there.")
@click.option("--yes", is_flag=True, help="Do not ask for the node's name; not with --wipe.")
@output.json_option
def retire_node(as_json: bool, actor: str | None, **options: Any) -> None:
    """Retire a node: drain it, optionally wipe it, remove its keys and address.

    Asks for the node's name; without a terminal it needs --yes.

    With --wipe it first prints the plan: which drives are wiped, by which method, and which are not and why.
    Nothing changes before you type the node's serial.
    """
    from gpufleet import paths
    from gpufleet.operations import node_change
    from gpufleet.operations import node_view as view
    from gpufleet.operations import retire as operation

    def prompt_for_answer(question: str) -> str:
        if not sys.stdin.isatty():
            return ""
        return output.prompt_for_text(question)

    def print_progress_line(line: str) -> None:
        output.print_lines(line, err=True, is_note=not sys.stdin.isatty())  # who is asked sees the plan

    interaction = operation.RetireInteraction(
        operation.make_wipe_runner(paths.find_project_root(), terminal.open_progress_stream()),
        prompt_for_answer,
        print_progress_line,
        can_ask=sys.stdin.isatty(),
    )
    who = node_change.find_actor(actor)
    with view.open_existing_registry() as registry, registry.acting_as(who):
        result = operation.retire_node(registry, operation.RetireRequest(**options), interaction)
    output.print_data(as_json, result.as_json(), result.lines)


@click.command("replace")
@click.argument("node")
@click.option("--reason", required=True, help="The reason, for the node's history.")
@click.option("--by", "actor", help="Who does it, for the history. Default: your login.")
@click.option("-s", "--stack", help="The node's stack, if the registry does not know it.")
@click.option("--yes", is_flag=True, help="Do it. Without it the plan is printed and nothing changes.")
@output.json_option
def replace_node(  # noqa: PLR0917 - click hands each option over by name
    node: str, reason: str, actor: str | None, stack: str | None, yes: bool, as_json: bool
) -> None:
    """Release a failed rented node and have another take its place; a dry run without --yes.

    A group's member is given back to its cloud, and the group starts another. A single node is replaced by the engine
    (pulumi up --target-replace). The registry retires the old node and keeps its history.
    """
    from gpufleet.operations import node_change, node_replacement
    from gpufleet.operations import node_view as view

    who = node_change.find_actor(actor)

    def report(line: str) -> None:
        output.print_lines(line, err=True)

    with view.open_existing_registry() as registry:
        request = node_replacement.ReplacementRequest(node, reason, stack, _find_simulated_release())
        planned = node_replacement.plan_replacement(registry, request)
        output.print_data(as_json, planned.as_json() | {"applied": yes}, planned.format_plan())
        if not yes:
            planned.preview(report)
            output.print_lines("nothing was changed; add --yes to do it", err=True)
            return
        node_replacement.execute_replacement(registry, planned, reason, who, report)
    output.print_lines(
        f"{node} is retired; next: gpufleet nodes sync -s {planned.stack} --cloud-api", err=as_json
    )


def _find_simulated_release() -> Callable[[str, str], str] | None:
    """Return how a rehearsal's clouds take a member back; None outside of a rehearsal."""
    if not os.environ.get("GPUFLEET_REHEARSAL"):
        return None
    from gpufleet.rehearsal.providers.members import release_group_member

    return release_group_member


@click.command("sweep")
@click.option(
    "-s", "--stack", required=True, help="The stack whose resources to compare with state and registry."
)
@click.option("--region", "regions", multiple=True, help="Another AWS region to read; may be repeated.")
@click.option(
    "--state", "state_file", type=click.Path(path_type=Path), help="A `pulumi stack export` to read."
)
@click.option("--apply", "apply_", is_flag=True, help="Delete what the dry run lists, after a confirmation.")
@click.option("--confirm", metavar="CODE", help="The code that the dry run prints, instead of the prompt.")
@output.json_option
def sweep_orphans(  # noqa: PLR0917 - click hands each option over by name
    stack: str,
    regions: tuple[str, ...],
    state_file: Path | None,
    apply_: bool,
    confirm: str | None,
    as_json: bool,
) -> None:
    """List resources in the clouds with a stack's tag that neither state nor registry knows, with prices.

    Deletes nothing without --apply, and then only what it listed, after you type the code of that list.
    """
    from gpufleet.operations.sweep import SweepOptions, SweepRun
    from gpufleet.operations.sweep import run as operation

    sweep = SweepRun(SweepOptions(stack, regions, state_file))
    report = sweep.list_findings()
    output.print_data(as_json, report.as_json(), report.format_lines())
    for account, problem in report.failures.items():
        output.print_lines(f"{account} failed: {problem}", err=True, is_note=False)
    results = []
    if apply_ and report.deletable:
        question = f"delete these {len(report.deletable)} resources? Type {report.fingerprint}: "
        code = confirm or (output.prompt_for_text(question) if sys.stdin.isatty() else "")
        operation.check_confirmation(report, code)
        for result in sweep.delete_confirmed(report):
            results.append(result)
            output.print_lines(operation.format_result(result), err=True)
    operation.raise_if_incomplete(report, results)
