"""Ends a node's life: drained, its drives wiped with proof, its name and keys forgotten.

Wiping is two runs of the playbook ``retire``: the first only plans; the second wipes what that plan lists, after a
person has typed the node's serial. What was done is kept in the node's history and as a certificate; a wipe that was
begun and never ended is reported, because then it is unknown what is left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from gpufleet import boundary, paths, remote
from gpufleet.errors import CheckFailed, EnvironmentFault, InputError
from gpufleet.nodes import STATES, Node, Registry, wipe_evidence, wipe_plan
from gpufleet.nodes.model import format_utc_time, utc_now
from gpufleet.operations import export, node_probe
from gpufleet.operations.text.retire import (
    describe_remaining_declaration,
    format_node_location,
    format_wipe_plan_lines,
)

BEGUN, ENDED, NOT_ENDED = "wipe_begun", "wiped", "wipe_failed"

Run = Callable[[Node, dict[str, Any]], remote.RunOutcome]


@dataclass(frozen=True)
class RetireInteraction:
    """How to run the play, prompt a person and report; ``can_ask`` is False without a terminal."""

    run_play: Run
    prompt: Callable[[str], str]
    report: Callable[[str], None]
    can_ask: bool = True


@dataclass(frozen=True)
class RetireRequest:
    """What to retire and how; ``confirm`` is the serial, ``yes`` the answer, where they are given beforehand."""

    node: str
    reason: str
    wipe: bool = False
    confirm: str | None = None
    method: str = "auto"
    force: bool = False
    yes: bool = False


@dataclass
class RetireResult:
    """Result of retiring a node."""

    node: Node
    lines: list[str] = field(default_factory=list)
    certificate: Path | None = None
    evidence: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the stable shape that ``gpufleet nodes retire --json`` prints."""
        return {
            "node": self.node.name,
            "id": self.node.id,
            "serial": self.node.serial,
            "state": "retired",
            "certificate": str(self.certificate) if self.certificate else None,
            "wiped": [drive["path"] for drive in (self.evidence or {}).get("evidence", [])],
        }


def retire_node(registry: Registry, request: RetireRequest, interaction: RetireInteraction) -> RetireResult:
    """Retire one node: refuse, drain, wipe where asked, deregister."""
    validate_retire_request(request)
    node = registry.get_node(request.node)
    check_node_is_retirable(node, request)
    if unfinished_since := find_unfinished_wipe_start(registry, node):
        interaction.report(
            f"an earlier wipe of {node.name} began at {unfinished_since} and may not have finished"
        )
    result = RetireResult(node)
    plan = plan_and_confirm_wipe(node, request, interaction) if request.wipe else None
    if plan is None:
        confirm_retirement(node, request, interaction)
    # Before the first drive: no job may be placed on a node that loses its disks.
    drain_node_if_needed(registry, node, request)
    if plan is not None:
        result.evidence = wipe_drives(registry, node, request, interaction, plan)
    finish_retirement(registry, node, request, result)
    return result


def validate_retire_request(request: RetireRequest) -> None:
    """Raise InputError for a contradictory request, before any host is contacted."""
    if not request.reason.strip():
        raise InputError(
            "is empty",
            where="--reason",
            remedy="give a reason; it is stored in the history and the certificate",
        )
    wipe_plan.check_wipe_method(request.method)
    if request.yes and request.wipe:
        raise InputError("--yes does not confirm --wipe", where="--yes", remedy="give --confirm SERIAL")
    for option, is_given in (
        ("--confirm", request.confirm is not None),
        ("--method", request.method != "auto"),
    ):
        if is_given and not request.wipe:
            raise InputError(
                "this option needs --wipe", where=option, remedy=f"add --wipe, or remove {option}"
            )


def check_node_is_retirable(node: Node, request: RetireRequest) -> None:
    """Raise an error for nodes that can't be retired: rented machines, busy nodes, retired nodes."""
    if node.state == "retired":
        raise InputError(
            f"retired since {format_utc_time(node.state_since)}",
            where=node.name,
            remedy="nothing is left to do",
        )
    if node.cloud and not node.is_missing:
        where = f"pools ({node.pool})" if node.pool else "the stack"
        hint = f"lower its count in {where}, then pulumi up and gpufleet nodes sync; the provider erases its disks"
        raise CheckFailed(
            f"{node.name} is rented from {node.cloud}: the pool's count must go down", hint=hint
        )
    if node.cloud and request.wipe:
        raise InputError("only the provider can erase rented disks", where=node.name, remedy="remove --wipe")
    state = STATES[node.state]
    if state.is_busy and "retired" not in state.next_states and not request.force:
        remedy = "drain it first: gpufleet nodes state NODE draining --reason ...; or --force"
        raise InputError(
            f"the node is {node.state}, so a job may be running on it", where=node.name, remedy=remedy
        )
    if request.wipe and not node.serial:
        remedy = "commission the node, or set its serial in the rack file"
        raise InputError(
            "the node cannot be wiped: its serial, which confirms a wipe, is unknown",
            where=node.name,
            remedy=remedy,
        )


