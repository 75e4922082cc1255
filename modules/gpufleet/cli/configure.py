"""`gpufleet configure`: run a play on the fleet, with live progress."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpufleet.cli import output, terminal

if TYPE_CHECKING:
    from gpufleet.operations.configure import ConfigureResult


@click.command(name="configure")
@click.option(
    "--limit", default="new_nodes", show_default=True, help="Ansible's pattern of hosts and groups."
)
@click.option(
    "--play",
    default="site",
    show_default=True,
    help="A playbook, gpufleet's or your own, by name.",
)
@click.option(
    "--burn-in", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
    help="auto measures nodes that are not ready yet; always, ready ones too.",
)  # fmt: skip
@click.option("--check", is_flag=True, help="Print the tasks that would change a host; change nothing.")
@click.option("--diff", is_flag=True, help="Print each difference of files, packages, users and settings.")
@click.option(
    "--tags", multiple=True, metavar="TAG,…", help="Only tasks with one of these tags, as with Ansible."
)
@click.option("--skip-tags", multiple=True, metavar="TAG,…", help="No task with one of these tags.")
@click.option(
    "-e",
    "--extra-var",
    "extra_vars",
    multiple=True,
    metavar="KEY=VALUE|@FILE",
    help="A variable for the play, or a YAML or JSON file with variables. Use a file for secrets.",
)
@click.option(
    "--mesh", metavar="SOCKET",
    help="Run in shards on a Receptor mesh, by the control socket of its controller (docs/runs.md).",
)  # fmt: skip
@click.option("--mesh-nodes", metavar="NODE,…", help="The mesh nodes that run the shards.")
@click.option(
    "--lost-after", type=click.IntRange(min=1), default=60, show_default=True, metavar="SECONDS",
    help="Count a mesh node as lost after so long without a route to it.",
)  # fmt: skip
@click.option(
    "--shard-by", type=click.Choice(["rack", "pool"]), default="rack", show_default=True,
    help="Split the hosts into shards by rack or by pool.",
)  # fmt: skip
@click.option(
    "--shard-size",
    type=click.IntRange(min=0),
    default=0,
    help="Maximum number of hosts per shard; 0: no limit.",
)
@click.option(
    "--resume", is_flag=False, flag_value="", metavar="[RUN]",
    help="Resume a run (default: the newest) on its unfinished hosts.",
)  # fmt: skip
@click.option(
    "--pack", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Do not run: write a folder for `ansible-runner transmit` (Receptor, AWX).",
)  # fmt: skip
@click.option("--plan", is_flag=True, help="Print which GPU driver each host needs and why; change nothing.")
@click.option("--sources", is_flag=True, help="With --plan: print the source of each driver rule.")
@output.json_option
def configure_command(
    *,
    as_json: bool,
    plan: bool,
    sources: bool,
    mesh: str | None,
    mesh_nodes: str | None,
    lost_after: int,
    shard_by: str,
    shard_size: int,
    resume: str | None,
    pack: Path | None,
    **options: Any,
) -> None:
    """Commission, configure and burn in new nodes.

    Progress goes to standard error. The same as:
    ansible-runner run . --project-dir playbooks -p site.yml --limit PATTERN
    """
    from gpufleet import paths, remote
    from gpufleet.operations import configure, playbook_run
    from gpufleet.operations.text import configure as text_configure

    check_option_combinations()
    if plan:
        check_plan_options(options, mesh_nodes=mesh_nodes, resume=resume)
        print_driver_plans(options["limit"], options["extra_vars"], as_json=as_json, show_sources=sources)
    if pack is not None:
        write_run_folder(playbook_run.PlaybookRequest(**options), pack)
        return
    mode = (
        remote.ShardingOptions(mesh or "", tuple(mesh_nodes.split(",")), shard_by, shard_size, lost_after)
        if mesh_nodes is not None
        else None
    )
    if resume is None:
        result = configure.configure_hosts(
            paths.find_project_root(),
            playbook_run.PlaybookRequest(**options, mode=mode),
            terminal.open_progress_stream(),
        )
    else:
        result = configure.resume_run(
            paths.find_project_root(),
            resume,
            options["extra_vars"],
            mode,
            terminal.open_progress_stream(),
            diff=options["diff"],
        )
    output.print_result(
        as_json, result, configure.ConfigureResult.as_json, text_configure.format_configure_result
    )
    for error in result.run.errors if result.run else ():
        output.print_lines(f"ansible: {error}", err=True, is_note=False)
    print_unused_rehearsal(result)
    sys.exit(result.exit_code)


def print_unused_rehearsal(result: ConfigureResult) -> None:
    """Print how to use the project's rehearsal if a run outside of it did not reach a host."""
    from gpufleet.operations.rehearsal_hint import describe_unused_rehearsal

    if any(host.status == "unreachable" for host in result.hosts) and (hint := describe_unused_rehearsal()):
        output.print_lines(hint, err=True)


