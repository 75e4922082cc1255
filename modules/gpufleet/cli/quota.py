"""``gpufleet quota``: is there quota for a stack, bucket by bucket."""

from __future__ import annotations

import click

from gpufleet.cli import output


@click.command("quota")
@click.option("-s", "--stack", required=True, help="The stack to check.")
@output.json_option
def quota_command(stack: str, as_json: bool) -> None:
    """Compare what a stack needs of each quota bucket with limit and usage; print increase requests.

    Reads the clouds' APIs with your credentials and changes nothing. Exit code 1: a limit is too low. Exit code 3: a
    bucket was not checked.
    """
    from gpufleet.operations import quota as operation

    report = operation.check_stack_quotas(stack)
    output.print_data(as_json, report.as_json(), report.format_lines())
    report.raise_if_not_enough()
