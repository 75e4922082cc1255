"""The command line: parse arguments, call one function, print its result.

One file per command, no logic. Data goes to stdout, messages and progress to stderr. A ``GpufleetError`` is one line
on stderr and an exit code (``gpufleet.errors``). Commands are imported when they are used, to start quickly.
"""

from __future__ import annotations

import gc

gc.disable()  # what is imported stays: searching it for garbage takes a tenth of the time of a short command

import os  # noqa: E402 - with the search off
import sys  # noqa: E402
from importlib import import_module  # noqa: E402
from pathlib import Path  # noqa: E402

import click  # noqa: E402

from gpufleet import __version__  # noqa: E402
from gpufleet.cli import output  # noqa: E402
from gpufleet.errors import EnvironmentFault, GpufleetError  # noqa: E402
from gpufleet.extra import explain_missing_packages  # noqa: E402

gc.enable()

VERBS = {
    "init": "Start a fleet's repository, or add the parts to one",
    "validate": "Report every mistake in what is declared: stacks, racks, inventory",
    "doctor": "Check what is installed and install what is missing",
    "prices": "Find, import and refresh prices of machines",
    "machine": "Show a machine's network, disks, purchases and quota, with sources",
    "size": "Size a workload: memory, speed, power, cost, ranked plans",
    "compare": "Compare accelerators: specifications, speed of a model, per watt, per dollar",
    "cost": "Estimate the cost of the declared fleet and of changes to it",
    "quota": "Compare the quota of a stack's clouds with what it needs",
    "rehearse": "Rehearse offline: simulated clouds and racks of booted hosts",
    "nodes": "Manage the registry of nodes: sync, state, holds, history",
    "configure": "Run the playbooks on the fleet",
    "burnin": "Run burn-in, show results and thresholds, judge again",
    "repairs": "Show faulty parts, record repairs, pack a bundle for the vendor",
    "passport": "Sign and verify a node's identity, results and history",
    "console": "Write a report page: fleet, cost, burn-in",
}


USES_STATE = ("nodes", "configure", "burnin", "repairs", "console")


class LazyGroup(click.Group):
    """A click group that imports a verb's file when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        gc.disable()  # as above
        command: click.Command = getattr(import_module(f"gpufleet.cli.{cmd_name}"), f"{cmd_name}_command")
        gc.freeze()
        gc.enable()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the verbs from the table above: help needs no verb's imports."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gpufleet")
def gpufleet() -> None:
    """Size, provision, price, inventory, configure and burn in a GPU fleet from one declared spec."""


def refuse_stale_rehearsal(verb: str) -> None:
    """Raise EnvironmentFault in a rehearsal that was removed but that the shell still points at."""
    stack, home = os.environ.get("GPUFLEET_REHEARSAL"), os.environ.get("GPUFLEET_HOME")
    if stack and home and verb in USES_STATE and not Path(home).is_dir():
        hint = f"open a new shell, or: gpufleet rehearse up -s {stack}"
        raise EnvironmentFault(f"the rehearsal of {stack} that this shell points at is gone", hint=hint)


def print_usage_error(error: click.ClickException) -> None:
    """Print a wrong command line like any other error: what is wrong in one line, and the command that helps."""
    message = " ".join(error.format_message().split()).rstrip(".")
    output.print_lines(f"error: {message[:1].lower()}{message[1:]}", err=True)
    if isinstance(error, click.UsageError) and error.ctx:
        output.print_lines("", f"hint: {error.ctx.command_path} --help", err=True)


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        refuse_stale_rehearsal("".join(sys.argv[1:2]))
        with explain_missing_packages():
            sys.exit(
                gpufleet.main(standalone_mode=False)
            )  # the code of a verb that called ctx.exit, else None
    except click.Abort:
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        output.print_text_block(error.format_message(), err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        print_usage_error(error)
        sys.exit(error.exit_code)
    except GpufleetError as error:
        output.print_lines(f"error: {error}", err=True)
        if error.hint:
            output.print_lines("", f"hint: {error.hint}", err=True)
        sys.exit(error.exit_code)
    finally:
        gc.freeze()  # the process ends: searching what is left for garbage takes a tenth of a short command's time
