"""What earlier burn-ins of a node saw, for the rules over time: read from the registry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from gpufleet.burnin.event_rule import load_event_rules
from gpufleet.burnin.xid_rule import EventHistory, PartRepair
from gpufleet.nodes import BurnInResult, RecordedAction, Registry
from gpufleet.operations.site_thresholds import build_site_history

# A result is recorded after its kernel log was read: at the end of an attempt, which may last a day.
_SLACK = timedelta(days=1)


def find_window() -> timedelta:
    """Return how far back results may matter to a rule over time."""
    return timedelta(hours=max(rule.within_h for rule in load_event_rules())) + _SLACK


class NodeHistories:
    """The results and repairs of nodes, read from the registry at once."""

    def __init__(self, results: Iterable[BurnInResult], actions: Iterable[RecordedAction]) -> None:
        self._results: dict[str, dict[str, BurnInResult]] = defaultdict(dict)
        self._repairs: dict[str, list[PartRepair]] = defaultdict(list)
        for result in sorted(results, key=lambda result: result.number):
            # A stored new judgement repeats the records of a measurement: its first place counts.
            self._results[result.node].setdefault(result.digest, result)
        for action in actions:
            repair = PartRepair(action.identity, action.action, action.at.timestamp())
            self._repairs[action.node].append(repair)

    def build_history(self, node: str, records: Sequence[Any], digest: str, at: datetime) -> EventHistory:
        """Return what was known when a node's records were recorded: nothing that came after them."""
        measured = self._results[node].get(digest)
        at = measured.recorded_at if measured else at
        earlier = [
            result
            for result in self._results[node].values()
            if at - find_window() <= result.recorded_at <= at
            and result.digest != digest
            and (measured is None or result.number < measured.number)
        ]
        repairs = [repair for repair in self._repairs[node] if repair.at <= at.timestamp()]
        return build_site_history(records, [result.records for result in earlier], repairs)


def load_node_history(registry: Registry, node: str, records: Sequence[Any], at: datetime) -> EventHistory:
    """Return what the registry knows beside records of a node that arrive now."""
    results = registry.list_burn_in_results(node, since=at - find_window())
    actions = registry.list_recorded_actions(node) if results else ()
    return NodeHistories(results, actions).build_history(node, records, "", at)
