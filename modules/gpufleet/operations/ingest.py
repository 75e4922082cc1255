"""Applies what playbook runs report to the registry: the same way live and from a run's artifacts.

A live event is newer than everything in the registry. An event of recorded artifacts is placed where it belongs in
the order of revisions (``gpufleet.nodes.revision``): one that was applied already is skipped, one that is older than
what the registry has since learned is reported as stale and changes nothing. An event is applied completely or not
at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from gpufleet.boundary import make_printable
from gpufleet.errors import EnvironmentFault, InputError, ProjectFileError
from gpufleet.nodes import NEW_STATES, STATES, Node, NodeObservation, Registry
from gpufleet.nodes.model import format_utc_time
from gpufleet.operations.event_report import (
    BASE,
    describe_task_failure,
    find_burnin_profile,
    find_last_configured,
    get_attempt_id,
    mapping_or_empty,
    merge_configured_parts,
)
from gpufleet.operations.ingest_summary import IngestSummary
from gpufleet.operations.task_events import TaskEvent
from gpufleet.remote import append_next_step

_ANSWER_INTERVAL = timedelta(seconds=15)
"""A host that keeps answering is noted this often: every task would be a write."""


_MESH_HOLD = "network_mesh: "
"""The start of the reasons of holds that a network mesh sets, and may release."""

Handler: TypeAlias = "Callable[[EventIngester, str, TaskEvent], None]"


class EventIngester:
    """Folds events one at a time, each into the registry at once: a killed run loses at most its last task.

    ``live``: the events come as they happen, so each is newer than what the registry has; recorded ones are placed.
    ``declare`` is called once when a host is not registered yet; it may register the racks as of a moment.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        rehearsal: bool = False,
        declare: Callable[[datetime], object] | None = None,
        live: bool = False,
    ) -> None:
        self.registry = registry
        self.rehearsal = rehearsal
        self.live = live
        self.summary = IngestSummary()
        self._previous: dict[str, int] = {}  # the newest revision of each run's events so far
        self._began: dict[str, int] = {}  # the first
        self._declare = declare
        self._answered: dict[str, datetime] = {}
        self._known: dict[str, str] = {}

    @classmethod
    def create_for_project(cls, registry: Registry, root: Path, *, live: bool = False) -> EventIngester:
        """Return one for a project's own runs: in a rehearsal its stack's racks are declared, else all."""
        stack = os.environ.get("GPUFLEET_REHEARSAL") or None

        def declare(at: datetime) -> None:
            # Imported when a host is not registered yet: it takes longer than all else that a run's results need.
            from gpufleet.operations.sync import register_declared_racks

            register_declared_racks(registry, root, stack, at)

        return cls(registry, rehearsal=bool(stack), declare=declare, live=live)

    def ingest_stream(self, events: Iterable[TaskEvent]) -> IngestSummary:
        """Apply events as a stream."""
        for event in events:
            self.ingest_event(event)
        return self.summary

    def ingest_event(self, event: TaskEvent) -> None:
        """Apply one event, completely or not at all; a bad one is recorded as bad."""
        self.summary.events += not event.problem
        handler = _HANDLERS.get(str(event.report.get("event")))
        if handler is None and not event.problem and self._needs_no_write(event):
            return
        if self._is_repeated(event):
            return
        try:
            with self._transaction(event):
                if event.problem:
                    self._record_bad(event, event.problem)
                else:
                    self._apply(event, handler)
        except (EnvironmentFault, ProjectFileError):
            raise  # the registry's trouble, or a wrong file of the project, is not the event's
        except Exception as error:  # noqa: BLE001 - whatever a node put into its report, the other events go on
            self._known.clear()
            with self._transaction(event):
                self._record_bad(event, f"{type(error).__name__}: {error}")

    @contextmanager
    def _transaction(self, event: TaskEvent) -> Iterator[None]:
        """Open the event's transaction; what it changed in our own account goes with it when it fails."""
        lengths = self.summary.get_list_lengths()
        opened = (
            self.registry.transaction(event.at)
            if self.live
            else self.registry.transaction_of_past_event(event.run, event.at, self._previous.get(event.run))
        )
        try:
            with opened as number:
                self._began.setdefault(event.run, number)
                yield
        except BaseException:
            self.summary.restore_list_lengths(lengths)
            raise
        self._previous[event.run] = number

    def _is_repeated(self, event: TaskEvent) -> bool:
        """Return True if the registry has the event already."""
        if self.live or not event.key or (number := self.registry.find_event_revision(event.key)) is None:
            return False
        self.summary.repeated += 1
        self._previous[event.run] = number
        self._began.setdefault(event.run, number)
        if event.outcome == "unreachable":
            self.summary.unreachable[event.host] = event.message
        return True

    def _apply(self, event: TaskEvent, handler: Handler | None) -> None:
        node = self._node(event)
        if node is None:
            return
        self._known[event.host] = node
        if event.outcome == "unreachable":
            self._answered.pop(node, None)
            self.summary.unreachable[event.host] = event.message
            self._set_reachable(
                node,
                event,
                append_next_step(event.message, self._find_run_again(node, event.host)) or "no answer",
            )
        else:
            if event.has_host_answered:
                self._record_answer(node, event)
            if handler:
                handler(self, node, event)
                self._known.clear()  # a report may join two nodes into one
        if event.key:
            self.registry.record_applied_event(event.key, event.run)

    def _find_run_again(self, node: str, host: str) -> str:
        """Return the command that reaches a host again: what the registry keeps outlives the run that failed."""
        state = STATES[self.registry.get_node(node).state]
        is_measured_again = state.is_usable and not state.is_busy
        return f"gpufleet burnin run {host}" if is_measured_again else f"gpufleet configure --limit {host}"

    def _record_bad(self, event: TaskEvent, problem: str) -> None:
        """Record an event as bad: a line of the node's history, a line of the account."""
        printable_problem = make_printable(problem)
        self.summary.bad.append(
            f"{make_printable(event.host)}: {printable_problem}" if event.host else printable_problem
        )
        node = self._node(event) if event.host else None
        if node is not None:
            self.registry.add_history_entry_once(node, "bad_report", printable_problem, event.at)
            if event.has_host_answered:
                self._record_answer(node, event)
        if event.key and (node is not None or not event.host):
            self.registry.record_applied_event(event.key, event.run)

    def _needs_no_write(self, event: TaskEvent) -> bool:
        """Return True if the registry needs no write for it: that is asked once a host, not once a task."""
        if event.outcome == "unreachable" or event.host not in self._known:
            return False
        last = self._answered.get(self._known[event.host])
        return not event.has_host_answered or (last is not None and abs(event.at - last) < _ANSWER_INTERVAL)

    def _node(self, event: TaskEvent) -> str | None:
        """Return how the registry calls a host; hosts that share a name carry their id behind it."""
        host = event.host
        id_match = re.search(r"-(n-[0-9a-f]{12})$", host)
        reference = id_match[1] if id_match else host
        for last in (self._declare is None, True):
            try:
                return self.registry.get_node(reference).id
            except InputError:
                if last:
                    break
            declare, self._declare = self._declare, None
            if declare:
                declare(event.started_at)
        if host not in self.summary.unknown:
            self.summary.unknown.append(host)
        return None

    def _record_answer(self, node: str, event: TaskEvent) -> None:
        last = self._answered.get(node)
        if last is None or abs(event.at - last) >= _ANSWER_INTERVAL:
            self._set_reachable(node, event)
            self._answered[node] = event.at

    def _set_reachable(self, node: str, event: TaskEvent, reason: str | None = None) -> None:
        """Record whether a host answered; report it as stale if the registry has a newer, different value."""
        answers = reason is None
        self.registry.record_reachability(node, answers, event.at, reason)
        current_node = self.registry.get_node(node)
        if current_node.reachable is not answers:
            description = "it answered" if answers else "it did not answer"
            self.report_stale_event(current_node, event, description)

    def report_stale_event(self, node: Node, event: TaskEvent, event_description: str) -> None:
        """Report that an event is older than what the registry has since learned."""
        self.summary.stale.append(
            f"{make_printable(node.name)}: {event_description} at {format_utc_time(event.at)}"
        )

    def apply_event_observation(self, observation: NodeObservation, event: TaskEvent) -> list[str]:
        """Apply an observation; return its conflicts, and report outdated or ill-formed values."""
        outcome = self.registry.apply_observation(observation)
        self.summary.bad += [make_printable(line) for line in outcome.bad]
        for line in outcome.bad:
            self.registry.add_history_entry_once(
                self.registry.get_node(self._known[event.host]).id, "bad_report", line, event.at
            )
        if outcome.outdated:
            keys = ", ".join(key.partition(".")[2] for key in outcome.outdated[:5])
            self.report_stale_event(
                self.registry.get_node(self._known[event.host]),
                event,
                f"{observation.source} reported {keys}",
            )
        return [conflict.detail for conflict in outcome.conflicts]

    def find_run_start_revision(self, event: TaskEvent) -> int:
        """Return the revision at which the event's run began, as far as this process has seen."""
        return self._began[event.run]


