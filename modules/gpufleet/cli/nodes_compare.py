"""``gpufleet nodes facts``, ``drift``, ``diff``, ``changes`` and ``export``: what nodes are, compared and passed on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from gpufleet.cli import output
from gpufleet.cli.node_filter import names_argument, pool_option, rack_option, state_option

EXPORT_FORMATS = ("csv", "hosts", "ssh-config", "slurm", "slurm-gres", "kubernetes")
all_option = click.option("--all", "with_routine", is_flag=True, help="Also what changes by itself.")


@click.command("facts")
@names_argument
@state_option
@rack_option
@pool_option
@click.option(
    "--parallel",
    type=click.IntRange(1, 512),
    default=64,
    show_default=True,
    help="Nodes that are asked at the same time.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1, 300),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a node may be silent.",
)
@output.json_option
def read_node_facts(parallel: int, timeout: float, as_json: bool, **options: Any) -> None:
    """Ask nodes over SSH for their system and hardware; exit code 1 if one does not answer.

    Host keys are checked as ssh checks them. Answers are kept as they come: see nodes show, diff, drift and changes.
    """
    from gpufleet.operations import node_probe as operation
    from gpufleet.operations import node_view as view
    from gpufleet.progress import report_step

    with view.open_existing_registry() as registry:
        nodes = view.NodeFilter(**options).select_nodes(registry.list_nodes())
        report_step(f"asking {len(nodes)} nodes over SSH")
        report = operation.probe_nodes(
            registry,
            operation.find_ssh_login(),
            rehearsal=bool(os.environ.get("GPUFLEET_REHEARSAL")),
            timeout=timeout,
            max_parallel=parallel,
            nodes=nodes,
        )
    output.print_data(as_json, report.as_json(), report.format_lines())
    for line in (*report.conflicts, *report.bad):
        output.print_lines(line, err=True)
    sys.exit(1 if report.unreachable or report.conflicts else 0)


@click.command("export")
@click.argument("format_name", metavar="FORMAT", required=False, type=click.Choice(EXPORT_FORMATS))
@names_argument
@state_option
@rack_option
@pool_option
@output.target_option("File to write; replaced at once.", type=click.Path(dir_okay=False, path_type=Path))
@output.json_flag
def export_nodes(format_name: str | None, out: Path | None, as_json: bool, **options: Any) -> None:
    """Print nodes for another tool: csv, hosts, ssh-config, slurm, slurm-gres or kubernetes.

    slurm and slurm-gres are lines to include in slurm.conf and gres.conf; kubernetes is commands of kubectl.
    """
    from gpufleet.errors import InputError
    from gpufleet.operations import node_export as operation
    from gpufleet.operations import node_view as view

    if format_name is None:
        remedy = (
            f"give {', '.join(EXPORT_FORMATS)}; files for a first boot: gpufleet nodes first-boot --rack RACK"
        )
        raise InputError("the format is missing", where="nodes export", remedy=remedy)
    exported = operation.export_registered_nodes(view.NodeFilter(**options), format_name)
    data = {"format": format_name, "left_out": list(exported.notes)}
    output.print_export(exported.text, out, as_json=as_json, data=data)
    for note in exported.notes:
        output.print_lines(note, err=True)


@click.command("drift")
@names_argument
@rack_option
@pool_option
@all_option
@output.json_option
def show_node_drift(with_routine: bool, as_json: bool, **options: Any) -> None:
    """Compare what is declared, what the cloud says and what is on the node; exit code 1 if somebody must act.

    Uses what the registry has: run nodes sync (--cloud-api) and nodes facts before.
    """
    from gpufleet.operations import node_drift as operation
    from gpufleet.operations import node_view as view

    report = operation.find_registered_drift(view.NodeFilter(**options))
    output.print_data(
        as_json, report.as_json(), operation.format_drift_lines(report, with_routine=with_routine)
    )
    sys.exit(1 if report.needs_action else 0)


@click.command("diff")
@click.argument("first", metavar="NODE")
@click.argument("second", metavar="[OTHER]", required=False)
@click.option(
    "--since", metavar="TIME", help="Compare the node with its own answer of then: 24h, 7d, 2026-11-21."
)
@click.option("--all", "every_value", is_flag=True, help="Also serials, addresses and other identities.")
@output.json_option
def show_node_differences(
    first: str, second: str | None, since: str | None, every_value: bool, as_json: bool
) -> None:
    """Compare two nodes, or a node with itself at an earlier time; exit code 1 if they differ."""
    from gpufleet.errors import InputError
    from gpufleet.operations import moment
    from gpufleet.operations import node_comparison as operation
    from gpufleet.operations import node_view as view

    if (second is None) == (since is None):
        raise InputError(
            "needs a second node or --since", where="nodes diff", remedy="gpufleet nodes diff A B"
        )
    with view.open_existing_registry() as registry:
        if second is not None:
            differences = operation.compare_nodes(registry, first, second, every_value=every_value)
        else:
            differences = operation.compare_with_past(registry, first, moment.parse_since(str(since)))
    titles = (first, second) if second else (str(since), "now")
    output.print_data(
        as_json,
        [item._asdict() for item in differences],
        operation.format_difference_lines(differences, *titles),
    )
    sys.exit(1 if differences else 0)


@click.command("changes")
@names_argument
@click.option(
    "--since", metavar="TIME", default="24h", show_default=True, help="From when on: 24h, 7d, 2026-11-21."
)
@state_option
@rack_option
@pool_option
@all_option
@output.json_option
def show_node_changes(since: str, with_routine: bool, as_json: bool, **options: Any) -> None:
    """List what happened to the nodes and what they report differently, oldest first."""
    from gpufleet.operations import moment
    from gpufleet.operations import node_comparison as operation
    from gpufleet.operations import node_view as view

    with view.open_existing_registry() as registry:
        events = operation.list_changes(registry, moment.parse_since(since), view.NodeFilter(**options))
    output.print_data(
        as_json,
        [event.as_json() for event in events],
        operation.format_event_lines(events, with_routine=with_routine),
    )
