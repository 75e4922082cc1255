"""An XID that a GPU's exporter reports, judged as burn-in judges one of the kernel log: dictionary and rules over time.

The exporter gives the code of the last XID only: no text and no registers, so that a rule on bits does not apply, and
the same code twice in a row is seen once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from gpufleet.burnin.event_rule import load_event_rules
from gpufleet.burnin.kernel_event import classify_xid, describe_xid
from gpufleet.burnin.log_event import KernelEvent
from gpufleet.burnin.repair_step import choose_ladder
from gpufleet.burnin.xid_rule import EventHistory, Occurrence, PartRepair, refine_events
from gpufleet.nodes import Registry
from gpufleet.operations.site_file import load_recorded_rules
from gpufleet.operations.watch.condition import NodeState
from gpufleet.operations.watch.finding import Finding

MAX_EVENTS = 256
MAX_CODE = 999_999
HOUR = 3600.0


def judge_event(registry: Registry, state: NodeState, finding: Finding) -> Iterator[Finding]:
    """Yield the findings that follow from a new XID, and remember it for the rules over time."""
    code = int(finding.value or 0)
    if not 0 < code <= MAX_CODE:
        return
    at = finding.at.timestamp()
    event = _build_event(f"xid_{code}", finding.position, at)
    window = max(rule.within_h for rule in load_event_rules()) * HOUR
    state.xids = [entry for entry in state.xids if abs(at - entry[2]) <= window][-MAX_EVENTS:]
    parts = {
        part.place.position: part.uuid or part.serial or part.id
        for part in registry.list_parts(finding.node_id)
        if part.place and part.place.position
    }
    history = EventHistory(
        read_at=at,
        parts=parts,
        earlier=tuple(_locate(_build_event(*entry), parts) for entry in state.xids),
        repairs=tuple(
            PartRepair(action.identity, action.action, action.at.timestamp())
            for action in registry.list_recorded_actions(finding.node_id)
        ),
        record_only=load_recorded_rules(),
    )
    state.xids.append([event.code, finding.position, at])
    for judged in refine_events([event], history):
        is_fatal = judged.outcome == "fatal"
        yield replace(
            finding,
            rule=judged.rule or judged.code,
            part=judged.part_kind,
            position=judged.position,
            fault=judged.code,
            meaning=judged.meaning,
            action=finding.action if is_fatal else "record",
            condition=f"outcome {judged.outcome}",
        )


def _build_event(code: str, position: str, at: float) -> KernelEvent:
    number = int(code.partition("_")[2])
    shown = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    return KernelEvent(
        code=code,
        part_kind="gpu",
        position=position,
        outcome=classify_xid(number, ""),
        steps=choose_ladder(code).steps,
        text=f"Xid {number} at {shown}",
        count=1,
        first_seconds=at,
        last_seconds=at,
        meaning=describe_xid(number),
    )


def _locate(event: KernelEvent, parts: dict[str, str]) -> Occurrence:
    at = event.last_seconds or 0.0
    return Occurrence(event, parts.get(event.position, event.position), at, at, is_current=False)
