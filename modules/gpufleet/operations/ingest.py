"""Folds what playbook runs report into the registry: the same way live and from a run's artifacts.

Telling it twice changes nothing: older news than the registry has is left out, a result is known by its
content, and an attempt that has ended or was overtaken moves nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from gpufleet import paths
from gpufleet.errors import AnswerIsNo, InputError
from gpufleet.nodes import NEW_STATES, Identity, Node, Observation, Registry
from gpufleet.operations.events import TaskEvent, read_artifacts
from gpufleet.operations.sync import declare_racks
from gpufleet.remote import with_next_step

BASE = "base"
"""The part of the configuration that every node has."""
_STILL_THERE = timedelta(seconds=15)
"""A host that keeps answering is noted this often: every task would be a write."""


@dataclass
class Applied:
    """What came of the events, by host."""

    events: int = 0
    unreachable: dict[str, str] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the account for programs."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Give the account in words."""
        yield f"{self.events} events"
        yield from (f"{node}: {verdict}" for node, verdict in self.verdicts.items())
        yield from (f"{host}: unreachable: {why}" for host, why in self.unreachable.items())
        yield from (f"ignored: {what}" for what in self.ignored)
        yield from (f"conflict: {what}" for what in self.conflicts)

    def raise_for_unknown(self) -> None:
        """Answer no where the run had hosts that the registry does not know."""
        if self.unknown:
            hint = "gpufleet nodes sync -s STACK, then ingest again"
            raise AnswerIsNo(f"not in the registry: {', '.join(self.unknown)}", hint=hint)


class Ingest:
    """Folds events one at a time, each into the registry at once: a killed run loses at most its last task.

    ``declare`` is called once when a host is not registered yet; it may register the racks as of a moment.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        rehearsal: bool = False,
        declare: Callable[[datetime], object] | None = None,
    ) -> None:
        self.registry = registry
        self.rehearsal = rehearsal
        self.applied = Applied()
        self._declare = declare
        self._answered: dict[str, datetime] = {}
        self._known: dict[str, str] = {}

    @classmethod
    def of_project(cls, registry: Registry, root: Path) -> Ingest:
        """Return one for a project's own runs: in a rehearsal its stack's racks are declared, else all."""
        stack = os.environ.get("GPUFLEET_REHEARSAL") or None
        declare = partial(declare_racks, registry, root, stack)
        return cls(registry, rehearsal=bool(stack), declare=declare)

    def apply_all(self, events: Iterable[TaskEvent]) -> Applied:
        """Fold events in as a stream."""
        for event in events:
            self.apply(event)
        return self.applied

    def apply(self, event: TaskEvent) -> None:
        """Fold one event in."""
        self.applied.events += 1
        handler = _HANDLERS.get(str(event.report.get("event")))
        if handler is None and self._tells_nothing(event):
            return
        node = self._node(event)
        if node is None:
            return
        self._known[event.host] = node
        if event.outcome == "unreachable":
            self._answered.pop(node, None)
            self.applied.unreachable[event.host] = event.message
            why = with_next_step(event.message) or "no answer"
            self.registry.set_reachable(node, False, event.at, why)
            return
        if event.touched:
            self._answers(node, event.at)
        if handler:
            handler(self, node, event)
            self._known.clear()  # a report may join two nodes into one

    def _tells_nothing(self, event: TaskEvent) -> bool:
        """Say whether the registry has it already: it is asked once a host, not once a task."""
        if event.outcome == "unreachable" or event.host not in self._known:
            return False
        last = self._answered.get(self._known[event.host])
        return not event.touched or (last is not None and event.at - last < _STILL_THERE)

    def _node(self, event: TaskEvent) -> str | None:
        """Return how the registry calls a host; hosts that share a name carry their id behind it."""
        host = event.host
        own = re.search(r"-(n-[0-9a-f]{12})$", host)
        who = own[1] if own else host
        for last in (self._declare is None, True):
            try:
                return self.registry.get(who).id
            except InputError:
                if last:
                    break
            declare, self._declare = self._declare, None
            if declare:
                declare(event.started_at)
        if host not in self.applied.unknown:
            self.applied.unknown.append(host)
        return None

    def _answers(self, node: str, at: datetime) -> None:
        last = self._answered.get(node)
        if last is None or at - last >= _STILL_THERE:
            self.registry.set_reachable(node, True, at)
            self._answered[node] = at


def run(artifacts: Path) -> Applied:
    """Fold a run's artifacts into the registry of the project we are in."""
    root = paths.project_root()
    with Registry(paths.database_url(root)) as registry:
        return Ingest.of_project(registry, root).apply_all(read_artifacts(artifacts))


def apply(
    registry: Registry,
    events: Iterable[TaskEvent],
    *,
    rehearsal: bool = False,
    declare: Callable[[datetime], object] | None = None,
) -> Applied:
    """Fold events into the registry, as a stream."""
    return Ingest(registry, rehearsal=rehearsal, declare=declare).apply_all(events)


def _commissioned(ingest: Ingest, who: str, event: TaskEvent) -> None:
    """Note that the node answered and said who it is; a new one goes on to commissioning."""
    registry, node = ingest.registry, ingest.registry.get(who)
    facts = _mapping(event.report.get("facts"))
    if not _is_itself(ingest, node, "ansible", facts, event) or not _news(node, event):
        return
    if attempt := _attempt(event):
        registry.start_attempt(who, "commission", attempt, event.started_at)
    registry.advance(who, "commissioning", "answered and was identified", event.at, _attempt(event))


