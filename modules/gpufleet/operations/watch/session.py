"""One watch: cycles over all nodes in use, which read, judge, record and drain; and the alerts between them.

Its time is an axis of its own: seconds by the monotonic clock, and over a restart by the clock of the machine if that
went forward. So a clock that jumps while the watch runs neither begins nor ends anything.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from gpufleet.boundary import Sample
from gpufleet.errors import InputError
from gpufleet.nodes import Node, Registry
from gpufleet.nodes.model import format_utc_time, utc_now
from gpufleet.operations.monitoring_targets import OBSERVED_KEY, read_endpoints
from gpufleet.operations.watch import gpu_event
from gpufleet.operations.watch.condition import Answer, Change, Moment, NodeState, evaluate_node
from gpufleet.operations.watch.drain import DrainError, drain_node, resume_node
from gpufleet.operations.watch.finding import (
    WATCHED_STATES,
    AppliedFinding,
    Finding,
    apply_finding,
    is_out_of_use_by_watch,
)
from gpufleet.operations.watch.policy import WatchPolicy
from gpufleet.operations.watch.rule import WatchRule
from gpufleet.operations.watch.scrape import (
    ScrapeOptions,
    ScrapeResult,
    ScrapeTarget,
    build_login_headers,
    scrape_targets,
)
from gpufleet.operations.watch.store import WatchStore

NAMING_LABELS = ("instance", "exported_instance", "Hostname", "hostname", "node", "nodename", "host")
"""Labels in which an exporter may name a node. What it says of another node of the registry is not taken."""
GAP_INTERVALS = 3
"""An exporter that was not heard for so many intervals was not watched."""
MOST_MAY_BE_SILENT = 0.5
"""When more of the exporters that answered before are silent at once, it is the controller that is cut off."""


@dataclass(frozen=True)
class Clock:
    """Where the watch has its time from; tests give their own."""

    now: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = time.monotonic


@dataclass
class CycleReport:
    """What one cycle saw and did."""

    at: datetime
    nodes: int = 0
    exporters: int = 0
    silent: dict[str, str] = field(default_factory=dict)
    foreign: dict[str, int] = field(default_factory=dict)
    findings: list[AppliedFinding] = field(default_factory=list)
    scheduler: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    open_findings: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the shape that ``gpufleet watch --json`` prints."""
        return {
            "at": format_utc_time(self.at),
            "nodes": self.nodes,
            "exporters": self.exporters,
            "silent": self.silent,
            "foreign_samples": self.foreign,
            "findings": [applied.as_json() for applied in self.findings],
            "open_findings": self.open_findings,
            "scheduler": self.scheduler,
            "problems": self.problems,
        }

    def format_lines(self) -> list[str]:
        """Return the lines of ``gpufleet watch``: one for the cycle, one for each thing that happened."""
        heading = (
            f"{format_utc_time(self.at)}  {self.nodes} nodes, {self.exporters} exporters, {len(self.silent)} silent, "
            f"{self.open_findings} open findings"
        )
        return [
            heading,
            *(f"  {name} does not answer: {problem}" for name, problem in sorted(self.silent.items())),
            *(
                f"  {name}: {count} samples name another node, left out"
                for name, count in self.foreign.items()
            ),
            *(f"  {each.finding.node}: {each.finding.text} → {each.outcome}" for each in self.findings),
            *(f"  {line}" for line in (*self.scheduler, *self.problems)),
        ]


