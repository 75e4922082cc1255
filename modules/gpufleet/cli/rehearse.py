"""``gpufleet rehearse``: start, inspect and remove the offline copy of a stack."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet import paths
from gpufleet.cli import output
from gpufleet.cli.group import LazyGroup
from gpufleet.cli.rehearse_fault import fault_command

if TYPE_CHECKING:
    from gpufleet.rehearsal import Rehearsal

stack_option = click.option("-s", "--stack", required=True, help="The stack to rehearse, e.g. production.")


@click.group(cls=LazyGroup, name="rehearse")
def rehearse_command() -> None:
    """Rehearse a stack offline: the real engine on simulated clouds, and its racks as booted hosts.

    \b
    gpufleet rehearse up -s production
    eval "$(gpufleet rehearse env -s production)"
    pulumi up -s production --yes
    gpufleet rehearse down -s production
    """  # noqa: D301 - the escape is click's mark for lines that stay as they are


rehearse_command.add_command(fault_command)


@rehearse_command.command("up")
@stack_option
@click.option(
    "--faults", metavar="demo|FILE", help="Faults to put on the rack's hosts: a set's name or a file."
)
@click.option("--no-rack", is_flag=True, help="Do not boot the racks.")
@output.json_option
def start_stack_rehearsal(stack: str, faults: str | None, no_rack: bool, as_json: bool) -> None:
    """Start the rehearsal; running parts stay."""
    from gpufleet.rehearsal import lifecycle

    rehearsal = _rehearsal(stack)
    lifecycle.start_rehearsal(rehearsal, _report, faults=faults, with_racks=not no_rack)
    _report(f'next: eval "$(gpufleet rehearse env -s {stack})"; {lifecycle.choose_next_command(rehearsal)}')
    if as_json:
        output.print_json(lifecycle.collect_rehearsal_status(rehearsal))


@rehearse_command.command("status")
@stack_option
@output.json_option
def show_rehearsal_status(stack: str, as_json: bool) -> None:
    """Show which parts of the rehearsal are running; exit code 1 if it is not up."""
    from gpufleet.errors import CheckFailed
    from gpufleet.rehearsal import lifecycle

    report = lifecycle.collect_rehearsal_status(_rehearsal(stack))
    output.print_result(
        as_json, report, lambda status_report: status_report, lifecycle.format_rehearsal_status
    )
    if not report["up"]:
        raise CheckFailed(f"the rehearsal of {stack} is not up", hint=f"gpufleet rehearse up -s {stack}")


@rehearse_command.command("env")
@stack_option
@output.json_option
def print_rehearsal_environment(stack: str, as_json: bool) -> None:
    """Print what a shell needs to use the rehearsal: eval "$(gpufleet rehearse env -s STACK)"."""
    variables = _rehearsal(stack).build_environment()
    lines = (f"export {name}={shlex.quote(value)}" for name, value in variables.items())
    if as_json:
        output.print_json(variables)
    else:
        output.print_text_block("\n".join(lines))


@rehearse_command.command("down")
@click.option("-s", "--stack", help="The stack whose rehearsal to remove.")
@click.option("--all", "all_rehearsals", is_flag=True, help="Remove every rehearsal of this project.")
@click.option(
    "--deleted", is_flag=True, help="Stop simulated hosts of projects whose folder was deleted; asks first."
)
@click.option("--yes", is_flag=True, help="With --deleted: do not ask.")
@output.json_option
def remove_rehearsals(
    stack: str | None, all_rehearsals: bool, deleted: bool, yes: bool, as_json: bool
) -> None:
    """Remove the rehearsal: hosts, namespaces, processes and files."""
    from gpufleet.rehearsal import Rehearsal, lifecycle

    if [stack is not None, all_rehearsals, deleted].count(True) != 1:
        raise click.UsageError("give one of -s STACK, --all and --deleted")
    if yes and not deleted:
        raise click.UsageError("--yes needs --deleted")
    if deleted:
        _stop_deleted(yes)
        return
    root = paths.find_project_root()
    rehearsals = [_rehearsal(stack)] if stack else Rehearsal.find_all_rehearsals(root)
    for rehearsal in rehearsals:
        rehearsal.check_stack_or_rehearsal_exists()
    for rehearsal in rehearsals:
        lifecycle.remove_rehearsal(rehearsal, _report)
    if all_rehearsals:
        lifecycle.stop_deleted_rehearsals(lifecycle.find_deleted_rehearsal_homes(root), _report)
        if remaining_homes := lifecycle.find_deleted_rehearsal_homes():
            _report(
                f"left {len(remaining_homes)} deleted rehearsals of other projects: gpufleet rehearse down --deleted"
            )
    if as_json:
        output.print_json([lifecycle.collect_rehearsal_status(rehearsal) for rehearsal in rehearsals])


def _stop_deleted(yes: bool) -> None:
    """Stop the hosts of rehearsals without a project, after a person agrees."""
    from gpufleet.errors import InputError
    from gpufleet.rehearsal import lifecycle

    homes = lifecycle.find_deleted_rehearsal_homes()
    if not homes:
        _report("no deleted rehearsal has hosts")
        return
    for home in homes:
        _report(f"deleted while its hosts ran: {home}")
    if not yes and not sys.stdin.isatty():
        raise InputError(
            "stops hosts of other projects, and no terminal is there to confirm it",
            where="--deleted",
            remedy="add --yes",
        )
    if yes or output.ask_for_confirmation(f"stop the hosts of these {len(homes)} rehearsals?"):
        lifecycle.stop_deleted_rehearsals(homes, _report)


@rehearse_command.command("demo")
@stack_option
def run_rehearsal_demo(stack: str) -> None:
    """Run the main job end to end in a new rehearsal, with three faulty blades."""
    from gpufleet.rehearsal import demo as job
    from gpufleet.rehearsal import lifecycle

    rehearsal = _rehearsal(stack)
    lifecycle.remove_rehearsal(rehearsal, _report)
    lifecycle.start_rehearsal(rehearsal, _report, faults="demo")
    job.run_demo(rehearsal.root, stack, rehearsal.home, rehearsal.build_full_environment(), _report)


def _rehearsal(stack: str) -> Rehearsal:
    from gpufleet.rehearsal import Rehearsal

    return Rehearsal(paths.find_project_root(Path.cwd()), stack)


def _report(text: str) -> None:
    output.print_text_block(text, err=True)
