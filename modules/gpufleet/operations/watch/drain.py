"""Keep jobs from a node, and let them in again: Slurm, Kubernetes, or a site's own commands.

Exit codes say little (Slurm 22.05 changes all known nodes of a list and exits 1): the state is read again after each
change, and decides. Only what carries our own mark is resumed: what a person drained stays a person's.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gpufleet.boundary import NODE_REPORT, NotJsonError, decode_json, make_printable
from gpufleet.errors import InputError
from gpufleet.operations.watch.policy import DrainHook

PREFIX = "gpufleet: "
"""How the reason of a drained node begins that is ours."""
ANNOTATION = "gpufleet/out-of-use"
MAX_REASON = 200  # Slurm keeps 300 characters (22.05.8)
MAX_OUTPUT = 1 << 20
SAFE_NODE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
EVERY_NODE = "all"  # Slurm takes this name for every node
DrainState = Literal["drained", "in_use", "foreign"]


class DrainError(Exception):
    """Why a node could not be drained or resumed, in a line."""


@dataclass(frozen=True)
class SchedulerNode:
    """A node as its scheduler has it: ``drained`` by us, ``foreign``: by somebody else, or ``in_use``."""

    state: DrainState
    detail: str = ""


def drain_node(hook: DrainHook, node: str, reason: str) -> SchedulerNode:
    """Keep new jobs from a node; return its state as read afterwards, DrainError unless it is drained then."""
    name = _check_name(node)
    text = make_printable(f"{PREFIX}{reason}", MAX_REASON)
    scheduler = SCHEDULERS[hook.hook]
    before = scheduler.read(hook, name)
    if before.state != "in_use":
        return before  # a new reason would replace a person's
    problem = _try_commands(hook, scheduler.list_drain_commands(hook, name, text))
    after = scheduler.read(hook, name)
    if after.state == "in_use":
        raise DrainError(f"{name} is still in use: {problem or after.detail}")
    return after


def resume_node(hook: DrainHook, node: str) -> SchedulerNode:
    """Let jobs in again where it was us who kept them out; DrainError unless the node is in use afterwards."""
    name = _check_name(node)
    scheduler = SCHEDULERS[hook.hook]
    before = scheduler.read(hook, name)
    if before.state != "drained":
        return before
    problem = _try_commands(hook, scheduler.list_resume_commands(hook, name))
    after = scheduler.read(hook, name)
    if after.state == "drained":
        raise DrainError(f"{name} is still drained: {problem or after.detail}")
    return after


def _check_name(node: str) -> str:
    if SAFE_NODE.fullmatch(node) is None or node.lower() == EVERY_NODE:
        raise DrainError(f"{make_printable(node, 60)!r} is not a name that a scheduler takes for one node")
    return node


def run_command(hook: DrainHook, argv: Sequence[str]) -> str:
    """Return what a command printed; DrainError where it fails, with the first line of its reason."""
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=hook.seconds, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise DrainError(f"{argv[0]} did not end within {hook.seconds:g} s") from None
    except OSError as error:
        raise DrainError(f"{argv[0]}: {error.strerror}") from None
    if len(done.stdout) > MAX_OUTPUT:
        raise DrainError(f"{argv[0]} printed more than {MAX_OUTPUT:,} bytes")
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise DrainError(
            make_printable(f"{argv[0]}: {lines[0] if lines else f'exit code {done.returncode}'}", 200)
        )
    return done.stdout.decode("utf-8", "replace")


def _try_commands(hook: DrainHook, commands: Sequence[Sequence[str]]) -> str:
    """Run commands until one fails; return what it said, which the state read afterwards may contradict."""
    for argv in commands:
        try:
            run_command(hook, argv)
        except DrainError as error:
            return str(error)
    return ""


# Slurm: states and reasons as `scontrol show node` prints them (22.05 has no JSON there)

SLURM_STATE = re.compile(r"(?:^|\s)State=([A-Z_+*$~#!%@^-]+)")
SLURM_REASON = re.compile(r"^\s*Reason=(.*)$", re.MULTILINE)


def read_slurm_node(hook: DrainHook, node: str) -> SchedulerNode:
    """Return a node's state in Slurm."""
    text = run_command(hook, ["scontrol", "show", "node", node])
    state, reason = SLURM_STATE.search(text), SLURM_REASON.search(text)
    if state is None:
        raise DrainError(f"scontrol shows no state of {node}")
    detail = make_printable(state[1], 100)
    if "DRAIN" not in state[1]:
        return SchedulerNode("in_use", detail)
    is_ours = reason is not None and reason[1].startswith(PREFIX)
    return SchedulerNode("drained" if is_ours else "foreign", detail)


