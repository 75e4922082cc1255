"""Repairs: which parts are faulty, what was done, and the step that follows. Reads and writes the ledger of parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from gpufleet import burnin
from gpufleet.boundary import Json
from gpufleet.errors import InputError
from gpufleet.nodes import (
    ATTENTION_STATES,
    REPAIR_ACTIONS,
    STATES,
    Node,
    Part,
    Placement,
    RecordedAction,
    Registry,
    RepairEntry,
)
from gpufleet.nodes.model import format_utc_time
from gpufleet.operations import node_view
from gpufleet.operations.node_change import find_actor, require_reason
from gpufleet.operations.site_file import load_recorded_rules

REPAIRS_RULE = "repairs_repeated"


@dataclass(frozen=True)
class PartStatus:
    """A part, the node that it is in, and its open faults with their next steps."""

    part: Part
    node: Node | None
    faults: tuple[burnin.OpenFault, ...]

    def as_json(self) -> Json:
        """Return the shape that ``gpufleet repairs list --json`` prints."""
        return {
            **part_as_json(self.part),
            "node": self.node.name if self.node else None,
            "node_state": self.node.state if self.node else None,
            "faults": [fault_as_json(fault) for fault in self.faults],
        }


def list_part_statuses(registry: Registry, in_node: Node | None = None) -> list[PartStatus]:
    """Return every part of the ledger, or those that are in a node now, with its node and its open faults."""
    nodes = {node.id: node for node in ([in_node] if in_node else registry.list_nodes())}
    statuses = []
    node_id = in_node.id if in_node else None
    repairs: Mapping[str, set[datetime]] = {}
    if REPAIRS_RULE not in load_recorded_rules():
        repairs = collect_node_repairs(registry.list_recorded_actions(node_id))
    for part in registry.list_parts(node_id):
        node = nodes.get(part.place.node) if part.place and part.place.node else None
        is_rented = part.kind == "instance" or bool(node and node.cloud)
        own = repairs.get(part.place.node or "", ()) if part.place else ()
        faults = burnin.find_open_faults(part.entries, is_rented=is_rented, node_repairs=own)
        statuses.append(PartStatus(part, node, tuple(faults)))
    return statuses


def collect_node_repairs(actions: Iterable[RecordedAction]) -> dict[str, set[datetime]]:
    """Return when each node was repaired; what was recorded for several of its parts at once is one repair."""
    repairs: dict[str, set[datetime]] = defaultdict(set)
    for action in actions:
        if action.action not in ("inspect", "correct"):
            repairs[action.node].add(action.at)
    return repairs


def find_part_statuses(registry: Registry, reference: str) -> list[PartStatus]:
    """Return the parts meant: one by id, serial or UUID; by a node's name the node's parts with open faults."""
    statuses = list_part_statuses(registry)
    named = [
        status for status in statuses if reference in (status.part.id, status.part.serial, status.part.uuid)
    ]
    if len(named) > 1:
        ids = ", ".join(f"{status.part.uuid or status.part.kind} ({status.part.id})" for status in named)
        raise InputError(f"{len(named)} parts have the serial {reference!r}", remedy=f"name one: {ids}")
    if named:
        return named
    try:
        node = registry.get_node(reference)
    except InputError:
        raise InputError(
            f"no part or node {reference!r}", remedy="see: gpufleet repairs list --all, gpufleet nodes list"
        ) from None
    return [status for status in statuses if status.node and status.node.id == node.id and status.faults]


def record_action(
    registry: Registry, reference: str, action: str, reason: str, actor: str | None = None
) -> list[PartStatus]:
    """Record what somebody did to a part, or to every faulty part of a node; return what is true of each then."""
    if action not in REPAIR_ACTIONS:
        raise InputError(f"unknown action {action!r}", remedy=f"actions: {', '.join(REPAIR_ACTIONS)}")
    reason, who = require_reason(reason), find_actor(actor)
    with registry.acting_as(who), registry.transaction():
        statuses = find_part_statuses(registry, reference)
        if not statuses:
            raise InputError(
                f"{reference} has no part with an open fault", remedy="name the part: its serial, UUID or id"
            )
        for status in statuses:
            registry.record_repair_action(status.part.id, action, reason, who)
        after = {status.part.id: status for status in list_part_statuses(registry)}
    return [after[status.part.id] for status in statuses]


def format_recorded_action(status: PartStatus, action: str) -> str:
    """Return the line of a recorded action, with the next step."""
    step = ", ".join(dict.fromkeys(fault.step for fault in status.faults)) or "none"
    return f"{status.part.kind} {status.part.label}: {action} recorded; next step: {step}"


def build_node_details(registry: Registry, reference: str) -> Json:
    """Return everything known of a node, with why it is out of use and what follows."""
    node = registry.get_node(reference)
    details = node_view.build_node_details(
        node, registry.list_node_values(node.id), registry.list_open_conflicts()
    )
    statuses = list_part_statuses(registry, node)
    return details | {
        "evidence": build_quarantine_evidence(registry, node),
        "repairs": [status.as_json() for status in statuses if status.faults],
    }


def build_quarantine_evidence(registry: Registry, node: Node) -> list[Json]:
    """Return what put a node out of use: the failed checks with their records, or who did it and why."""
    if not STATES[node.state].needs_attention:
        return []
    moves = [entry for entry in registry.list_node_history(node.id) if entry.new_state in ATTENTION_STATES]
    cause = next((move for move in reversed(moves) if move.old_state not in ATTENTION_STATES), None)
    if cause is None:
        return []
    results = registry.list_burn_in_results(node.id, cause.attempt) if cause.attempt else []
    failed = [
        {
            **{
                key: check.get(key)
                for key in ("name", "measured", "unit", "threshold", "threshold_source", "reason")
            },
            "attempt": result.attempt,
            "record": result.number,
            "sha256": result.digest,
        }
        for result in results[-1:]
        for check in result.report["checks"]
        if check["outcome"] == "fail"
    ]
    return failed or [
        {"name": None, "reason": cause.reason, "by": cause.actor, "at": format_utc_time(cause.at)}
    ]


def part_as_json(part: Part) -> Json:
    """Return a part's identity and place."""
    place = part.place
    return {
        "id": part.id,
        "kind": part.kind,
        "serial": part.serial,
        "uuid": part.uuid,
        "model": part.model,
        "position": place.position if place else None,
    }


