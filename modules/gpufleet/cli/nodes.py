"""``gpufleet nodes``: the registry of every node."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpufleet.cli import nodes_compare, nodes_import, nodes_lifecycle, output, terminal
from gpufleet.cli.group import LazyGroup
from gpufleet.cli.node_filter import names_argument, pool_option, rack_option, state_option

if TYPE_CHECKING:
    from gpufleet.operations.node_change import NodeChange

reason_option = click.option("--reason", required=True, help="The reason, for the node's history.")
actor_option = click.option("--by", "actor", help="Who does it, for the history. Default: your login.")


@click.group(cls=LazyGroup)
def nodes_command() -> None:
    """Show and change the registry: identity, state, and the source of each value."""


@nodes_command.command("sync")
@click.option("-s", "--stack", required=True, help="The stack to read nodes from.")
@click.option(
    "--state", "state_file", type=click.Path(path_type=Path), help="A `pulumi stack export` to read."
)
@click.option("--address-book", type=click.Path(path_type=Path), help="JSON: {'rack/slot': 'address'}.")
@click.option(
    "--cloud-api",
    is_flag=True,
    help="Also query the clouds' APIs for instances and members of groups (needs credentials).",
)
@click.option("--probe", is_flag=True, help="Also query every node over SSH for its identity.")
@output.json_option
def sync_stack_into_registry(stack: str, as_json: bool, **options: Any) -> None:
    """Read racks, workstations, Pulumi state and addresses into the registry."""
    from gpufleet.operations import sync as operation

    members = _find_simulated_members()
    synced = operation.sync_registry_from_stack(
        stack, operation.SyncOptions(**options, list_simulated_members=members)
    )
    output.print_data(as_json, synced.as_json(), synced.format_summary_lines())
    for line in synced.list_warnings():
        output.print_lines(line, err=True)
    synced.raise_if_incomplete()
    if any(outcome.created for outcome in synced.outcomes):
        output.print_lines("next: gpufleet configure", err=True)


def _find_simulated_members() -> Callable[[str], Iterable[Mapping[str, Any]]] | None:
    """Return the listing of the rehearsal's clouds; None outside of a rehearsal."""
    if not os.environ.get("GPUFLEET_REHEARSAL"):
        return None
    from gpufleet.rehearsal.providers.members import list_group_members

    return list_group_members


@nodes_command.command("ingest")
@click.argument("artifacts", type=click.Path(exists=True, file_okay=False, path_type=Path))
@output.json_option
def ingest_run_events(artifacts: Path, as_json: bool) -> None:
    """Apply the events of an ansible-runner run to the registry; exit code 1 if the run is not done.

    Applying them twice changes nothing.
    """
    from gpufleet.operations import artifact_ingest as operation

    summary = operation.ingest_artifacts(artifacts)
    output.print_data(as_json, summary.as_json(), summary.format_summary_lines())
    summary.raise_if_incomplete()


@nodes_command.command("list")
@names_argument
@state_option
@rack_option
@pool_option
@click.option("--fold", "as_ranges", is_flag=True, help="One line per state, with node ranges.")
@output.json_option
def list_nodes(as_ranges: bool, as_json: bool, **options: Any) -> None:
    """List all nodes, or some by name (blade[01-03]) or filter."""
    from gpufleet.operations import node_view as view
    from gpufleet.operations.text import node_view as text_node_view

    with view.open_existing_registry() as registry:
        nodes = view.NodeFilter(**options).select_nodes(registry.list_nodes())
        conflicts = registry.list_open_conflicts()
    data = [node.as_json() for node in nodes]
    output.print_data(
        as_json,
        data,
        text_node_view.format_nodes_by_state(nodes)
        if as_ranges
        else text_node_view.format_node_table(
            nodes, folds_equal_rows=terminal.measure_terminal() is not None
        ),
    )
    for conflict in conflicts:
        output.print_lines(f"conflict: {conflict.detail} (from {conflict.source})", err=True)


@nodes_command.command("targets")
@names_argument
@state_option
@rack_option
@pool_option
@output.target_option("File to write; replaced at once.", type=click.Path(dir_okay=False, path_type=Path))
@output.json_flag
def list_monitoring_targets(out: Path | None, as_json: bool, **options: Any) -> None:
    """List the nodes' exporters as JSON for Prometheus (file_sd_configs).

    Contains the exporters that answered in the last run of the play monitoring. Prometheus reads the file again when it
    changes.
    """
    from gpufleet.operations import monitoring_targets as operation
    from gpufleet.operations import node_view as view

    groups = operation.list_registered_targets(view.NodeFilter(**options))
    if out is None:
        output.print_json([group.as_json() for group in groups])
        return
    operation.write_file_sd(out, groups)
    hosts = len({group.labels["instance"] for group in groups})
    data = {"file": str(out), "targets": len(groups), "nodes": hosts}
    output.print_data(as_json, data, [f"{out}: {len(groups)} targets on {hosts} nodes"])


