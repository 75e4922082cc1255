"""`gpufleet init`: start a fleet's repository, or add the parts to one that is there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet.cli import output

if TYPE_CHECKING:
    from gpufleet.operations.starter_project import RackRequest


@click.command(name="init")
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default=".")
@click.option(
    "--cloud", "clouds", metavar="CLOUD,…", help="Clouds that get a small GPU pool: aws, gcp, azure."
)
@click.option(
    "--rack", "racks", metavar="KIND:COUNT,…",
    help="Racks of your own, such as blades:6 (or servers:2, bench:1).",
)  # fmt: skip
@click.option(
    "--into-existing", is_flag=True, help="Add the parts to a Pulumi or Ansible repository that is there."
)
@click.option("--yes", is_flag=True, help="Do not ask: without --cloud and --rack, one small pool on AWS.")
@output.json_option
def init_command(
    *, folder: Path, clouds: str | None, racks: str | None, into_existing: bool, yes: bool, as_json: bool
) -> None:
    """Write a fleet's repository into DIR (default: here): stack, racks, inventory, CI with the cost.

    It adds what is missing and overwrites no file.
    """
    from gpufleet.operations import starter_project

    chosen_clouds, chosen_racks = choose_parts(folder, clouds, racks, yes=yes)
    outcomes = starter_project.write_starter_project(
        folder, chosen_clouds, chosen_racks, into_existing=into_existing
    )
    output.print_result(
        as_json, outcomes, starter_project.build_outcome_data, starter_project.format_outcomes
    )
    if notice := starter_project.format_budget_notice(folder, outcomes):
        output.print_lines(notice, err=True)
    if step := starter_project.format_next_step(folder, outcomes):
        output.print_lines(step, err=True)


def choose_parts(
    folder: Path, clouds: str | None, racks: str | None, *, yes: bool
) -> tuple[tuple[str, ...], tuple[RackRequest, ...]]:
    """Return clouds and racks: as given, as the project declares them, or as a person answers."""
    from gpufleet.errors import InputError
    from gpufleet.operations import starter_project

    if clouds is None and racks is None:
        if declared := starter_project.read_declared_parts(folder):
            return declared
        if yes:
            clouds = "aws"
        elif sys.stdin.isatty():
            clouds = output.prompt_for_text("Clouds, of aws, gcp and azure (none): ")
            racks = output.prompt_for_text("Racks of your own, such as blades:6 or servers:2 (none): ")
        else:
            raise InputError(
                "no terminal is there to ask", where="gpufleet init", remedy="give --cloud, --rack or --yes"
            )
    return starter_project.parse_clouds(clouds or ""), starter_project.parse_racks(racks or "")