def confirm_retirement(node: Node, request: RetireRequest, interaction: RetireInteraction) -> None:
    """Ask a person to type the node's name; InputError for another name, or without a terminal."""
    if request.yes:
        return
    if not interaction.can_ask:
        raise InputError(
            "retiring a node cannot be undone", where=node.name, remedy="add --yes, or run it in a terminal"
        )
    typed = interaction.prompt(f"{node.name} is {node.state}; type its name to retire it: ")
    if typed.strip() != node.name:
        raise InputError(
            f"{typed!r} is not the node's name: nothing was changed",
            where=node.name,
            remedy="type the name, or add --yes",
        )


def find_unfinished_wipe_start(registry: Registry, node: Node) -> str:
    """Return when a wipe began that no line of history ends, or nothing."""
    begun = ""
    for line in registry.list_node_history(node.id):
        if line.event in (BEGUN, ENDED, NOT_ENDED):
            begun = format_utc_time(line.at) if line.event == BEGUN else ""
    return begun


def build_wipe_variables(request: RetireRequest) -> dict[str, Any]:
    """Return the variables that the plan and the wipe share."""
    return {"wipe_method": request.method, "wipe_force": request.force}


def plan_and_confirm_wipe(
    node: Node, request: RetireRequest, interaction: RetireInteraction
) -> dict[str, Any]:
    """Plan, report the plan and have the serial typed; return the plan. Nothing is changed on the node."""
    planned = get_reported_facts(
        interaction.run_play(node, build_wipe_variables(request)), "wipe_planned", node
    )
    plan: dict[str, Any] = planned["plan"]
    for line in format_wipe_plan_lines(node, planned):
        interaction.report(line)
    check_wipe_plan(node, planned, request)
    typed = (
        request.confirm
        if request.confirm is not None
        else interaction.prompt(f"type the serial of {node.name} to wipe it: ")
    )
    if typed != node.serial:
        problem = f"{typed!r} is not the node's serial: nothing was changed"
        raise InputError(
            problem,
            where=node.name,
            key="--confirm",
            remedy="type the serial that the plan shows; without a terminal give --confirm SERIAL",
        )
    return plan


def wipe_drives(
    registry: Registry,
    node: Node,
    request: RetireRequest,
    interaction: RetireInteraction,
    plan: Mapping[str, Any],
) -> dict[str, Any]:
    """Wipe the drives of a confirmed plan; return the evidence."""
    drives = ", ".join(f"{drive['path']} {drive['serial']}" for drive in plan["drives"])
    registry.add_history_entry_once(node.id, BEGUN, f"plan {plan['id']}: {drives}; {request.reason}")
    confirmation = {"wipe_confirm": node.serial, "wipe_plan_id": plan["id"]}
    outcome = interaction.run_play(node, build_wipe_variables(request) | confirmation)
    return record_wipe_evidence(registry, node, outcome, plan)


def check_wipe_plan(node: Node, planned: Mapping[str, Any], request: RetireRequest) -> None:
    """Raise CheckFailed if a job runs there, or if no drive can be wiped."""
    jobs = planned["jobs"]
    if jobs and not request.force:
        hint = "wait until the jobs finish, or add --force"
        raise CheckFailed(f"{node.name} runs jobs: {', '.join(jobs)}; nothing was changed", hint=hint)
    if not planned["plan"]["drives"]:
        hint = "the reasons are above; booted from the network, a node can wipe the drive that it normally boots from"
        raise CheckFailed(f"no drive of {node.name} can be wiped; nothing was changed", hint=hint)


def record_wipe_evidence(
    registry: Registry, node: Node, outcome: remote.RunOutcome, plan: Mapping[str, Any]
) -> dict[str, Any]:
    """Store the evidence in the node's history; raise CheckFailed if a drive was not wiped."""
    try:
        evidence = get_reported_facts(outcome, "wiped", node)
        wipe_evidence.check_wipe_evidence(evidence, plan, node.name)
    except (EnvironmentFault, InputError) as error:
        hint = "run the same command again: drives that are done are not wiped twice"
        raise CheckFailed(f"{error.message}; what is left on its drives is unknown", hint=hint) from None
    unwiped = [drive for drive in evidence["evidence"] if not drive["wiped"]]
    registry.add_history_entry_once(
        node.id, NOT_ENDED if unwiped else ENDED, json.dumps(evidence, sort_keys=True)
    )
    if unwiped:
        reasons = "; ".join(f"{drive['path']}: {drive['reason']}" for drive in unwiped)
        raise CheckFailed(
            f"{node.name} is not wiped: {reasons}", hint="the evidence: gpufleet nodes history NODE"
        )
    return evidence


