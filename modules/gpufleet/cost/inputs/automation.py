"""Read a run of Pulumi's Automation API, from the events that ``on_event`` received.

    events = []
    result = stack.preview(on_event=events.append)
    change = gpufleet.cost.change_from_automation(events, result)

The results of the API hold counts and text only (``PreviewResult.change_summary``,
``UpResult.summary.resource_changes``); the resources are in the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpufleet.cost.inputs.stack_change import StackChange, change_from_events
from gpufleet.engine import parse_last_phase_of_events
from gpufleet.errors import InputError

STATE_ATTRIBUTES = {
    "type": "type", "urn": "urn", "id": "id", "parent": "parent", "provider": "provider", "custom": "custom",
    "delete": "delete", "protect": "protect", "retainOnDelete": "retain_on_delete", "inputs": "inputs",
    "outputs": "outputs",
}  # fmt: skip


def change_from_automation(events: Iterable[Any], result: Any = None) -> StackChange:
    """Return the change of a preview or an update; ``result`` gives the counts if no event does."""
    documents = [event if isinstance(event, Mapping) else _event_document(event) for event in events]
    parsed = parse_last_phase_of_events(documents)
    if not parsed.steps and parsed.summary is None:
        raise InputError(
            "no event has a resource",
            where="change_from_automation",
            remedy="collect them: on_event=events.append",
        )
    if parsed.summary is None:
        parsed.summary = _operation_counts(result)
    return change_from_events(parsed)


def _operation_counts(result: Any) -> dict[str, int] | None:
    """Return the operation counts of a PreviewResult or an UpResult."""
    summary = getattr(result, "summary", None)
    counts = getattr(result, "change_summary", None) or getattr(summary, "resource_changes", None)
    return None if counts is None else {_operation_name(op): int(count) for op, count in counts.items()}


def _event_document(event: Any) -> dict[str, Any]:
    """Return the resource fields of an EngineEvent as the engine's JSON."""
    if (payload := getattr(event, "resource_pre_event", None)) is not None:
        return {
            "resourcePreEvent": {
                "metadata": _metadata_document(payload.metadata),
                "planning": bool(payload.planning),
            }
        }
    if (payload := getattr(event, "res_outputs_event", None)) is not None:
        return {"resOutputsEvent": {"metadata": _metadata_document(payload.metadata)}}
    if (payload := getattr(event, "res_op_failed_event", None)) is not None:
        return {"resOpFailedEvent": {"metadata": _metadata_document(payload.metadata)}}
    if (payload := getattr(event, "summary_event", None)) is not None:
        counts = {_operation_name(op): count for op, count in (payload.resource_changes or {}).items()}
        return {"summaryEvent": {"resourceChanges": counts}}
    if (payload := getattr(event, "diagnostic_event", None)) is not None:
        return {
            "diagnosticEvent": {"message": payload.message, "severity": _operation_name(payload.severity)}
        }
    return {}


def _metadata_document(metadata: Any) -> dict[str, Any]:
    return {
        "op": _operation_name(metadata.op),
        "urn": metadata.urn,
        "old": _state_document(metadata.old),
        "new": _state_document(metadata.new),
        "keys": list(metadata.keys or ()),
        "diffs": list(metadata.diffs or ()),
    }


def _state_document(state: Any) -> dict[str, Any] | None:
    return (
        None if state is None else {key: getattr(state, name, None) for key, name in STATE_ATTRIBUTES.items()}
    )


def _operation_name(operation: Any) -> str:
    """Return an operation's name; the API gives text or an enumeration member."""
    return str(getattr(operation, "value", operation))