def ingest_events(
    registry: Registry,
    events: Iterable[TaskEvent],
    *,
    rehearsal: bool = False,
    register_racks: Callable[[datetime], object] | None = None,
) -> IngestSummary:
    """Apply recorded events to the registry, as a stream."""
    return EventIngester(registry, rehearsal=rehearsal, declare=register_racks).ingest_stream(events)


def _apply_commissioned(ingest: EventIngester, node_name: str, event: TaskEvent) -> None:
    """Record that the node answered and was identified; a new one moves to commissioning."""
    registry, node = ingest.registry, ingest.registry.get_node(node_name)
    facts = mapping_or_empty(event.report.get("facts"))
    if not _matches_identity(ingest, node, "ansible", facts, event) or node.state not in NEW_STATES:
        return
    if not registry.is_transaction_newer_than_state(node_name):
        ingest.report_stale_event(node, event, "it was commissioned")
        return
    if attempt := get_attempt_id(event):
        registry.start_attempt(node_name, "commission", attempt, event.started_at)
    registry.advance_node(
        node_name, "commissioning", "answered and was identified", event.at, get_attempt_id(event)
    )


def _matches_identity(
    ingest: EventIngester, node: Node, source: str, facts: Mapping[str, Any], event: TaskEvent
) -> bool:
    """Record the facts that the node reports; return False if its serial is not the one in the registry."""
    serial = facts.get("serial")
    identity = replace(node.place, serial=serial if isinstance(serial, str) else None)
    observed = {key: value for key, value in facts.items() if key != "serial"}
    observation = NodeObservation(source, node.name, identity, observed=observed, observed_at=event.at)
    conflicts = ingest.apply_event_observation(observation, event)
    ingest.summary.conflicts += conflicts
    return not conflicts


