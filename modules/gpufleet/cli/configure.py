"""`gpufleet configure`: run a play on the fleet, with live progress."""

from __future__ import annotations

import json
import sys
from typing import Any

import click


@click.command(name="configure")
@click.option(
    "--limit", default="new_nodes", show_default=True, help="Ansible's pattern of hosts and groups."
)
@click.option(
    "--play", default="site", show_default=True, help="A playbook of the playbooks folder, by name."
)
@click.option(
    "--burn-in", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
    help="auto measures nodes that are not ready yet; always, ready ones too.",
)  # fmt: skip
@click.option("--check", is_flag=True, help="Say what would change; change nothing.")
@click.option(
    "-e", "--extra-var", "extra_vars", multiple=True, metavar="KEY=VALUE", help="A variable for the play."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool, **asked: Any) -> None:
    """Commission, configure and burn in new nodes.

    Progress goes to standard error. The same as:
    ansible-runner run . --project-dir playbooks -p site.yml --limit PATTERN
    """
    from gpufleet import paths
    from gpufleet.operations import configure

    request = configure.Request(**asked)
    done = configure.configure(paths.project_root(), request, sys.stderr)
    click.echo(json.dumps(done.as_json(), indent=2) if as_json else configure.as_text(done))
    for error in done.run.errors if done.run else ():
        click.echo(f"ansible: {error}", err=True)
    sys.exit(done.exit_code)
