"""The command line: parse arguments, call one function, print its result.

One file per command, no logic. Data goes to stdout, messages and progress to stderr. A ``GpufleetError`` is one line
on stderr and an exit code (``gpufleet.errors``). Commands are imported when they are used, to start quickly.
"""

from __future__ import annotations

import gc

gc.disable()  # what is imported stays: searching it for garbage takes a tenth of the time of a short command

import os  # noqa: E402 - with the search off
import re  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import click  # noqa: E402

from gpufleet import __version__, text_table  # noqa: E402
from gpufleet.cli import output, terminal  # noqa: E402
from gpufleet.cli.group import VERBOSE, LazyGroup, make_common_options  # noqa: E402
from gpufleet.errors import EnvironmentFault, GpufleetError  # noqa: E402
from gpufleet.extra import explain_missing_packages  # noqa: E402

gc.freeze()
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
    "watch": "Judge nodes in use by their exporters: record, hold, drain",
    "repairs": "Show faulty parts, record repairs, pack a bundle for the vendor",
    "passport": "Sign and verify a node's identity, results and history",
    "console": "Write a report page: fleet, cost, burn-in",
}


USES_STATE = ("nodes", "configure", "burnin", "watch", "repairs", "console")
EXTRA_ARGUMENTS = re.compile(r"unexpected extra arguments? \((.*)\)")
LEFT_BEHIND = {
    "init": "the files written so far stay: run it again, it adds what is missing",
    "doctor": "installed packages stay: run it again",
    "prices refresh": "the sources read so far are stored: run it again for the others",
    "nodes sync": "the registry keeps what was read so far: run it again",
    "nodes retire": "gpufleet nodes history NODE shows what was done; run it again",
    "nodes replace": "gpufleet nodes history NODE shows what was done; run it again",
    "nodes sweep": "run it again to see what is left",
    "nodes": "gpufleet nodes list shows the registry as it is",
    "configure": "hosts may be half configured: gpufleet configure --resume",
    "watch": "what it found is in the registry: gpufleet nodes changes",
    "burnin run": "nodes may still measure: gpufleet configure --resume",
    "rehearse": "parts may still run: gpufleet rehearse down -s STACK removes them",
}
"""What an interrupted command leaves behind, and what to do next; any other changes nothing or one file at once."""


class Program(LazyGroup):
    """The program itself: what holds for every command while it runs."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command: with a line of progress on a terminal, tables of its width, and --verbose errors."""
        text_table.line_width = terminal.measure_terminal()
        try:
            with terminal.show_progress(ctx):
                return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            command = ctx.meta.get(terminal.COMMAND, "gpufleet")
            output.print_error(f"{command} was interrupted; {describe_interruption(command)}")
            sys.exit(130)
        except Exception:
            if ctx.meta.get(VERBOSE):
                import traceback

                output.print_text_block(traceback.format_exc(), err=True)
            raise


@click.group(
    cls=Program,
    lazy_commands={verb: (verb, f"{verb}_command") for verb in VERBS},
    summaries=VERBS,
    context_settings={"help_option_names": ["-h", "--help"]},
    params=make_common_options(hidden=False),
)
@click.version_option(__version__, prog_name="gpufleet")
def gpufleet() -> None:
    """Size, provision, price, inventory, configure and burn in a GPU fleet from one declared spec."""


def describe_interruption(command: str) -> str:
    """Return what an interrupted command leaves behind, or that it changed nothing."""
    path = command.removeprefix("gpufleet ")
    return next(
        (left for start, left in LEFT_BEHIND.items() if path.startswith(start)), "nothing was changed"
    )


def refuse_stale_rehearsal(verb: str) -> None:
    """Raise EnvironmentFault in a rehearsal that was removed but that the shell still points at."""
    stack, home = os.environ.get("GPUFLEET_REHEARSAL"), os.environ.get("GPUFLEET_HOME")
    if stack and home and verb in USES_STATE and not Path(home).is_dir():
        hint = f"open a new shell, or: gpufleet rehearse up -s {stack}"
        raise EnvironmentFault(f"the rehearsal of {stack} that this shell points at is gone", hint=hint)


def print_usage_error(error: click.ClickException) -> None:
    """Print a wrong command line like any other error: what is wrong in one line, and the command that helps."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    message = " ".join(error.format_message().split()).rstrip(".")
    message = f"{message[:1].lower()}{message[1:]}"
    if isinstance(error, click.NoSuchOption):
        from difflib import get_close_matches

        possibilities = error.possibilities or ()
        similar = " or ".join(get_close_matches(error.option_name, possibilities, n=1) or possibilities)
        message = f"no such option {error.option_name!r}" + (f"; did you mean {similar}?" if similar else "")
    elif isinstance(error, click.MissingParameter) and context and error.param:
        usage = " ".join(context.get_usage().removeprefix("Usage: ").split())
        meaning = getattr(error.param, "help", None) or usage
        message = f"{_name_parameter(error.param, context)} is missing: {meaning[:1].lower()}{meaning[1:].rstrip('.')}"
    elif context and context.command.name == "configure" and (extra := EXTRA_ARGUMENTS.search(message)):
        message += f"; give --limit {extra[1].replace(' ', ',')}"
    hint = f"{context.command_path} --help" if context else None
    output.print_error(message, hint)


def _name_parameter(param: click.Parameter, context: click.Context) -> str:
    """Return what a person types: --stack, or NODE|RANGE."""
    return param.opts[-1] if isinstance(param, click.Option) else param.make_metavar(context)


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        refuse_stale_rehearsal("".join(sys.argv[1:2]))
        with explain_missing_packages():
            # the code of a verb that called ctx.exit, else None
            sys.exit(gpufleet.main(prog_name="gpufleet", standalone_mode=False))
    except click.Abort:
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        output.print_text_block(error.format_message(), err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        print_usage_error(error)
        sys.exit(error.exit_code)
    except GpufleetError as error:
        output.print_error(error, error.hint)
        sys.exit(error.exit_code)
    except OSError as error:
        if not error.filename:
            raise
        output.print_error(f"{error.filename}: {error.strerror}", "give a folder that you may read and write")
        sys.exit(EnvironmentFault.exit_code)
    finally:
        gc.freeze()  # the process ends: searching what is left for garbage takes a tenth of a short command's time