def _apply_configuration(ingest: EventIngester, node_name: str, event: TaskEvent) -> None:
    """Store the result of configuration, part by part: burn-in reads it."""
    is_configured = event.report.get("event") == "configured"
    facts, part = mapping_or_empty(event.report.get("facts")), str(event.report.get("part") or BASE)
    node = ingest.registry.get_node(node_name)
    observed = merge_configured_parts(ingest.registry, node_name, event, part, is_configured=is_configured)
    if part == BASE or facts:
        observed |= {"configuration" if part == BASE else f"configuration_{part}": dict(facts)}
    identity = node.place
    ingest.apply_event_observation(
        NodeObservation("configuration", node.name, identity, observed=observed, observed_at=event.at), event
    )
    if not is_configured:
        ingest.registry.add_history_entry_once(
            node_name, "configure_failed", describe_task_failure(facts, event.host), event.at
        )


def _apply_drivers(ingest: EventIngester, node_name: str, event: TaskEvent) -> None:
    """Store a node's driver report for the consistency check. A failure also prevents a healthy verdict."""
    node, facts = ingest.registry.get_node(node_name), mapping_or_empty(event.report.get("facts"))
    failed = event.report.get("event") == "drivers_failed"
    observed = (
        merge_configured_parts(ingest.registry, node_name, event, "drivers", is_configured=False)
        if failed
        else {"drivers": dict(facts)}
    )
    identity = node.place
    observation = NodeObservation(
        "configuration", node.name, identity, observed=observed, observed_at=event.at
    )
    ingest.apply_event_observation(observation, event)
    if failed:
        ingest.registry.add_history_entry_once(
            node_name, "drivers_failed", describe_task_failure(facts, event.host), event.at
        )


def _apply_kernel(ingest: EventIngester, node_name: str, event: TaskEvent) -> None:
    """Store which kernel a node has, or add to its history why it keeps its earlier one."""
    node, facts = ingest.registry.get_node(node_name), mapping_or_empty(event.report.get("facts"))
    if (name := event.report.get("event")) == "kernel_upgrade_failed":
        reason = describe_task_failure(facts, event.host, "kernel")
        ingest.registry.add_history_entry_once(node_name, name, reason, event.at)
        return
    place = node.place
    seen = {"kernel_upgrade": dict(facts)}
    observation = NodeObservation("configuration", node.name, place, observed=seen, observed_at=event.at)
    ingest.apply_event_observation(observation, event)