RUN_OPTIONS = ("limit", "play", "burn_in", "check", "tags", "skip_tags", "pack")
"""Options that a resumed run takes from its first start: another value would make it another run."""
CONFLICTING_OPTIONS = {
    "resume": RUN_OPTIONS,
    "pack": ("mesh", "mesh_nodes", "shard_by", "shard_size", "plan"),
}
REQUIRED_OPTIONS = {
    "mesh": "mesh_nodes",
    "mesh_nodes": "mesh",
    "lost_after": "mesh_nodes",
    "shard_by": "mesh_nodes",
    "shard_size": "mesh_nodes",
    "sources": "plan",
}


def check_option_combinations() -> None:
    """Raise InputError for options that would be ignored without notice: --resume --check would change hosts."""
    from gpufleet.errors import InputError

    context = click.get_current_context()
    given_names = [
        name
        for name in context.params
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    flags = {name: f"--{name.replace('_', '-')}" for name in context.params}
    for chief, conflicting in CONFLICTING_OPTIONS.items():
        conflict = next(
            (flags[name] for name in conflicting if chief in given_names and name in given_names), None
        )
        if conflict:
            raise InputError(
                f"cannot be combined with {conflict}", key=flags[chief], remedy="remove one of the two"
            )
    for name, needed in REQUIRED_OPTIONS.items():
        if name in given_names and needed not in given_names:
            raise InputError(f"needs {flags[needed]}", key=flags[name], remedy=f"add {flags[needed]}")


def write_run_folder(request: Any, folder: Path) -> None:
    """Write the run as a folder and print the next command."""
    from gpufleet import paths, remote
    from gpufleet.operations import configure, playbook_run

    root = paths.find_project_root()
    extra_vars = configure.read_extra_vars(request.extra_vars)
    hosts = playbook_run.pack_playbook_request(root, request, extra_vars, folder)
    if not hosts:
        output.print_lines(f"{request.limit} has no hosts: nothing to do")
        return
    playbook = remote.find_playbook(root, request.play)
    output.print_lines(f"{len(hosts)} hosts, {playbook}: {folder}")
    output.print_lines(f"next: ansible-runner transmit {folder} -p {playbook}", err=True)


def check_plan_options(options: dict[str, Any], **conflicting: str | None) -> None:
    """Raise InputError for options that cannot be combined with --plan."""
    from gpufleet.errors import InputError

    given_names = [name for name, value in conflicting.items() if value is not None]
    defaults = {"play": "site", "burn_in": "auto", "diff": False, "tags": (), "skip_tags": ()}
    given_names += [name for name, default in defaults.items() if options[name] != default]
    if given_names:
        flag = f"--{given_names[0].replace('_', '-')}"
        raise InputError(f"cannot be combined with {flag}", key="--plan", remedy=f"remove {flag}")


def print_driver_plans(limit: str, extra_vars: tuple[str, ...], *, as_json: bool, show_sources: bool) -> None:
    """Print the driver plan of every host and leave."""
    from gpufleet import paths
    from gpufleet.operations import configure, driver_plans

    extra_var_values = configure.read_extra_vars(extra_vars)
    plans = driver_plans.plan_fleet_drivers(
        paths.find_project_root(), limit, extra_var_values, terminal.open_progress_stream()
    )
    output.print_result(
        as_json,
        plans,
        driver_plans.FleetDriverPlans.as_json,
        lambda plans: driver_plans.format_fleet_driver_plans(plans, sources=show_sources),
    )
    for error in plans.run.errors if plans.run else ():
        output.print_lines(f"ansible: {error}", err=True, is_note=False)
    sys.exit(plans.exit_code)