def fault_as_json(fault: burnin.OpenFault) -> Json:
    """Return an open fault with its evidence and the step that follows."""
    return {
        "fault": fault.fault,
        "meaning": fault.ladder.meaning,
        "count": fault.count,
        "first_at": format_utc_time(fault.first.at),
        "last": entry_as_json(fault.last),
        "next_step": fault.step,
        "next_step_meaning": burnin.STEP_MEANINGS[fault.step],
        "rule": fault.rule or None,
        "steps": list(fault.ladder.steps),
        "source": fault.ladder.source,
    }


def entry_as_json(entry: RepairEntry) -> Json:
    """Return one line of the ledger. ``record`` is the SHA-256 of the raw records that show it."""
    return {
        "number": entry.number,
        "at": format_utc_time(entry.at),
        "event": entry.event,
        "name": entry.name,
        "node": entry.node,
        "check": entry.check,
        "measured": entry.measured,
        "threshold": entry.threshold,
        "unit": entry.unit,
        "detail": entry.detail,
        "attempt": entry.attempt,
        "record": entry.digest,
        "by": entry.actor,
    }


def build_timeline(part: Part, node_names: dict[str, str]) -> list[Json]:
    """Return a part's places and ledger as one list, by time."""
    places = [_placement_as_json(place) for place in part.placements]
    entries = [entry_as_json(entry) for entry in part.entries]
    rows = [{**row, "node": node_names.get(row["node"] or "", row["node"])} for row in (*places, *entries)]
    return sorted(rows, key=lambda row: row["at"])


def _placement_as_json(place: Placement) -> Json:
    return {
        "at": format_utc_time(place.at),
        "event": "placed" if place.node else "removed",
        "name": place.position,
        "node": place.node,
        "rack": place.rack,
        "slot": place.slot,
        "attempt": place.attempt,
    }


def build_part_details(registry: Registry, status: PartStatus) -> Json:
    """Return everything known of a part."""
    names = {node.id: node.name for node in registry.list_nodes()}
    return status.as_json() | {"timeline": build_timeline(status.part, names)}
