"""`gpufleet burnin`: what burn-in found, what today's rules would say of it, and the rules themselves."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gpufleet.boundary import make_values_printable
from gpufleet.cli import output, terminal
from gpufleet.cli.group import LazyGroup
from gpufleet.errors import InputError


@click.group(cls=LazyGroup, name="burnin")
def burnin_command() -> None:
    """Run burn-in, show results and thresholds, judge again."""


@burnin_command.command("run")
@click.argument("nodes", nargs=-1)
@output.json_option
def run_burnin(nodes: tuple[str, ...], as_json: bool) -> None:
    """Run burn-in on these nodes, including ready ones; without names, on every new node.

    Progress goes to standard error.
    """
    from gpufleet import paths, remote
    from gpufleet.cli.configure import print_unused_rehearsal
    from gpufleet.operations import configure, playbook_run
    from gpufleet.operations.text import configure as text_configure

    limit = remote.parse_host_patterns(nodes).text if nodes else playbook_run.DEFAULT_LIMIT
    request = playbook_run.PlaybookRequest("burn_in", limit, "always" if nodes else "auto")
    try:
        result = configure.configure_hosts(
            paths.find_project_root(), request, terminal.open_progress_stream()
        )
    except InputError as error:
        if error.key != "--limit":
            raise
        raise InputError(error.problem, remedy=error.remedy) from error  # this command has arguments instead
    output.print_result(
        as_json, result, configure.ConfigureResult.as_json, text_configure.format_configure_result
    )
    print_unused_rehearsal(result)
    sys.exit(result.exit_code)


@burnin_command.command("report")
@click.argument("node", required=False)
@click.option("--attempt", help="Only this attempt; by default each node's newest.")
@output.report_options("table", "json", "junit", "pages", former_names=("--junit", "--html"))
def show_burnin_reports(node: str | None, attempt: str | None, report: output.ReportOutput) -> None:
    """Show each node's newest burn-in report, or one node's, or one attempt's."""
    from gpufleet.burnin.junit import render_junit_xml
    from gpufleet.operations import burnin
    from gpufleet.operations.text import burnin as text_burnin

    reports = burnin.load_newest_reports(node, attempt)
    renderers = {
        "junit": lambda: render_junit_xml(reports),
        # One node asked for: one document, as its schema describes it.
        "json": lambda: json.dumps(reports[0] if node else reports, indent=2),
        "table": lambda: text_burnin.format_burnin_reports(make_values_printable(reports)),
    }
    report.write(lambda name: renderers[name]())
    for folder in report.list_folders():
        from gpufleet.console import burnin_pages

        pages = burnin_pages.write_burnin_pages(folder, node)
        output.print_lines(f"{len(pages)} pages written to {folder}", err=True)
    burnin.require_healthy_reports(reports)


@burnin_command.command("accept")
@click.option(
    "--limit",
    default="all",
    show_default=True,
    help="Names, ranges and groups of nodes: blade[01-20],!blade07.",
)
@click.option(
    "--key", type=output.FILE, help="The private key that signs the files (gpufleet passport keygen)."
)
@click.option(
    "--profile",
    type=click.Choice(("quick", "standard", "soak")),
    help="Only results of this or a longer one.",
)
@click.option(
    "--max-age",
    type=click.IntRange(1, 3650),
    default=30,
    show_default=True,
    metavar="DAYS",
    help="Older results do not count.",
)
@click.option("--by", "actor", help="Who issues it. Default: your login.")
@output.report_options("table", "json", "html")
def accept_fleet(
    *,
    limit: str,
    key: Path | None,
    profile: str | None,
    max_age: int,
    actor: str | None,
    report: output.ReportOutput,
) -> None:
    """Accept a fleet by its newest results, or name what speaks against it; sign the report.

    Exit code 1 if it is not. gpufleet passport verify verifies the files.
    """
    from gpufleet.console.acceptance_page import render_acceptance_page
    from gpufleet.operations import acceptance, node_change
    from gpufleet.operations.text.acceptance import format_acceptance

    options = acceptance.AcceptanceOptions(limit, max_age, profile, node_change.find_actor(actor))
    issued = acceptance.issue_acceptance(options, key, render_acceptance_page)
    document = issued.document
    report._replace(printed_format=None).write(issued.render_file)
    report._replace(files=()).write(
        lambda name: json.dumps(document, indent=2) if name == "json" else format_acceptance(document)
    )
    acceptance.require_accepted(issued.document)


@burnin_command.command("compare")
@click.option(
    "--min-group",
    type=click.IntRange(3, 1000),
    default=5,
    show_default=True,
    help="Compare only within groups of at least this many nodes.",
)
@output.json_option
def compare_burnin_nodes(min_group: int, as_json: bool) -> None:
    """Name nodes that are slower or hotter than their equals, with evidence.

    Equals have the same machine type, the same slot, or the same third of a rack. No verdict changes.
    """
    from gpufleet.operations import fleet_comparison

    comparison = fleet_comparison.compare_fleet(min_group)
    output.print_result(as_json, comparison, lambda answer: answer, fleet_comparison.format_comparison)


@burnin_command.command("rejudge")
@click.argument("node", required=False)
@click.option(
    "--apply", "apply_changes", is_flag=True, help="Store the new verdicts, which change the nodes' states."
)
@click.option(
    "--since",
    metavar="TIME|ATTEMPT",
    help="Judge every result recorded since then, not only each node's newest.",
)
@output.json_option
def rejudge_burnin_records(node: str | None, apply_changes: bool, since: str | None, as_json: bool) -> None:
    """Apply today's thresholds to the newest stored records; print what would change."""
    from gpufleet.operations import burnin, moment
    from gpufleet.operations.text import burnin as text_burnin

    if since and apply_changes:
        raise InputError(
            "--since cannot be combined with --apply",
            remedy="only a node's newest result can change its state: leave out --since",
        )
    start = moment.parse_since(since) if since else None
    changes = burnin.rejudge_results(node, apply_changes=apply_changes, since=start)
    print_report_rows(changes, as_json, text_burnin.format_verdict_changes)


@burnin_command.command("thresholds")
@click.option("--kind", help="Only thresholds for nodes of this kind.")
@click.option(
    "--measure",
    is_flag=True,
    help="Measure this machine with the rehearsal's parameters and print the results.",
)
@click.option(
    "--explain",
    "check",
    metavar="CHECK",
    help="Explain one check: its bounds and their sources, what a miss means, what to do next.",
)
@output.json_option
def show_burnin_thresholds(kind: str | None, measure: bool, check: str | None, as_json: bool) -> None:
    """Show all thresholds with their sources and the site's overrides, and check that they are plausible."""
    from gpufleet.operations import burnin
    from gpufleet.operations.text import burnin as text_burnin

    if check and measure:
        raise InputError("--explain cannot be combined with --measure")
    if check:
        from gpufleet.burnin import format_explanation

        explanation = burnin.explain_check(check, kind)
        output.print_result(as_json, explanation, lambda answer: answer, format_explanation)
        return
    if measure:
        print_report_rows(burnin.measure_rehearsal_floors(), as_json, text_burnin.format_rehearsal_floors)
        return
    rows = burnin.list_threshold_rows(kind)
    print_report_rows(rows, as_json, text_burnin.format_thresholds)
    burnin.require_plausible_thresholds()


def print_report_rows(
    rows: list[dict[str, Any]], as_json: bool, format_rows: Callable[[list[dict[str, Any]]], str]
) -> None:
    """Print data as JSON or as text."""
    output.print_result(as_json, rows, lambda reports: reports, format_rows)
