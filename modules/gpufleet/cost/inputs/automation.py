"""Both sides of a run of Pulumi's Automation API, from the events that its ``on_event`` was given.

    events = []
    result = stack.preview(on_event=events.append)
    sides = gpufleet.cost.from_automation(events, result)

The results of the API hold counts and text only (``PreviewResult.change_summary``,
``UpResult.summary.resource_changes``); the resources are in the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpufleet.cost.inputs.stack_change import Sides, resources_from_events
from gpufleet.engine import parse_events
from gpufleet.errors import InputError

STATE = {
    "type": "type", "urn": "urn", "id": "id", "parent": "parent", "provider": "provider", "custom": "custom",
    "delete": "delete", "protect": "protect", "retainOnDelete": "retain_on_delete", "inputs": "inputs",
    "outputs": "outputs",
}  # fmt: skip


def from_automation(events: Iterable[Any], result: Any = None) -> Sides:
    """Return both sides of a preview or an update; ``result`` gives the counts where no event does."""
    listed = [event if isinstance(event, Mapping) else _document(event) for event in events]
    found = parse_events(listed)
    if not found.steps and found.summary is None:
        raise InputError(
            "no event holds a resource",
            where="from_automation",
            remedy="collect them: on_event=events.append",
        )
    if found.summary is None:
        found.summary = _counts(result)
    return resources_from_events(found)


def _counts(result: Any) -> dict[str, int] | None:
    """Return what a PreviewResult or an UpResult counts."""
    summary = getattr(result, "summary", None)
    told = getattr(result, "change_summary", None) or getattr(summary, "resource_changes", None)
    return None if told is None else {_plain(op): int(count) for op, count in told.items()}


def _document(event: Any) -> dict[str, Any]:
    """Return an EngineEvent as the JSON that it was read from, as far as it tells of resources."""
    if (held := getattr(event, "resource_pre_event", None)) is not None:
        return {"resourcePreEvent": {"metadata": _metadata(held.metadata), "planning": bool(held.planning)}}
    if (held := getattr(event, "res_outputs_event", None)) is not None:
        return {"resOutputsEvent": {"metadata": _metadata(held.metadata)}}
    if (held := getattr(event, "res_op_failed_event", None)) is not None:
        return {"resOpFailedEvent": {"metadata": _metadata(held.metadata)}}
    if (held := getattr(event, "summary_event", None)) is not None:
        counts = {_plain(op): count for op, count in (held.resource_changes or {}).items()}
        return {"summaryEvent": {"resourceChanges": counts}}
    if (held := getattr(event, "diagnostic_event", None)) is not None:
        return {"diagnosticEvent": {"message": held.message, "severity": _plain(held.severity)}}
    return {}


def _metadata(of: Any) -> dict[str, Any]:
    return {
        "op": _plain(of.op),
        "urn": of.urn,
        "old": _state(of.old),
        "new": _state(of.new),
        "keys": list(of.keys or ()),
        "diffs": list(of.diffs or ()),
    }


def _state(of: Any) -> dict[str, Any] | None:
    return None if of is None else {key: getattr(of, name, None) for key, name in STATE.items()}


def _plain(word: Any) -> str:
    """Return an operation's name, whether the API gives it as text or as a member of an enumeration."""
    return str(getattr(word, "value", word))