def get_reported_facts(outcome: remote.RunOutcome, event_name: str, node: Node) -> dict[str, Any]:
    """Return what the play reported; EnvironmentFault, with Ansible's reason, where it did not come that far."""
    reports = [entry["facts"] for entry in outcome.reports if entry.get("event") == event_name]
    if reports:
        return dict(reports[-1])
    reason = next((host.reason for host in outcome.hosts if host.reason), "") or "; ".join(outcome.errors)
    hint = f"artifacts: {outcome.artifacts}"
    raise EnvironmentFault(
        f"{node.name} did not report {event_name}: {reason or 'no reason given'}", hint=hint
    )


def drain_node_if_needed(registry: Registry, node: Node, request: RetireRequest) -> None:
    """Move a node to ``draining`` if it may not be retired from its state."""
    state = registry.get_node(node.id).state
    if "retired" not in STATES[state].next_states:
        registry.move_node(node.id, "draining", f"to be retired: {request.reason}")


def finish_retirement(registry: Registry, node: Node, request: RetireRequest, result: RetireResult) -> None:
    """Write the certificate, forget keys and address, and end the node's life in the registry."""
    home = paths.state_home()
    if result.evidence:
        result.certificate = write_wipe_certificate(home, node, request, result.evidence)
        result.lines.append(f"certificate: {result.certificate}")
    forgotten = remove_host_keys(home, node)
    registry.retire_node(node.id, request.reason)
    result.lines.append(f"{node.name}: retired{f', forgotten: {forgotten}' if forgotten else ''}")
    if declared := describe_remaining_declaration(node):
        result.lines.append(declared)


def remove_host_keys(state_home: Path, node: Node) -> str:
    """Remove the node's host key from known_hosts, and the one that was made for it."""
    known_hosts = node_probe.find_ssh_login(home=state_home).known_hosts[0]
    removed = []
    hosts = {name for name in (node.address, node.name) if name}
    if known_hosts.is_file():
        lines = known_hosts.read_text().splitlines()
        remaining = [line for line in lines if not line.split() or line.split()[0] not in hosts]
        if remaining != lines:
            export.write_file_atomically(known_hosts, "".join(f"{line}\n" for line in remaining), 0o600)
            removed.append(f"{len(lines) - len(remaining)} lines of {known_hosts}")
    key_file = state_home / "ssh" / "host_keys" / (node.rack or "-") / node.name
    if key_file.is_file():
        key_file.unlink()
        removed.append("its host key")
    return ", ".join(removed)


def write_wipe_certificate(
    state_home: Path, node: Node, request: RetireRequest, evidence: Mapping[str, Any]
) -> Path:
    """Write what was wiped, how and with what result, as a document of its own."""
    moment = utc_now()
    text = {
        "certificate": "wiped drives",
        "node": {
            "name": node.name,
            "id": node.id,
            "serial": node.serial,
            "place": format_node_location(node),
        },
        "machine": node.machine,
        "reason": request.reason,
        "at": format_utc_time(moment),
        "complete": evidence["complete"],
        "plan": evidence["plan"],
        "drives": evidence["evidence"],
        "left_alone": evidence["refused"],
        "fake": any(drive.get("fake") for drive in evidence["evidence"]),
    }
    folder = state_home / "certificates"
    safe = re.sub(r"[^A-Za-z0-9-]", "-", f"{node.name}-{node.serial}")
    path = folder / f"{safe}-{moment:%Y%m%dT%H%M%SZ}.json"
    with boundary.convert_write_errors(str(path)):
        paths.ensure_private_folder(folder)
        export.write_file_atomically(path, json.dumps(text, indent=2) + "\n", 0o600)
    return path


def make_wipe_runner(root: Path, stream: TextIO) -> Run:
    """Return a function that runs the play on one node."""

    def run_wipe_play(node: Node, variables: dict[str, Any]) -> remote.RunOutcome:
        plan = remote.plan_playbook_run(root, "retire", node.name)
        if not plan.hosts:
            raise InputError(
                "the node is not in the Ansible inventory", where=node.name, remedy="gpufleet nodes sync"
            )
        return remote.run_playbook(plan, extra_vars=variables, stream=stream)

    return run_wipe_play