@nodes_command.command("show")
@click.argument("node")
@output.json_option
def show_node_values(node: str, as_json: bool) -> None:
    """Show all values of a node with source and age, and why it is out of use."""
    from gpufleet.operations import node_view as view
    from gpufleet.operations import repair
    from gpufleet.operations.text import node_view as text_node_view

    with view.open_existing_registry() as registry:
        details = repair.build_node_details(registry, node)
    output.print_data(as_json, details, text_node_view.format_node_details(details))


@nodes_command.command("history")
@click.argument("node")
@output.json_option
def show_node_history(node: str, as_json: bool) -> None:
    """Show the history of a node, oldest first."""
    from gpufleet.operations import node_view as view
    from gpufleet.operations.text import node_view as text_node_view

    with view.open_existing_registry() as registry:
        changes = [
            view.history_entry_as_json(node_change)
            for node_change in view.sort_history_by_time(registry.list_node_history(node))
        ]
        earlier = view.list_former_namesake_notes(registry, node)
    for line in earlier:
        output.print_lines(line, err=True)
    output.print_data(as_json, changes, map(text_node_view.format_history_entry, changes))


@nodes_command.command("drivers")
@output.json_option
def compare_node_drivers(as_json: bool) -> None:
    """Compare drivers, libraries, fabric managers, CUDA and package holds; exit code 1 if nodes differ.

    Uses the reports of the plays drivers, reboot and driver_check in the registry.
    """
    from gpufleet.operations import driver_consistency as operation

    report = operation.compare_registered_drivers()
    output.print_data(as_json, report.as_json(), operation.format_consistency_lines(report))
    sys.exit(1 if report.has_skew_finding else 0)


@nodes_command.command("versions")
@output.json_option
def compare_node_versions(as_json: bool) -> None:
    """Compare kernels, firmware and drivers of equal nodes, by their newest burn-in; exit code 1 if nodes differ."""
    from gpufleet.operations import version_consistency as operation

    comparison = operation.compare_registered_versions()
    output.print_data(as_json, comparison, operation.format_version_comparison(comparison))
    sys.exit(0 if comparison["agree"] else 1)


nodes_command.add_command(nodes_import.import_command)
nodes_command.add_command(nodes_compare.export_nodes)
nodes_command.add_command(nodes_compare.read_node_facts)
nodes_command.add_command(nodes_compare.show_node_drift)
nodes_command.add_command(nodes_compare.show_node_differences)
nodes_command.add_command(nodes_compare.show_node_changes)


nodes_argument = click.argument("nodes", metavar="NODE|RANGE")
hold_argument = click.argument("kind", metavar="drift|cost|security|operator")


@nodes_command.command("hold")
@nodes_argument
@hold_argument
@reason_option
@actor_option
@output.json_option
def set_node_holds(nodes: str, kind: str, reason: str, actor: str | None, as_json: bool) -> None:
    """Put a hold on nodes: no jobs there, same state. Nodes are names or ranges such as blade[01-03]."""
    from gpufleet.operations import node_change

    _apply_change(node_change.hold_nodes, nodes, kind, reason, actor, as_json=as_json)


@nodes_command.command("release")
@nodes_argument
@hold_argument
@reason_option
@actor_option
@output.json_option
def release_node_holds(nodes: str, kind: str, reason: str, actor: str | None, as_json: bool) -> None:
    """Remove a hold from nodes."""
    from gpufleet.operations import node_change

    _apply_change(node_change.release_nodes, nodes, kind, reason, actor, as_json=as_json)


@nodes_command.command("state")
@nodes_argument
@click.argument("new_state", metavar="STATE")
@reason_option
@actor_option
@output.json_option
def change_node_states(nodes: str, new_state: str, reason: str, actor: str | None, as_json: bool) -> None:
    """Move nodes to another state, all or none; illegal moves are refused."""
    from gpufleet.operations import node_change

    _apply_change(node_change.change_node_states, nodes, new_state, reason, actor, as_json=as_json)


def _apply_change(
    change_nodes: Callable[..., list[NodeChange]],
    nodes: str,
    new_state_or_hold: str,
    reason: str,
    actor: str | None,
    *,
    as_json: bool,
) -> None:
    from gpufleet.operations import node_change
    from gpufleet.operations import node_view as view

    reason, who = node_change.require_reason(reason), node_change.find_actor(actor)
    with view.open_existing_registry() as registry, registry.acting_as(who):
        changes = change_nodes(registry, nodes, new_state_or_hold, reason)
    output.print_change(as_json, [change._asdict() for change in changes], changes)


nodes_command.add_command(nodes_lifecycle.export_first_boot_files)
nodes_command.add_command(nodes_lifecycle.replace_node)
nodes_command.add_command(nodes_lifecycle.retire_node)
nodes_command.add_command(nodes_lifecycle.sweep_orphans)
