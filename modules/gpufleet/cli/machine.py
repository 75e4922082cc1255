"""``gpufleet machine``: what is known about a machine type, and where each fact comes from."""

from __future__ import annotations

import click

from gpufleet.catalog.machine_report import build_machine_report, format_machine_report
from gpufleet.cli import output


@click.command("machine")
@click.argument("name")
@click.option("--cloud", help="The cloud, if two have a machine of that name.")
@click.option("--accelerator", help="The model that a pool attaches to it (Google's n1): T4.")
@output.json_option
def machine_command(name: str, cloud: str | None, accelerator: str | None, as_json: bool) -> None:
    """Show a machine's network, fabric, disks, purchases and quota buckets, each with source and date."""
    output.print_result(as_json, build_machine_report(name, cloud, accelerator), dict, format_machine_report)
