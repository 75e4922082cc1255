"""Values of two nodes side by side, and what changed at a fleet's nodes since a moment.

Which values tell nodes apart, and which change by themselves, is a table: ``data/node_values.csv``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from gpufleet.boundary import read_table
from gpufleet.nodes import Node, Registry
from gpufleet.nodes.fact_log import RecordedFacts
from gpufleet.nodes.model import format_utc_time, latest_values_by_key
from gpufleet.operations.node_view import NodeFilter
from gpufleet.operations.text.node_view import format_value
from gpufleet.remote import parse_probe_answer
from gpufleet.text_table import align_columns

ValueClass = Literal["identity", "routine", "action"]
IDENTITY_PARTS = ("uuid", "serial", "bus", "address", "name")
"""What tells equal parts of a list apart: a card's UUID, a drive's device name."""
LONGEST_VALUE = 60
ACTION: Final = "action"
ROUTINE: Final = "routine"


@dataclass(frozen=True)
class NodeValueRule:
    """How a value of the registry is to be read: an identity differs between nodes, a routine value by itself."""

    key: str
    kind: ValueClass
    reason: str


class ValueDifference(NamedTuple):
    """A key with the values on both sides, None where a side has none."""

    key: str
    before: Any
    after: Any


@dataclass(frozen=True)
class NodeEvent:
    """Something that happened to a node: a line of its history, or values that it reported differently."""

    at: datetime
    node: str
    event: str
    detail: str
    kind: ValueClass

    def as_json(self) -> dict[str, Any]:
        """Return the event for programs."""
        return {
            "at": format_utc_time(self.at),
            "node": self.node,
            "event": self.event,
            "detail": self.detail,
            "kind": self.kind,
        }


@cache
def load_value_rules() -> Mapping[str, NodeValueRule]:
    """Return the rules by key."""
    return {
        rule.key: rule for rule in read_table(NodeValueRule, "gpufleet.operations", "data/node_values.csv")
    }


def classify_value(key: str) -> ValueClass:
    """Return what a difference of a value means; a key that is not in the table asks for a look."""
    rule = load_value_rules().get(key.partition(".")[2] or key)
    return rule.kind if rule else ACTION


def compare_nodes(
    registry: Registry, first: str, second: str, *, every_value: bool = False
) -> list[ValueDifference]:
    """Return the values that differ between two nodes, without what tells them apart unless ``every_value``."""
    sides = [latest_values_by_key(registry.list_node_values(name)) for name in (first, second)]
    return find_differences(*sides, every_value=every_value)


def compare_with_past(registry: Registry, node: str, since: datetime) -> list[ValueDifference]:
    """Return the values that a node reports differently from the last answer that it gave before a moment."""
    answers = registry.list_facts([node])
    if not answers:
        return []
    before = [answer for answer in answers if answer.first_at <= since] or answers[:1]
    return find_differences(_read_answer(before[-1]), _read_answer(answers[-1]), every_value=True)


def find_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], *, every_value: bool = False
) -> list[ValueDifference]:
    """Return the keys whose values differ, by key; lists are compared without what tells their parts apart."""
    differences = []
    for key in sorted({*before, *after}):
        if not every_value and classify_value(key) == "identity":
            continue
        old, new = before.get(key), after.get(key)
        if (old, new) != (None, None) and _comparable(old, every_value) != _comparable(new, every_value):
            differences.append(ValueDifference(key, old, new))
    return differences


def _comparable(value: Any, is_exact: bool) -> Any:
    return value if is_exact else summarize_value(value)


def summarize_value(value: Any) -> str:
    """Return a value in a few words: a list of parts as the number of each kind."""
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        kinds = Counter(_describe_part(item) for item in value)
        return ", ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in sorted(kinds.items()))
    return format_value(value)


def _describe_part(part: Mapping[str, Any]) -> str:
    shown = {
        key: value
        for key, value in part.items()
        if key not in IDENTITY_PARTS or (key == "name" and "uuid" in part)
    }
    return " ".join(
        format_value(value) for value in shown.values() if value not in ("", None)
    ) or format_value(part)


def format_difference_lines(differences: Sequence[ValueDifference], first: str, second: str) -> list[str]:
    """Return the differences as a table, or the line that there is none."""
    if not differences:
        return [f"{first} and {second}: no value differs"]
    rows = [(item.key, summarize_value(item.before), summarize_value(item.after)) for item in differences]
    return align_columns(("VALUE", first.upper(), second.upper()), rows)


def list_changes(registry: Registry, since: datetime, node_filter: NodeFilter) -> list[NodeEvent]:
    """Return what happened to the nodes since a moment, oldest first: history, and answers that differ."""
    nodes = {node.id: node for node in node_filter.select_nodes(registry.list_nodes())}
    events = [
        NodeEvent(entry.at, nodes[entry.node].name, entry.event, _describe_entry(entry), ACTION)
        for entry in registry.list_history_since(since)
        if entry.node in nodes
    ]
    events += _list_changed_answers(nodes, registry.list_facts(changed_since=since), since)
    return sorted(events, key=lambda event: (event.at, event.node))


def _describe_entry(entry: Any) -> str:
    moved = f"{entry.old_state or '(new)'} -> {entry.new_state}: " if entry.new_state else ""
    return f"{moved}{entry.reason}" + (f" (by {entry.actor})" if entry.actor else "")


def _list_changed_answers(
    nodes: Mapping[str, Node], answers: Iterable[RecordedFacts], since: datetime
) -> Iterator[NodeEvent]:
    by_node: dict[str, list[RecordedFacts]] = defaultdict(list)
    for answer in answers:
        if answer.node in nodes:
            by_node[answer.node].append(answer)
    for node_id, given in by_node.items():
        for before, after in pairwise(given):
            if after.first_at < since:
                continue
            for item in find_differences(_read_answer(before), _read_answer(after), every_value=True):
                text = f"{item.key}: {summarize_value(item.before)} -> {summarize_value(item.after)}"
                kind = classify_value(item.key)
                yield NodeEvent(after.first_at, nodes[node_id].name, "facts", text, kind)


def _read_answer(answer: RecordedFacts) -> dict[str, Any]:
    facts = parse_probe_answer(answer.text)
    return facts.list_reported_values() | ({"serial": facts.serial} if facts.serial else {})


def format_event_lines(events: Sequence[NodeEvent], *, with_routine: bool) -> list[str]:
    """Return the events as a table; routine ones are only counted unless asked for."""
    shown = [event for event in events if with_routine or event.kind != ROUTINE]
    routine = len(events) - len(shown)
    lines = (
        align_columns(
            ("AT", "NODE", "EVENT", "DETAIL"),
            [
                (format_utc_time(event.at)[:16].replace("T", " "), event.node, event.event, event.detail)
                for event in shown
            ],
        )
        if shown
        else ["nothing changed"]
    )
    return lines + ([f"and {routine} routine changes: --all"] if routine else [])
