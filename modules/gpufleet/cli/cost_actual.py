"""``gpufleet cost actual``: what the clouds billed beside what a stack declares."""

from __future__ import annotations

from pathlib import Path

import click

from gpufleet import paths
from gpufleet.cli import output


@click.command("actual")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-s", "--stack", required=True, help="The stack, as in stacks/Pulumi.STACK.yaml.")
@click.option(
    "--project", type=click.Path(path_type=Path), metavar="DIR", help="The project; default: the current one."
)
@click.option(
    "--trust-program",
    "trusted",
    is_flag=True,
    help="Give the Pulumi program your environment, network and files.",
)
@click.option(
    "--allow-unconfined",
    "may_be_unconfined",
    is_flag=True,
    help="Run the program also where this machine cannot confine it.",
)
@output.json_option
def compare_actual_cost(
    *,
    files: tuple[Path, ...],
    stack: str,
    project: Path | None,
    trusted: bool,
    may_be_unconfined: bool,
    as_json: bool,
) -> None:
    """Compare billed with declared cost by pool, and by node of the registry where there is one.

    FILES: exports in FOCUS, Azure's cost details or Google's billing export: CSV, JSON lines, Parquet, gzip, or folders
    of their parts.
    """
    from gpufleet import cost
    from gpufleet.cost.analysis.actual import compare_with_bill, sum_billed_charges
    from gpufleet.cost.analysis.reports.actual import build_actual_document, format_actual_table
    from gpufleet.cost.inputs.bill_export import stream_bill_files
    from gpufleet.cost.inputs.bill_folder import list_bill_files
    from gpufleet.cost.inputs.stack_name import parse_stack_name
    from gpufleet.operations import billed_nodes

    stack = parse_stack_name(stack)
    bill_files = list_bill_files(files)
    root = paths.find_given_project(project)
    nodes = billed_nodes.list_registered_nodes(root)
    if nodes is None:
        output.print_lines(
            f"without a registry, nodes are not compared; hint: gpufleet nodes sync -s {stack}", err=True
        )
    billed = sum_billed_charges(stream_bill_files(bill_files), stack, nodes)
    options = cost.CostOptions(trusted=trusted, may_be_unconfined=may_be_unconfined)
    estimate = cost.estimate_stack(root, stack, options=options)
    comparison = compare_with_bill(estimate.bill, billed)
    output.print_result(as_json, comparison, build_actual_document, format_actual_table)
