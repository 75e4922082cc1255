"""``gpufleet console``: the fleet, its money and its burn-in as read-only pages."""

from __future__ import annotations

from pathlib import Path

import click

from gpufleet.cli import output


@click.command(name="console")
@click.option("-s", "--stack", required=True, help="The stack's name, for the page's title.")
@output.report_options("html", former_names=("--html",))
@click.option(
    "--cost",
    "cost_file",
    type=click.Path(path_type=Path),
    help="A file from `cost diff --format json` to include.",
)
def console_command(stack: str, report: output.ReportOutput, cost_file: Path | None) -> None:
    """Write one self-contained page: nodes by state, reasons, cost difference, burn-in with plots."""
    from gpufleet import console

    for target, _ in report.files:
        data = console.write_fleet_report(target, stack, cost_file)
        output.print_lines(console.format_report_headline(data), err=True)
        output.print_lines(target)
