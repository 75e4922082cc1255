"""The registry in words: tables and folded lists for people, the stable JSON for programs. Pure but for opening."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpufleet import paths
from gpufleet.boundary.name_range import fold_names_to_ranges
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.nodes import STATES, Node, NodeHistoryEntry, Registry, SourceConflict, SourcedValue
from gpufleet.nodes.model import format_utc_time, utc_now
from gpufleet.operations.rehearsal_hint import suggest_sync
from gpufleet.remote import parse_host_patterns


def open_existing_registry() -> Registry:
    """Open the registry in use; EnvironmentFault while nothing has been synced."""
    url = paths.registry_database_url()
    if not Registry.has_registry(url):
        raise EnvironmentFault("the registry does not exist yet", hint=suggest_sync())
    return Registry(url)


@dataclass(frozen=True)
class NodeFilter:
    """Which nodes to show; unset fields match every node."""

    names: tuple[str, ...] = ()
    state: str | None = None
    rack: str | None = None
    pool: str | None = None

    def select_nodes(self, nodes: Iterable[Node]) -> list[Node]:
        """Return the nodes that pass; an unknown name is an InputError."""
        if self.state and self.state not in STATES:
            raise InputError(f"unknown state {self.state!r}", where="--state", remedy=", ".join(STATES))
        candidates = list(nodes)
        for label, requested, known_values in (
            ("rack", self.rack, {node.rack for node in candidates}),
            ("pool", self.pool, {node.pool for node in candidates}),
        ):
            if requested and requested not in known_values:
                choices = ", ".join(sorted(filter(None, known_values))) or "none"
                raise InputError(
                    f"no node of {label} {requested!r}", where=f"--{label}", remedy=f"there is: {choices}"
                )
        if self.names:
            named_ids = find_named_ids(self.names, candidates)
            candidates = [node for node in candidates if node.id in named_ids]
        return [node for node in candidates if self._passes(node)]

    def _passes(self, node: Node) -> bool:
        criteria = ((self.state, node.state), (self.rack, node.rack), (self.pool, node.pool))
        return all(expected in (None, has) for expected, has in criteria)


def find_named_ids(names: Sequence[str], nodes: Iterable[Node]) -> set[str]:
    """Return the ids of the nodes that patterns of names or ids mean; InputError for names of no node."""
    ids: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        ids[node.name].add(node.id)
        ids[node.id].add(node.id)
    pattern = parse_host_patterns(names)
    if strangers := pattern.names - ids.keys():
        state = next((name for name in strangers if name in STATES), None)
        remedy = f"for the nodes in that state: --state {state}" if state else "see: gpufleet nodes list"
        raise InputError(f"no node {fold_names_to_ranges(strangers)}", remedy=remedy)
    return pattern.combine(ids.__getitem__)


def build_node_details(
    node: Node, values: Sequence[SourcedValue], conflicts: Sequence[SourceConflict]
) -> dict[str, Any]:
    """Return everything known of a node: each value with its source, time and age."""
    current_time = utc_now()
    return {
        **node.as_json(),
        "state_since": format_utc_time(node.state_since),
        "state_reason": node.state_reason,
        "serial": node.serial,
        "instance_id": node.instance_id,
        "account": node.account,
        "machine": node.machine,
        "missing": node.is_missing,
        "reachable_at": format_utc_time(node.reachable_at) if node.reachable_at else None,
        "reachable_detail": node.reachable_detail,
        "hold_reasons": {hold.kind: hold.reason for hold in node.holds},
        "conflicts": [conflict.detail for conflict in conflicts if node.id in conflict.nodes],
        "values": [
            {
                "key": value.key,
                "value": value.value,
                "source": value.source,
                "observed_at": format_utc_time(value.observed_at),
                "age": format_age(value.observed_at, current_time),
            }
            for value in values
        ],
    }


"""Columns are aligned up to here: one value that is a whole report shall not push all ages off the screen."""


def list_former_namesake_notes(registry: Registry, node_reference: str) -> list[str]:
    """Return a line for each other node that had the name before: its history is kept under its id."""
    node = registry.get_node(node_reference)
    namesakes = [
        other_node
        for other_node in registry.list_nodes()
        if other_node.name == node.name and other_node.id != node.id
    ]
    return [
        f"another node had the name {namesake.name}: {namesake.id}, {namesake.state} since"
        f" {format_utc_time(namesake.state_since)}; gpufleet nodes history {namesake.id}"
        for namesake in namesakes
    ]


def sort_history_by_time(entries: Iterable[NodeHistoryEntry]) -> list[NodeHistoryEntry]:
    """Return changes sorted by time: a run that is ingested late is recorded after newer changes."""
    return sorted(entries, key=lambda change: (change.at, change.number))


def history_entry_as_json(change: NodeHistoryEntry) -> dict[str, Any]:
    """Return a line of history as JSON."""
    return {
        "at": format_utc_time(change.at),
        "event": change.event,
        "from": change.old_state,
        "to": change.new_state,
        "reason": change.reason,
        "attempt": change.attempt,
        "by": change.actor,
    }


def format_age(observed_at: datetime, at: datetime) -> str:
    """Return how old a value is, in its largest unit: ``40s``, ``12m``, ``5h``, ``3d``."""
    seconds = max(0, int((at - observed_at).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
