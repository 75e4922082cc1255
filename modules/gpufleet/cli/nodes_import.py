"""``gpufleet nodes import``: what is there already, into the registry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpufleet.cli import output

if TYPE_CHECKING:
    from gpufleet.operations.node_import import ImportResult

all_machines_option = click.option(
    "--all-machines", is_flag=True, help="Also instances without an accelerator."
)
public_option = click.option(
    "--public", "prefer_public", is_flag=True, help="Reach them at their public addresses, if they have one."
)


@click.group("import")
def import_command() -> None:
    """Take machines into the registry that gpufleet did not make. Nothing is changed where they are."""


def _cloud_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return all_machines_option(public_option(output.json_option(command)))


@import_command.command("aws")
@click.option(
    "--profile", "profiles", multiple=True, help="A profile of ~/.aws/config; repeat it for more accounts."
)
@click.option(
    "--region", "regions", multiple=True, help="Only this region; repeatable. Default: all enabled."
)
@_cloud_options
def import_aws_instances(
    profiles: tuple[str, ...], regions: tuple[str, ...], as_json: bool, **options: Any
) -> None:
    """Import the instances of AWS accounts, all regions."""
    from gpufleet.operations import node_import as operation

    listings = operation.list_aws_listings(profiles, regions)
    _report(operation.import_cloud_instances(listings, **options), as_json=as_json)


@import_command.command("gcp")
@click.option("--project", "projects", multiple=True, required=True, help="A project; repeatable.")
@_cloud_options
def import_gcp_instances(projects: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Import the instances of Google Cloud projects, all zones."""
    from gpufleet.operations import node_import as operation

    _report(
        operation.import_cloud_instances(operation.list_gcp_listings(projects), **options), as_json=as_json
    )


@import_command.command("azure")
@click.option("--subscription", "subscriptions", multiple=True, required=True, help="Its id; repeatable.")
@_cloud_options
def import_azure_instances(subscriptions: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Import the machines of Azure subscriptions, members of scale sets included."""
    from gpufleet.operations import node_import as operation

    _report(
        operation.import_cloud_instances(operation.list_azure_listings(subscriptions), **options),
        as_json=as_json,
    )


@import_command.command("csv")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@output.json_option
def import_csv_machines(file: Path, as_json: bool) -> None:
    """Import the machines of a CSV file with a column name, as nodes export csv writes it.

    The file is a source: a machine that a later version leaves out is missing, not gone.
    """
    from gpufleet.operations import node_import as operation

    _report(operation.import_csv_file(file), as_json=as_json)


def _report(result: ImportResult, *, as_json: bool) -> None:
    output.print_data(as_json, result.as_json(), result.format_lines())
    for line in result.list_warnings():
        output.print_lines(line, err=True)
    result.raise_if_incomplete()