class WatchSession:
    """The watch of one registry. ``interval`` is the time between cycles in seconds."""

    def __init__(
        self,
        registry: Registry,
        policy: WatchPolicy,
        store: WatchStore,
        *,
        interval: float = 15.0,
        options: ScrapeOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.registry, self.policy, self.store, self.clock = registry, policy, store, clock or Clock()
        self.interval = interval
        self.options = options or build_scrape_options(policy)
        self.lock = threading.Lock()
        """Held by whatever changes registry or store: a cycle's end, or an alert."""
        last_axis, axis = store.load_axis(self.clock.now())
        self._axis, self._started = axis, self.clock.monotonic()
        self._states: dict[str, NodeState] = store.load_nodes(last_axis)
        self._metrics = _list_metrics(policy.rules)

    def run_cycle(self) -> CycleReport:
        """Ask every exporter once, judge what they say, and do what follows."""
        nodes = self.registry.list_nodes()
        watched = [node for node in nodes if node.state in WATCHED_STATES and node.address]
        results = scrape_targets(
            self._list_targets(watched),
            lambda exporter: self._metrics.get(exporter, frozenset()),
            self.options,
        )
        with self.lock:
            return self._judge(nodes, watched, results)

    def _list_targets(self, watched: Sequence[Node]) -> list[ScrapeTarget]:
        reports = self.registry.list_newest_values(OBSERVED_KEY)
        targets: dict[tuple[str, str], ScrapeTarget] = {}
        for node in watched:
            address = str(node.address)
            for endpoint in read_endpoints(reports.get(node.id)):
                targets[node.id, endpoint.name] = ScrapeTarget(
                    node.id, endpoint.name, address, endpoint.port, endpoint.scheme
                )
            for own in self.policy.exporters:
                if (not own.pools or node.pool in own.pools) and (not own.racks or node.rack in own.racks):
                    targets[node.id, own.name] = ScrapeTarget(
                        node.id, own.name, address, own.port, own.scheme
                    )
        return list(targets.values())

    def _judge(
        self, nodes: Sequence[Node], watched: Sequence[Node], results: Sequence[ScrapeResult]
    ) -> CycleReport:
        now = self.clock.now()
        at = self._axis + self.clock.monotonic() - self._started
        report = CycleReport(now, len(watched), len(results))
        owners = _index_names(nodes)
        answers: dict[str, list[Answer]] = defaultdict(list)
        by_id = {node.id: node for node in watched}
        for result in results:
            name = by_id[result.target.node_id].name
            samples = result.samples
            if samples is None:
                report.silent[f"{name} {result.target.exporter}"] = result.problem
            else:
                own = _drop_foreign_samples(samples, result.target.node_id, owners)
                if len(own) < len(samples):
                    report.foreign[f"{name} {result.target.exporter}"] = len(samples) - len(own)
                samples = own
            answers[result.target.node_id].append(Answer(result.target.exporter, samples))
        counts_silence = not self._is_cut_off(results)
        if not counts_silence:
            report.problems.append(
                "most exporters are silent at once: the controller is cut off, nothing is concluded"
            )
        moment = Moment(at, GAP_INTERVALS * self.interval, counts_silence)
        allowance = _Allowance(nodes, watched, self.policy.at_most_percent)
        # A node that is not watched keeps its state: it may come back from repair.
        known = {node.id for node in nodes}
        self._states = {node_id: state for node_id, state in self._states.items() if node_id in known}
        for node in watched:
            state = self._states.setdefault(node.id, NodeState())
            changes = evaluate_node(state, answers[node.id], self.policy.rules, moment)
            for finding in self._build_findings(node, state, changes, now):
                self._apply(finding, node, allowance, report)
        report.open_findings = sum(
            series.open is not None for state in self._states.values() for series in state.series.values()
        )
        self._tell_scheduler(report)
        self.store.save_cycle(at, now, self._states)
        return report

    def _is_cut_off(self, results: Sequence[ScrapeResult]) -> bool:
        """Return whether most of the exporters that answered before, of at least two nodes, are silent now."""
        before = [
            result
            for result in results
            if (state := self._states.get(result.target.node_id)) and result.target.exporter in state.answered
        ]
        silent = sum(result.samples is None for result in before)
        has_several = len({result.target.node_id for result in before}) > 1
        return has_several and silent > MOST_MAY_BE_SILENT * len(before)

    def _build_findings(
        self, node: Node, state: NodeState, changes: Iterable[Change], now: datetime
    ) -> Iterable[Finding]:
        for change in changes:
            finding = build_finding(node, change, now)
            if change.rule.event:
                yield from gpu_event.judge_event(self.registry, state, finding)
            else:
                yield finding

    def _apply(self, finding: Finding, node: Node, allowance: _Allowance, report: CycleReport) -> None:
        may_act = allowance.permits(node.id)
        applied = apply_finding(self.registry, finding, may_act=may_act)
        report.findings.append(applied)
        if applied.needs_drain:
            allowance.use(node.id)
            if self.policy.drain is not None:
                reason = f"{finding.rule} {format_utc_time(finding.at)}"
                self.store.save_drained(node.id, reason, confirmed=False)

    def apply_alert(self, finding: Finding) -> AppliedFinding:
        """Record what Alertmanager reports of a node, and do what its policy wants; the caller holds the lock."""
        nodes = self.registry.list_nodes()
        watched = [node for node in nodes if node.state in WATCHED_STATES]
        report = CycleReport(finding.at)
        node = next(node for node in nodes if node.id == finding.node_id)
        self._apply(finding, node, _Allowance(nodes, watched, self.policy.at_most_percent), report)
        self._tell_scheduler(report)
        return report.findings[0]

    def _tell_scheduler(self, report: CycleReport) -> None:
        """Drain what is not drained yet, and resume what is in use again; what fails is tried in the next cycle."""
        hook = self.policy.drain
        drained = self.store.load_drained()
        if hook is None or not drained:
            return
        nodes = {node.id: node for node in self.registry.list_nodes()}
        for node_id, (reason, is_confirmed) in drained.items():
            node = nodes.get(node_id)
            if node is None or node.state == "retired":
                self.store.forget_drained([node_id])
                continue
            try:
                if node.is_usable and not is_out_of_use_by_watch(node) and node.state != "draining":
                    found = resume_node(hook, node.name)
                    self.store.forget_drained([node_id])
                    report.scheduler.append(f"{node.name}: resumed in {hook.hook} ({found.state})")
                elif not is_confirmed:
                    found = drain_node(hook, node.name, reason)
                    self.store.save_drained(node_id, reason, confirmed=True)
                    report.scheduler.append(
                        f"{node.name}: drained in {hook.hook} ({found.state}, {found.detail})"
                    )
            except DrainError as error:
                report.problems.append(f"{node.name}: {hook.hook}: {error}")


def run_cycles(
    session: WatchSession,
    report: Callable[[CycleReport], None],
    *,
    stop: threading.Event,
    count: int | None = None,
) -> None:
    """Run cycles until ``stop`` is set, or ``count`` of them; one that outlasts the interval delays the next."""
    done = 0
    while not stop.is_set():
        started = session.clock.monotonic()
        report(session.run_cycle())
        done += 1
        if done == count:
            return
        stop.wait(max(0.0, session.interval - (session.clock.monotonic() - started)))


class _Allowance:
    """How many nodes the watch may still take out of use."""

    def __init__(self, nodes: Sequence[Node], watched: Sequence[Node], percent: float) -> None:
        self._taken = {node.id for node in nodes if is_out_of_use_by_watch(node)}
        fleet = len({node.id for node in watched} | self._taken)
        self._limit = max(1, int(fleet * percent / 100))

    def permits(self, node_id: str) -> bool:
        return node_id in self._taken or len(self._taken) < self._limit

    def use(self, node_id: str) -> None:
        self._taken.add(node_id)


def build_finding(node: Node, change: Change, now: datetime) -> Finding:
    """Return a change at a node as a finding."""
    rule = change.rule
    return Finding(
        rule=rule.rule,
        node_id=node.id,
        node=node.name,
        source=f"{change.exporter} exporter",
        meaning=rule.meaning,
        at=now,
        action=rule.action,
        measure=rule.measure,
        part=rule.part,
        position=change.position,
        fault=rule.fault,
        metric=rule.metric,
        value=change.value,
        threshold=rule.threshold,
        condition=rule.condition,
        held_s=round(change.held_s, 3),
        is_open=change.is_open,
    )


def build_scrape_options(
    policy: WatchPolicy, *, seconds: float = 10.0, max_parallel: int = 64
) -> ScrapeOptions:
    """Return how exporters are asked, with the site's password and certificates; InputError for a file that is not."""
    options = ScrapeOptions(
        seconds, max_parallel, headers=build_login_headers(policy.login.username, policy.login.password_file)
    )
    if policy.login.ca_file is None:
        return options
    try:
        context = ssl.create_default_context(cafile=str(policy.login.ca_file))
    except (OSError, ssl.SSLError) as error:
        where = str(policy.login.ca_file)
        raise InputError(
            f"is not a file of certificates: {error}", where=where, key="login.ca_file"
        ) from None
    return replace(options, tls=context)


def _list_metrics(rules: Iterable[WatchRule]) -> Mapping[str, frozenset[str]]:
    """Return the metrics that rules want of each exporter."""
    names: dict[str, set[str]] = defaultdict(set)
    for rule in rules:
        names[rule.exporter] |= {rule.metric, *filter(None, [rule.divided_by])}
    return {exporter: frozenset(metrics) for exporter, metrics in names.items()}


def _index_names(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the node id of each name and address that one node alone has."""
    names: dict[str, str] = {}
    shared: set[str] = set()
    for node in nodes:
        for name in {each.lower() for each in (node.name, node.address, node.instance_id) if each}:
            if names.setdefault(name, node.id) != node.id:
                shared.add(name)
    return {name: node_id for name, node_id in names.items() if name not in shared}


def _drop_foreign_samples(
    samples: Sequence[Sample], node_id: str, owners: Mapping[str, str]
) -> tuple[Sample, ...]:
    """Return the samples that do not name another node: a node can only speak of itself."""
    return tuple(sample for sample in samples if not _names_another(sample, node_id, owners))


def _names_another(sample: Sample, node_id: str, owners: Mapping[str, str]) -> bool:
    for label, text in sample.labels:
        if label in NAMING_LABELS:
            name = text.lower()
            host = name.rpartition(":")[0] or name
            for candidate in (name, host, host.partition(".")[0], host.strip("[]")):
                if owners.get(candidate, node_id) != node_id:
                    return True
    return False
