"""`gpufleet validate`: everything that is wrong with everything that a project declares."""

from __future__ import annotations

import click

from gpufleet import paths
from gpufleet.cli import output


@click.command("validate")
@click.option("-s", "--stack", help="Only this stack, with its racks and container files.")
@output.json_option
@click.pass_context
def validate_command(context: click.Context, *, stack: str | None, as_json: bool) -> None:
    """Report every mistake in stacks, racks, inventory, commitments, cost policies and thresholds.

    Needs no engine, network or credentials. Exit code 2: something is wrong. Warnings change no exit code.
    """
    from gpufleet.operations import validation

    report = validation.validate_project(paths.find_project_root(), stack)
    if as_json:
        output.print_json(report.as_json())
    else:
        output.print_lines(*report.format_lines())
    if report.errors:
        context.exit(2)
