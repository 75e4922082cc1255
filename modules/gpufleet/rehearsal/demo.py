"""The main job, end to end, as the commands a person would type.

Every step is printed before it runs and can be repeated by hand after
``eval "$(gpufleet rehearse env -s STACK)"``. The demo begins from a clean rehearsal, so that a run after an
interrupted one ends in the same state, and it looks at the registry at the end: a demo that cannot fail
would show nothing.
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
    decode_yaml_comments,
    printable_values,
    read_bytes,
    read_text,
)
from gpufleet.errors import AnswerIsNo, EnvironmentFault
from gpufleet.remote import process_tree
from gpufleet.remote.run import interruptible

Say = Callable[[str], None]
GRACE_S = 60.0
POLL_S = 0.2


@dataclass(frozen=True)
class Step:
    """One command line of the demo. ``no_is_fine`` allows exit code 1: some nodes are faulty on purpose."""

    title: str
    command: str
    no_is_fine: bool = False


def steps(stack: str, what_if: Path, change: Path, report: Path) -> list[Step]:
    """List the demo's commands; paths are where the what-if spec, the cost change and the report go."""
    file, money, page = (shlex.quote(os.path.relpath(path)) for path in (what_if, change, report))
    return [
        Step(
            "Build the declared fleet with the real Pulumi engine",
            f"pulumi up -s {stack} --yes --skip-preview --suppress-progress",
        ),
        Step(
            "Ask the engine what it would change now: nothing",
            f"pulumi preview -s {stack} --json --show-sames | gpufleet cost diff --preview -",
        ),
        Step("Say what the fleet costs", f"gpufleet cost estimate -s {stack}"),
        Step(
            "Price a change before it is made: one more machine in the first pool",
            f"gpufleet cost diff -s {stack} --base HEAD --config-file {file} --format markdown",
            no_is_fine=True,
        ),
        Step(
            "Keep that change for the report",
            f"gpufleet cost diff -s {stack} --base HEAD --config-file {file} --format json > {money}",
            no_is_fine=True,
        ),
        Step("Register every node, cloud and rack", f"gpufleet nodes sync -s {stack}"),
        Step("List the hosts that Ansible sees", "ansible -i inventory all --list-hosts"),
        Step(
            "Configure the new blades and burn them in",
            "gpufleet configure --limit new_blades",
            no_is_fine=True,
        ),
        Step("Read the registry", "gpufleet nodes list"),
        Step("Write the report", f"gpufleet console --html {page} --cost {money} -s {stack}"),
    ]


def run(root: Path, stack: str, home: Path, env: Mapping[str, str], say: Say) -> None:
    """Run every step in the rehearsal's environment; raise AnswerIsNo where the faults were not found."""
    started = time.monotonic()
    what_if, change, report = home / "what-if.yaml", home / "change.json", home / "report.html"
    write_what_if(root / "stacks" / f"Pulumi.{stack}.yaml", what_if)
    plan = steps(stack, what_if, change, report)
    for number, step in enumerate(plan, start=1):
        say(f"\n[{number}/{len(plan)}] {step.title}\n$ {step.command}")
        run_step(step, root, env)
    nodes = read_json(["gpufleet", "nodes", "list", "--json"], root, env)
    reports = read_json(["gpufleet", "burnin", "report", "--json"], root, env)
    say(f"\n{money(decode_json(read_bytes(change, ENGINE_DOCUMENT), str(change), ENGINE_DOCUMENT))}")
    for line in reasons(printable_values(reports)):
        say(f"  {line}")
    say(summary(printable_values(nodes)))
    say(f"Report: {os.path.relpath(report)}   took {time.monotonic() - started:.0f} s")
    say(
        f'Look around: eval "$(gpufleet rehearse env -s {stack})"   end it: gpufleet rehearse down -s {stack}'
    )


def write_what_if(stack_file: Path, target: Path) -> None:
    """Write a copy of the stack file whose first fixed pool has one machine more."""
    from ruamel.yaml import YAML

    yaml = YAML()
    spec = decode_yaml_comments(read_text(stack_file), str(stack_file))
    pool = next(pool for pool in spec["config"]["gpufleet:fleet"]["pools"] if isinstance(pool["count"], int))
    pool["count"] += 1
    with target.open("w") as out:
        yaml.dump(spec, out)


def run_step(step: Step, root: Path, env: Mapping[str, str]) -> None:
    code = run_supervised(["bash", "-o", "pipefail", "-c", step.command], root, env)
    if code and not (step.no_is_fine and code == 1):
        raise EnvironmentFault(
            f"the demo stopped at: {step.command} (exit {code})",
            hint="its own message is above; run make demo again once that is mended",
        )


def run_supervised(command: list[str], root: Path, env: Mapping[str, str]) -> int:
    """Run a command with all that it starts ending when we are interrupted or killed; return its exit code.

    It gets time to stop by itself: the engine gives back its lock, a run of ours stops Ansible.
    """
    words = process_tree.supervised(follow=True, grace_s=GRACE_S)
    with interruptible() as interrupted:
        process = subprocess.Popen([*words, *command], cwd=root, env=dict(env))
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL_S)
            if interrupted.is_set():
                process.terminate()
                process.wait()
                raise KeyboardInterrupt
    return process.returncode


def read_json(command: list[str], root: Path, env: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what a verb prints as JSON; its exit code says whether the answer is yes, not whether there is one."""
    done = subprocess.run(command, cwd=root, env=dict(env), check=False, capture_output=True, text=True)
    try:
        rows: list[dict[str, Any]] = decode_json(done.stdout, command[0], ENGINE_DOCUMENT)
    except ValueError:
        said = done.stderr.strip().splitlines()[-1:] or ["nothing"]
        raise EnvironmentFault(f"{' '.join(command)} said no JSON but: {said[0]}") from None
    return rows


def money(change: dict[str, Any]) -> str:
    """Say what the priced change comes to."""
    before, after = change["before"]["usd_per_month"], change["after"]["usd_per_month"]
    return f"The fleet costs {before:,.0f} USD a month; with one machine more in its first pool {after:,.0f}"


def reasons(reports: list[dict[str, Any]]) -> list[str]:
    """Say in a line for each node that is not healthy what its burn-in found."""
    return [
        f"{report['node']} {report['verdict']}: "
        + "; ".join(check["reason"] for check in report["checks"] if check["outcome"] in ("fail", "warn"))
        for report in reports
        if report["verdict"] != "healthy"
    ]


def summary(nodes: list[dict[str, Any]]) -> str:
    """Say how the new blades ended; raise AnswerIsNo unless the faults, and only they, were found."""
    blades = [node for node in nodes if node["kind"] == "compute_blade"]
    clean = [node["name"] for node in blades if node["state"] == "ready" and not node["holds"]]
    held = [node["name"] for node in blades if node["state"] == "ready" and node["holds"]]
    faulty = [node["name"] for node in blades if node["state"] == "quarantined"]
    silent = [node["name"] for node in blades if node["reachable"] is False]
    said = (
        f"{len(clean)} of {len(blades)} blades are ready; degraded: {', '.join(held) or 'none'}; "
        f"faulty: {', '.join(faulty) or 'none'}; unreachable: {', '.join(silent) or 'none'}"
    )
    if (len(clean), len(held), len(faulty), len(silent)) != (len(blades) - 3, 1, 1, 1):
        raise AnswerIsNo(f"the demo placed three faults and expected to find just those: {said}")
    return said
