"""``gpufleet rehearse fault cloud``: let a rehearsal's clouds run out, refuse, fail half-way or preempt a machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpufleet import paths
from gpufleet.cli import output
from gpufleet.cli.group import LazyGroup

if TYPE_CHECKING:
    from gpufleet.rehearsal import Rehearsal

KINDS = ("stock-out", "quota", "throttle", "fail-after", "lose-answer", "preempt", "list", "clear")
CLOUDS = ("aws", "gcp", "azure")
PURCHASES = ("on_demand", "spot", "reserved", "capacity_block", "flex_start")


@click.group(cls=LazyGroup, name="fault")
def fault_command() -> None:
    """Inject faults into a running rehearsal; `rehearse up --faults` has those of the rack's hosts."""


@fault_command.command("cloud")
@click.argument("kind", type=click.Choice(KINDS))
@click.option("-s", "--stack", required=True, help="The stack whose rehearsal is up, e.g. production.")
@click.option("--cloud", type=click.Choice(CLOUDS), help="The cloud; needed except for list and clear.")
@click.option("--zone", default="", help="stock-out: only in this zone, e.g. us-east-1a.")
@click.option("--machine", default="", help="stock-out, quota: only this machine type.")
@click.option(
    "--purchase", type=click.Choice(PURCHASES), help="stock-out, quota: only this kind of purchase."
)
@click.option(
    "--count",
    type=click.IntRange(0, 100_000),
    help="quota: machines at most. throttle, lose-answer: times. fail-after: creations that succeed.",
)
@click.option("--node", help="preempt: the machine's name or id.")
@output.json_option
def inject_cloud_fault(
    *,
    kind: str,
    stack: str,
    cloud: str | None,
    zone: str,
    machine: str,
    purchase: str | None,
    count: int | None,
    node: str | None,
    as_json: bool,
) -> None:
    """Inject KIND into a simulated cloud, preempt a machine, or list and clear the faults.

    \b
    gpufleet rehearse fault cloud stock-out -s production --cloud aws --zone us-east-1a --purchase spot
    gpufleet rehearse fault cloud fail-after -s production --cloud azure --count 5
    gpufleet rehearse fault cloud preempt -s production --cloud aws --node NAME
    gpufleet rehearse fault cloud clear -s production
    """  # noqa: D301 - the escape is click's mark for lines that stay as they are
    from gpufleet.fleet import load_fleet
    from gpufleet.rehearsal.providers import fault_injection

    rehearsal = _find_running_rehearsal(stack)
    _check_options(kind, cloud, zone or machine or purchase, count, node)
    if kind == "preempt":
        report: list[dict[str, Any]] | str = fault_injection.preempt(rehearsal.home, str(cloud), str(node))
    elif kind == "clear":
        report = fault_injection.clear_faults(rehearsal.home, cloud)
    elif kind == "list":
        report = fault_injection.list_faults(rehearsal.home, cloud)
    else:
        fault_injection.check_fault_scope(load_fleet(stack, rehearsal.root), str(cloud), zone, machine)
        fields = {"kind": kind, "zone": zone, "machine": machine, "purchase": purchase or ""}
        report = fault_injection.add_cloud_fault(
            rehearsal.home, str(cloud), {**fields, "count": 1 if count is None else count}
        )
    if as_json:
        output.print_json(report)
    else:
        output.print_text_block(report if isinstance(report, str) else _format_faults(report))


def _check_options(
    kind: str, cloud: str | None, scope: str | None, count: int | None, node: str | None
) -> None:
    if cloud is None and kind not in ("list", "clear"):
        raise click.UsageError(f"{kind} needs --cloud")
    if (node is not None) is not (kind == "preempt"):
        raise click.UsageError(
            "preempt needs --node" if node is None else f"--node cannot be combined with {kind}"
        )
    if count is not None and kind not in ("quota", "throttle", "fail-after", "lose-answer"):
        raise click.UsageError(f"--count cannot be combined with {kind}")
    if scope and kind not in ("stock-out", "quota"):
        raise click.UsageError(f"--zone, --machine and --purchase cannot be combined with {kind}")


def _format_faults(faults: list[dict[str, Any]]) -> str:
    """Return one line per fault: its cloud, kind and scope."""
    lines = []
    for fault in faults:
        scope = " ".join(str(fault[key]) for key in ("zone", "machine", "purchase") if fault[key])
        number = f" {fault['count']}" if fault["kind"] != "stock-out" else ""
        lines.append(f"{fault['cloud']}: {fault['kind']}{number}{' of ' + scope if scope else ''}")
    return "\n".join(lines) or "no faults"


def _find_running_rehearsal(stack: str) -> Rehearsal:
    from gpufleet.errors import InputError
    from gpufleet.rehearsal import Rehearsal

    rehearsal = Rehearsal(paths.find_project_root(Path.cwd()), stack)
    rehearsal.check_stack_or_rehearsal_exists()
    if not rehearsal.is_set_up:
        raise InputError(
            f"the rehearsal of {stack} is not up", where="-s", remedy=f"gpufleet rehearse up -s {stack}"
        )
    return rehearsal