def _is_itself(ingest: Ingest, node: Node, source: str, facts: Mapping[str, Any], event: TaskEvent) -> bool:
    """Record what the node says of itself; False when its serial is another's than the registry knows."""
    serial = facts.get("serial")
    identity = Identity(serial if isinstance(serial, str) else None, node.instance_id, node.rack, node.slot)
    observed = {key: value for key, value in facts.items() if key != "serial"}
    seen = Observation(source, node.name, identity, observed=observed, observed_at=event.at)
    conflicts = ingest.registry.observe(seen).conflicts
    ingest.applied.conflicts += [one.detail for one in conflicts]
    return not conflicts


def _news(node: Node, event: TaskEvent) -> bool:
    """Say whether the event tells of a new node's life as it is now, not of an earlier one."""
    return node.state in NEW_STATES and event.at >= node.state_since


def _configured(ingest: Ingest, who: str, event: TaskEvent) -> None:
    """Keep what configuration came to, part by part: burn-in asks for it."""
    done = event.report.get("event") == "configured"
    facts, part = _mapping(event.report.get("facts")), str(event.report.get("part") or BASE)
    node = ingest.registry.get(who)
    told = _account(ingest.registry, who, event, part, done=done)
    if part == BASE or facts:
        told |= {"configuration" if part == BASE else f"configuration_{part}": dict(facts)}
    identity = Identity(instance_id=node.instance_id, rack=node.rack, slot=node.slot)
    ingest.registry.observe(
        Observation("configuration", node.name, identity, observed=told, observed_at=event.at)
    )
    if not done:
        ingest.registry.note(who, "configure_failed", _why(facts), event.at)


def _why(facts: Mapping[str, Any]) -> str:
    """Return which task failed, why, and what helps."""
    reason = ": ".join(str(facts[key]) for key in ("task", "reason") if facts.get(key))
    return with_next_step(reason) or "no reason given"


def _account(registry: Registry, who: str, event: TaskEvent, part: str, *, done: bool) -> dict[str, Any]:
    """Return which parts are configured, and whether all are. A whole run's first part starts the account anew."""
    known = [value.value for value in registry.values(who) if value.key == "observed.configured_parts"]
    before = {} if part == BASE and _attempt(event) else dict(_mapping(known[-1])) if known else {}
    parts = {**before, part: done}
    return {"configured": all(parts.values()), "configured_parts": parts}


def _drivers(ingest: Ingest, who: str, event: TaskEvent) -> None:
    """Keep what a node said of its driver; the consistency check reads it. A failure also bars a healthy verdict."""
    node, facts = ingest.registry.get(who), _mapping(event.report.get("facts"))
    failed = event.report.get("event") == "drivers_failed"
    told = (
        _account(ingest.registry, who, event, "drivers", done=False) if failed else {"drivers": dict(facts)}
    )
    identity = Identity(instance_id=node.instance_id, rack=node.rack, slot=node.slot)
    seen = Observation("configuration", node.name, identity, observed=told, observed_at=event.at)
    ingest.registry.observe(seen)
    if failed:
        ingest.registry.note(who, "drivers_failed", _why(facts), event.at)


def _blade(ingest: Ingest, who: str, event: TaskEvent) -> None:
    """Keep what a blade's power, links and board are like, each finding with its reason."""
    told = _mapping(event.report.get("facts"))
    node = ingest.registry.get(who)
    seen = {"blade": dict(_mapping(told.get("facts"))), "blade_reasons": list(told.get("reasons") or ())}
    identity = Identity(instance_id=node.instance_id, rack=node.rack, slot=node.slot)
    ingest.registry.observe(Observation("ansible", node.name, identity, observed=seen, observed_at=event.at))


def _burnt_in(ingest: Ingest, who: str, event: TaskEvent) -> None:
    """Judge the agent's records and let the verdict act."""
    from gpufleet import burnin

    registry, node = ingest.registry, ingest.registry.get(who)
    records = [dict(r) for r in event.report.get("records") or () if isinstance(r, Mapping)]
    report = burnin.judge(
        records,
        node.kind,
        _profile(records),
        ingest.rehearsal,
        configured=_last_configured(registry, who),
        node=node.name,
    )
    attempt = _attempt(event) or report.attempt
    if not attempt:
        registry.note(who, "ignored", "burn-in without an attempt", event.at)
        return
    started = next((r for r in records if r.get("type") == "start"), {})
    if not _is_itself(ingest, node, "burn_in", _mapping(started.get("host")), event):
        registry.note(who, "ignored", f"burn-in {attempt} of a board that is not this node's", event.at)
        return
    outcome = registry.record_result(
        who,
        attempt,
        {**report.to_json(), "attempt": attempt},
        records,
        reason="; ".join(report.reasons()[:3]) or "every required check passed",
        started_at=event.started_at,
        when=event.at,
    )
    if outcome == "ignored":
        ingest.applied.ignored.append(f"{node.name}: attempt {attempt}")
    ingest.applied.verdicts[node.name] = report.verdict


def _profile(records: list[dict[str, Any]]) -> str:
    started = (record.get("profile") for record in records if record.get("type") == "start")
    return str(next(started, None) or "quick")


def _last_configured(registry: Registry, who: str) -> bool | None:
    found = [value.value for value in registry.values(who) if value.key == "observed.configured"]
    return bool(found[-1]) if found else None


def _attempt(event: TaskEvent) -> str | None:
    attempt = event.report.get("attempt")
    return attempt if isinstance(attempt, str) and attempt else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_HANDLERS: dict[str, Callable[[Ingest, str, TaskEvent], None]] = {
    "commissioned": _commissioned,
    "configured": _configured,
    "configure_failed": _configured,
    "drivers": _drivers,
    "drivers_failed": _drivers,
    "burn_in": _burnt_in,
    "blade": _blade,
}