def _apply_hardware(ingest: EventIngester, node_name: str, event: TaskEvent) -> None:
    """Store what a blade's board or a server's BMC reports, each finding with its reason."""
    report = mapping_or_empty(event.report.get("facts"))
    reasons = report.get("reasons")
    node, name = ingest.registry.get_node(node_name), str(event.report.get("event"))
    observed: dict[str, Any] = {name: dict(mapping_or_empty(report.get("facts")))}
    observed[f"{name}_reasons"] = reasons if isinstance(reasons, list) else []
    identity = node.place
    ingest.apply_event_observation(
        NodeObservation("ansible", node.name, identity, observed=observed, observed_at=event.at), event
    )


def _apply_network_mesh(ingest: EventIngester, node_name: str, event: TaskEvent) -> None:
    """Store what the network mesh shows of a node; hold a node that failed until it passes."""
    stale = len(ingest.summary.stale)
    _apply_hardware(ingest, node_name, event)
    if len(ingest.summary.stale) > stale:
        return
    node = ingest.registry.get_node(node_name)
    facts = mapping_or_empty(mapping_or_empty(event.report.get("facts")).get("facts"))
    reasons = facts.get("reasons")
    holder = next((hold.reason for hold in node.holds if hold.kind == "operator"), None)
    is_own = holder is None or holder.startswith(_MESH_HOLD)
    if facts.get("outcome") == "fail" and is_own:  # a person's hold keeps its reason
        reason = str(reasons[0]) if isinstance(reasons, list) and reasons else "the node stands out"
        ingest.registry.set_node_hold(node.id, "operator", f"{_MESH_HOLD}{make_printable(reason)}")
    elif facts.get("outcome") == "pass" and holder is not None and is_own:
        ingest.registry.release_node_hold(node.id, "operator", "the network passes now")


def _apply_burn_in(ingest: EventIngester, node_name: str, event: TaskEvent) -> None:
    """Judge the agent's records and apply the verdict."""
    from gpufleet.operations.event_history import load_node_history
    from gpufleet.operations.site_thresholds import (
        describe_verdict,
        judge_node_at_site,
        observe_parts_at_site,
    )

    registry, node = ingest.registry, ingest.registry.get_node(node_name)
    records = [dict(r) for r in event.report.get("records") or () if isinstance(r, Mapping)]
    configured, profile = find_last_configured(registry, node_name), find_burnin_profile(records)
    history = load_node_history(registry, node.id, records, event.at)
    report = judge_node_at_site(
        node, records, profile, rehearsal=ingest.rehearsal, is_configured=configured, history=history
    )
    attempt = get_attempt_id(event) or report.attempt
    if not attempt:
        registry.add_history_entry_once(node_name, "ignored", "the burn-in event has no attempt", event.at)
        return
    started = next((r for r in records if r.get("type") == "start"), {})
    if not _matches_identity(ingest, node, "burn_in", mapping_or_empty(started.get("host")), event):
        registry.add_history_entry_once(
            node_name, "ignored", f"burn-in {attempt} belongs to another board", event.at
        )
        return
    outcome = registry.record_burn_in_result(
        node_name,
        attempt,
        {**report.as_json(), "attempt": attempt},
        records,
        reason=describe_verdict(report, rehearsal=ingest.rehearsal),
        started_at=event.started_at,
        when=event.at,
        start_revision=ingest.find_run_start_revision(event),
        seen=observe_parts_at_site(node, records, report, rehearsal=ingest.rehearsal, history=history),
    )
    if outcome == "ignored":
        ingest.summary.ignored.append(f"{node.name}: attempt {attempt}: {report.verdict}")
        return
    ingest.summary.verdicts[node.name] = report.verdict


_HANDLERS: dict[str, Handler] = {
    "commissioned": _apply_commissioned,
    "configured": _apply_configuration,
    "configure_failed": _apply_configuration,
    "drivers": _apply_drivers,
    "drivers_failed": _apply_drivers,
    "kernel_upgraded": _apply_kernel,
    "kernel_upgrade_failed": _apply_kernel,
    "burn_in": _apply_burn_in,
    "blade": _apply_hardware,
    "power": _apply_hardware,
    "network_mesh": _apply_network_mesh,
}
