"""``gpufleet watch``: judge nodes in use by what their exporters say; its rules, also for Prometheus and Grafana."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import click

from gpufleet.cli import output
from gpufleet.cli.group import LazyGroup

file_type = click.Path(dir_okay=False, path_type=Path)
EXPORT_FORMATS = ("rules", "tests", "prometheus", "alertmanager", "dashboard")


@click.group(cls=LazyGroup, invoke_without_command=True)
@click.option("--once", is_flag=True, help="One cycle, for cron; exit code 1 if a finding is open.")
@click.option(
    "--interval", type=click.FloatRange(1, 3600), default=15.0, show_default=True, metavar="SECONDS",
    help="From the start of a cycle to that of the next; with --once how often you run it.",
)  # fmt: skip
@click.option(
    "--parallel", type=click.IntRange(1, 512), default=64, show_default=True,
    help="Exporters that are asked at the same time.",
)  # fmt: skip
@click.option(
    "--timeout", type=click.FloatRange(0.1, 60), default=10.0, show_default=True, metavar="SECONDS",
    help="How long one answer may take as a whole.",
)  # fmt: skip
@click.option("--listen", metavar="ADDRESS:PORT", help="Also take Alertmanager's webhook: POST /alerts.")
@click.option(
    "--token-file", type=file_type, help="The bearer token of the webhook. Default: GPUFLEET_WATCH_TOKEN."
)
@output.json_flag
@click.pass_context
def watch_command(context: click.Context, /, as_json: bool, **options: Any) -> None:
    """Read the exporters of nodes in use, and record, hold, quarantine and drain by rules.

    What follows from a rule is in watch.yaml next to Pulumi.yaml.
    """
    if context.invoked_subcommand is None:
        watch_nodes(as_json=as_json, **options)


def watch_nodes(
    *,
    as_json: bool,
    once: bool,
    interval: float,
    parallel: int,
    timeout: float,
    listen: str | None,
    token_file: Path | None,
) -> None:
    """Run the watch until it is interrupted, or one cycle of it."""
    from gpufleet import paths
    from gpufleet.errors import InputError
    from gpufleet.operations import node_view
    from gpufleet.operations.site_file import load_watch_policy
    from gpufleet.operations.watch import session as operation
    from gpufleet.operations.watch import webhook
    from gpufleet.operations.watch.store import WatchStore

    if listen and once:
        raise InputError("cannot be combined with --once", where="--listen")
    if token_file and not listen:
        raise InputError("needs --listen", where="--token-file")
    address = webhook.parse_listen_address(listen) if listen else None
    token = webhook.load_token(token_file, address[0]) if address else None
    policy = load_watch_policy()
    options = operation.build_scrape_options(policy, seconds=timeout, max_parallel=parallel)
    last: list[operation.CycleReport] = []

    def report(cycle: operation.CycleReport) -> None:
        last[:] = [cycle]
        if as_json and not once:
            output.print_json_line(cycle.as_json())
        else:
            output.print_data(as_json, cycle.as_json(), cycle.format_lines())

    with node_view.open_existing_registry() as registry, WatchStore(paths.ensure_state_home()) as store:
        session = operation.WatchSession(registry, policy, store, interval=interval, options=options)
        with webhook.serve_alerts(session, address, token):
            operation.run_cycles(session, report, stop=threading.Event(), count=1 if once else None)
    sys.exit(1 if last[0].open_findings else 0)


@watch_command.command("rules")
@output.json_option
def show_watch_rules(as_json: bool) -> None:
    """List the rules with what they want, what they do at this site, and their sources."""
    from gpufleet.operations.site_file import load_watch_policy
    from gpufleet.operations.watch.text import format_rules

    rules = load_watch_policy().rules
    output.print_data(as_json, [rule.model_dump(mode="json") for rule in rules], format_rules(rules))


@watch_command.command("export")
@click.argument("format_name", metavar="FORMAT", type=click.Choice(EXPORT_FORMATS))
@output.target_option("File to write; replaced at once.", type=file_type)
@output.json_flag
def export_watch_rules(format_name: str, out: Path | None, as_json: bool) -> None:
    """Print the rules for other programs: rules, tests, prometheus, alertmanager or dashboard.

    rules are Prometheus alerts and tests their unit tests for promtool; prometheus and alertmanager are examples of
    configuration; dashboard is a Grafana dashboard as JSON.
    """
    from gpufleet.operations.site_file import load_watch_policy
    from gpufleet.operations.watch import prometheus

    text = prometheus.export_rules(load_watch_policy().rules, format_name)
    output.print_export(text, out, as_json=as_json, data={"format": format_name})
