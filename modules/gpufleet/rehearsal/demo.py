"""The demo: the main workflow as shell commands.

Every step is printed before it runs and can be repeated by hand after
``eval "$(gpufleet rehearse env -s STACK)"``. The demo starts from a clean rehearsal and checks the registry at the
end: it fails unless exactly the planned faults were found.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.boundary import (
    ENGINE_DOCUMENT,
    decode_json,
    decode_yaml_with_comments,
    make_values_printable,
    read_bytes,
    read_text,
)
from gpufleet.errors import CheckFailed, EnvironmentFault
from gpufleet.remote import process_tree
from gpufleet.remote.run import catch_interrupts

Reporter = Callable[[str], None]
GRACE_S = 60.0
POLL_S = 0.2


@dataclass(frozen=True)
class DemoStep:
    """One command line of the demo. ``allows_failure`` permits exit code 1: some nodes are faulty on purpose."""

    title: str
    command: str
    allows_failure: bool = False


def list_demo_steps(
    stack: str, changed_spec_file: Path, cost_change_file: Path, report_file: Path
) -> list[DemoStep]:
    """Return the demo's commands; the paths are those of the changed spec, the cost difference and the report."""
    changed_spec_path, cost_path, report_path = (
        shlex.quote(os.path.relpath(path)) for path in (changed_spec_file, cost_change_file, report_file)
    )
    return [
        DemoStep(
            "Build the declared fleet with the real Pulumi engine",
            f"pulumi up -s {stack} --yes --skip-preview --suppress-progress",
        ),
        DemoStep(
            "Ask the engine what it would change now: nothing",
            f"pulumi preview -s {stack} --json --show-sames | gpufleet cost diff --preview -",
        ),
        DemoStep("Estimate what the fleet costs", f"gpufleet cost estimate -s {stack}"),
        DemoStep(
            "Price a change before it is made: one more machine in the first pool",
            f"gpufleet cost diff -s {stack} --base HEAD --config-file {changed_spec_path} --format markdown",
            allows_failure=True,
        ),
        DemoStep(
            "Keep that change for the report",
            f"gpufleet cost diff -s {stack} --base HEAD --config-file {changed_spec_path} --format json > {cost_path}",
            allows_failure=True,
        ),
        DemoStep("Register every node, cloud and rack", f"gpufleet nodes sync -s {stack}"),
        DemoStep("List the hosts that Ansible sees", "ansible -i inventory all --list-hosts"),
        DemoStep(
            "Configure the new blades and burn them in",
            "gpufleet configure --limit new_blades",
            allows_failure=True,
        ),
        DemoStep("Read the registry", "gpufleet nodes list"),
        DemoStep(
            "Write the report", f"gpufleet console --output {report_path} --cost {cost_path} -s {stack}"
        ),
    ]


def run_demo(root: Path, stack: str, home: Path, env: Mapping[str, str], report: Reporter) -> None:
    """Run every step in the rehearsal's environment; raise CheckFailed if the faults were not found."""
    started = time.monotonic()
    changed_spec, cost_change, report_file = home / "what-if.yaml", home / "change.json", home / "report.html"
    write_spec_with_extra_node(root / "stacks" / f"Pulumi.{stack}.yaml", changed_spec)
    plan = list_demo_steps(stack, changed_spec, cost_change, report_file)
    for number, step in enumerate(plan, start=1):
        report(f"\n[{number}/{len(plan)}] {step.title}\n$ {step.command}")
        run_demo_step(step, root, env)
    nodes = run_json_command(["gpufleet", "nodes", "list", "--json"], root, env)
    reports = run_json_command(["gpufleet", "burnin", "report", "--json"], root, env)
    change = decode_json(read_bytes(cost_change, ENGINE_DOCUMENT), str(cost_change), ENGINE_DOCUMENT)
    report(f"\n{describe_cost_change(change)}")
    for line in describe_unhealthy_nodes(make_values_printable(reports)):
        report(f"  {line}")
    report(check_and_summarize_blades(make_values_printable(nodes)))
    report(f"Report: {os.path.relpath(report_file)}   (the demo took {time.monotonic() - started:.0f} s)")
    report(
        f'Explore the rehearsal: eval "$(gpufleet rehearse env -s {stack})"'
        f"   remove it: gpufleet rehearse down -s {stack}"
    )