def _drain_slurm(_hook: DrainHook, node: str, reason: str) -> list[list[str]]:
    return [["scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}"]]


def _resume_slurm(_hook: DrainHook, node: str) -> list[list[str]]:
    return [["scontrol", "update", f"NodeName={node}", "State=RESUME"]]


# Kubernetes: cordoned, with an annotation of ours that says why


def read_kubernetes_node(hook: DrainHook, node: str) -> SchedulerNode:
    """Return a node's state in Kubernetes, whose names are in lower case."""
    text = run_command(hook, ["kubectl", "get", "node", node.lower(), "-o", "json"])
    try:
        document = decode_json(text, "kubectl get node", NODE_REPORT)
    except (InputError, NotJsonError) as error:
        raise DrainError(str(error)) from None
    fields = document if isinstance(document, dict) else {}
    spec, metadata = fields.get("spec"), fields.get("metadata")
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        raise DrainError(f"kubectl shows no node {node}")
    if spec.get("unschedulable") is not True:
        return SchedulerNode("in_use", "schedulable")
    notes = metadata.get("annotations")
    is_ours = isinstance(notes, dict) and str(notes.get(ANNOTATION, "")).startswith(PREFIX)
    return SchedulerNode("drained" if is_ours else "foreign", "cordoned")


def _drain_kubernetes(_hook: DrainHook, node: str, reason: str) -> list[list[str]]:
    """Mark first: a cordoned node without the mark would look like a person's."""
    name = node.lower()
    return [
        ["kubectl", "annotate", "node", name, "--overwrite", f"{ANNOTATION}={reason}"],
        ["kubectl", "cordon", name],
    ]


def _resume_kubernetes(_hook: DrainHook, node: str) -> list[list[str]]:
    name = node.lower()
    return [["kubectl", "uncordon", name], ["kubectl", "annotate", "node", name, f"{ANNOTATION}-"]]


# A site's own commands


def read_command_node(hook: DrainHook, node: str) -> SchedulerNode:
    """Return what a site's own command says of a node."""
    text = run_command(hook, _fill(hook.state, node)).strip()
    for state in ("drained", "in_use", "foreign"):
        if text == state:
            return SchedulerNode(state, text)
    raise DrainError(
        f"{hook.state[0]} printed {make_printable(text, 40)!r}, expected drained, in_use or foreign"
    )


def _fill(command: Sequence[str], node: str, reason: str = "") -> list[str]:
    return [part.replace("{node}", node).replace("{reason}", reason) for part in command]


@dataclass(frozen=True)
class Scheduler:
    """How one scheduler's nodes are read and changed."""

    read: Callable[[DrainHook, str], SchedulerNode]
    list_drain_commands: Callable[[DrainHook, str, str], Sequence[Sequence[str]]]
    list_resume_commands: Callable[[DrainHook, str], Sequence[Sequence[str]]]


SCHEDULERS = {
    "slurm": Scheduler(read_slurm_node, _drain_slurm, _resume_slurm),
    "kubernetes": Scheduler(read_kubernetes_node, _drain_kubernetes, _resume_kubernetes),
    "command": Scheduler(
        read_command_node,
        lambda hook, node, reason: [_fill(hook.drain, node, reason)],
        lambda hook, node: [_fill(hook.resume, node)],
    ),
}
