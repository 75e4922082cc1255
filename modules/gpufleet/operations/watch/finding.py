"""A finding about a node: its evidence, and what follows from it in the registry."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpufleet.boundary import make_printable
from gpufleet.nodes import Node, ObservedFault, Registry
from gpufleet.nodes.model import format_utc_time
from gpufleet.nodes.states import WATCH_HOLD
from gpufleet.operations.watch.rule import Action, Measure

ACTOR = "gpufleet watch"
WATCHED_STATES = ("ready", "assigned", "draining")
"""States in which a node is watched: before, burn-in judges it; after, a person has it."""
LONGEST_TEXT = 500


@dataclass(frozen=True)
class Finding:
    """What was seen of a node, by which rule, and what the policy wants done.

    ``part`` and ``position`` name the part; ``source`` is the exporter, or Alertmanager. ``held_s`` is how long it was
    seen. ``is_open``: it begins, else it ended, which changes nothing but the history.
    """

    rule: str
    node_id: str
    node: str
    source: str
    meaning: str
    at: datetime
    action: Action = "record"
    measure: Measure = "hold"
    part: str = "board"
    position: str = ""
    fault: str = ""
    metric: str = ""
    value: float | None = None
    threshold: float | None = None
    condition: str = ""
    held_s: float = 0.0
    is_open: bool = True

    @property
    def text(self) -> str:
        """Return the finding as one line: rule, part, meaning, and the evidence."""
        where = f" on {self.position}" if self.position else ""
        value = "" if self.value is None else f" {self.value:.10g}"
        evidence = f"{self.metric}{value}, {self.condition}, " if self.metric else ""
        state = "" if self.is_open else " ended"
        line = f"{self.rule}{where}{state}: {self.meaning} ({evidence}{self.source})"
        return make_printable(line, LONGEST_TEXT)

    def as_json(self) -> dict[str, Any]:
        """Return the evidence for programs."""
        names = (
            "rule", "node", "source", "action", "measure", "part", "position", "fault", "metric", "value", "threshold",
            "condition", "held_s", "is_open", "meaning",
        )  # fmt: skip
        return {"at": format_utc_time(self.at), **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True)
class AppliedFinding:
    """A finding with what was done: held, quarantined, draining, recorded, or why nothing more was."""

    finding: Finding
    outcome: str
    needs_drain: bool = False

    def as_json(self) -> dict[str, Any]:
        return {**self.finding.as_json(), "outcome": self.outcome}


def is_out_of_use_by_watch(node: Node) -> bool:
    """Return True if it is the watch that took a node out of use."""
    return any(hold.reason.startswith(WATCH_HOLD) for hold in node.holds) or (
        node.state in ("quarantined", "draining") and node.state_reason.startswith(WATCH_HOLD)
    )


def apply_finding(registry: Registry, finding: Finding, *, may_act: bool) -> AppliedFinding:
    """Record a finding, and do what its policy wants unless ``may_act`` is False; one transaction.

    A person's hold stays a person's: the node is out of use already.
    """
    with registry.acting_as(ACTOR), registry.transaction():
        node = registry.get_node(finding.node_id)
        if node.state not in WATCHED_STATES:
            return AppliedFinding(finding, f"ignored: the node is {node.state}")
        acts = finding.action == "act" and finding.is_open
        fault = _build_fault(finding) if acts and finding.fault else None
        registry.record_finding(node.id, finding.text, fault, _hash_evidence(finding))
        if not acts:
            return AppliedFinding(finding, "recorded")
        if not may_act:
            return AppliedFinding(finding, "recorded: the limit of nodes out of use is reached")
        reason = f"{WATCH_HOLD}{finding.text}"
        if finding.measure == "quarantine" and node.state != "assigned":
            registry.move_node(node.id, "quarantined", reason)
            return AppliedFinding(finding, "quarantined", needs_drain=True)
        outcome = _hold(registry, node, reason)
        if finding.measure == "quarantine":
            registry.move_node(node.id, "draining", reason)
            outcome = f"draining, {outcome}"
        return AppliedFinding(finding, outcome, needs_drain=True)


def _hold(registry: Registry, node: Node, reason: str) -> str:
    hold = next((hold for hold in node.holds if hold.kind == "operator"), None)
    if hold is not None and not hold.is_of_burn_in:
        return "held already"
    registry.set_node_hold(node.id, "operator", reason)
    return "held"


def _build_fault(finding: Finding) -> ObservedFault:
    return ObservedFault(
        finding.fault, "watch", finding.text, finding.part, finding.position, finding.value, finding.threshold
    )


def _hash_evidence(finding: Finding) -> str:
    return hashlib.sha256(json.dumps(finding.as_json(), sort_keys=True).encode()).hexdigest()