def write_spec_with_extra_node(stack_file: Path, target: Path) -> None:
    """Write a copy of the stack file with one more machine in the first pool of fixed size."""
    from ruamel.yaml import YAML

    yaml = YAML()
    spec = decode_yaml_with_comments(read_text(stack_file), str(stack_file))
    pool = next(pool for pool in spec["config"]["gpufleet:fleet"]["pools"] if isinstance(pool["count"], int))
    pool["count"] += 1
    with target.open("w") as out:
        yaml.dump(spec, out)


def run_demo_step(step: DemoStep, root: Path, env: Mapping[str, str]) -> None:
    exit_code = run_supervised_command(["bash", "-o", "pipefail", "-c", step.command], root, env)
    if exit_code and not (step.allows_failure and exit_code == 1):
        raise EnvironmentFault(
            f"the demo stopped at: {step.command} (exit {exit_code})",
            hint="the command's own message is above; fix its cause and run make demo again",
        )


def run_supervised_command(command: list[str], root: Path, env: Mapping[str, str]) -> int:
    """Run a command and return its exit code; stop its whole process tree if this process is interrupted or killed.

    The command first gets time to stop by itself: the engine releases its lock, a gpufleet run stops Ansible.
    """
    supervisor = process_tree.build_supervisor_command(follow_parent=True, grace_s=GRACE_S)
    with catch_interrupts() as interrupted:
        process = subprocess.Popen([*supervisor, *command], cwd=root, env=dict(env))
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL_S)
            if interrupted.is_set():
                process.terminate()
                process.wait()
                raise KeyboardInterrupt
    return process.returncode


def run_json_command(command: list[str], root: Path, env: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the JSON that a command prints; its exit code may be 1."""
    completed = subprocess.run(command, cwd=root, env=dict(env), check=False, capture_output=True, text=True)
    try:
        rows: list[dict[str, Any]] = decode_json(completed.stdout, command[0], ENGINE_DOCUMENT)
    except ValueError:
        last_line = completed.stderr.strip().splitlines()[-1:] or ["nothing"]
        raise EnvironmentFault(f"{' '.join(command)} did not print JSON but: {last_line[0]}") from None
    return rows


def describe_cost_change(cost_change: dict[str, Any]) -> str:
    """Return one line with the monthly cost before and after the change."""
    before, after = cost_change["before"]["usd_per_month"], cost_change["after"]["usd_per_month"]
    return f"The fleet costs {before:,.0f} USD a month; with one machine more in its first pool {after:,.0f}"


def describe_unhealthy_nodes(burn_in_reports: list[dict[str, Any]]) -> list[str]:
    """Return a line for each node that is not healthy, with its failed checks."""
    return [
        f"{report['node']} {report['verdict']}: "
        + "; ".join(check["reason"] for check in report["checks"] if check["outcome"] in ("fail", "warn"))
        for report in burn_in_reports
        if report["verdict"] != "healthy"
    ]


def check_and_summarize_blades(nodes: list[dict[str, Any]]) -> str:
    """Return the states of the blades as one line; raise CheckFailed unless exactly the planned faults were found."""
    blades = [node for node in nodes if node["kind"] == "compute_blade"]
    ready = [node["name"] for node in blades if node["state"] == "ready" and not node["holds"]]
    degraded = [node["name"] for node in blades if node["state"] == "ready" and node["holds"]]
    faulty = [node["name"] for node in blades if node["state"] == "quarantined"]
    unreachable = [node["name"] for node in blades if node["reachable"] is False]
    summary = (
        f"{len(ready)} of {len(blades)} blades are ready; degraded: {', '.join(degraded) or 'none'}; "
        f"faulty: {', '.join(faulty) or 'none'}; unreachable: {', '.join(unreachable) or 'none'}"
    )
    if (len(ready), len(degraded), len(faulty), len(unreachable)) != (len(blades) - 3, 1, 1, 1):
        raise CheckFailed(f"the demo injected three faults and expected exactly these: {summary}")
    return summary
