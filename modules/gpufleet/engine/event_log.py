"""An event log (``--event-log FILE``, what the Automation API reads too) as the typed steps of a preview.

One JSON object a line. A log may hold several phases (a preview, then the update): each ends with a summary,
and the last one that did anything counts. The log carries whole states: whatever the program did not mark as
a secret is in it in plain text, so it is read here and never repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpufleet.boundary import ENGINE_DOCUMENT, NotJsonError, decode_json_lines
from gpufleet.engine.engine_json import UNEXPECTED, add_source_to_errors
from gpufleet.engine.preview import PreviewStep, refuse_failed_preview
from gpufleet.engine.state import parse_state_resource
from gpufleet.errors import InputError

COLOUR = re.compile(r"<\{%.*?%\}>")  # the log keeps the engine's colour directives
REMEDY = "give the file that --event-log wrote"
KINDS = frozenset(
    {
        "cancelEvent", "diagnosticEvent", "policyEvent", "preludeEvent", "resOpFailedEvent", "resOutputsEvent",
        "resourcePreEvent", "startDebuggingEvent", "stdoutEvent", "summaryEvent",
    }
)  # fmt: skip


@dataclass
class EventLogPhase:
    """The last phase of a log: its steps, the engine's own count of them, and how it ended.

    ``is_preview`` distinguishes a preview from an update; ``summary`` is None where the log ends before it.
    """

    steps: list[PreviewStep] = field(default_factory=list)
    summary: dict[str, int] | None = None
    is_preview: bool = True
    failed: list[str] = field(default_factory=list)
    errors: list[Mapping[str, Any]] = field(default_factory=list, repr=False)
    is_truncated: bool = False
    step_index: dict[tuple[str, str], int] = field(
        default_factory=dict, repr=False
    )  # of steps, by URN and operation


def parse_last_phase_of_log(text: str, where: str) -> EventLogPhase:
    """Return the last phase of an event log; a last line that was cut off is left out, another is an InputError."""
    if not text.strip():
        raise InputError("is empty: the Pulumi engine wrote no event", where=where, remedy=REMEDY)
    records: list[Mapping[str, Any]] = []
    error_at_end: InputError | None = None
    value: Any
    for line_number, value in decode_json_lines(text, where, ENGINE_DOCUMENT):
        if error_at_end is not None:
            raise error_at_end
        problem = _describe_invalid_event(value)
        if not problem:
            records.append(value)
            continue
        error = InputError(
            f"is not an engine event: {problem}", where=f"{where}:{line_number}", remedy=REMEDY
        )
        if not isinstance(value, NotJsonError) or not records:
            raise error
        error_at_end = error  # a mistake, unless it is the last line
    with add_source_to_errors(where):
        events = parse_last_phase_of_events(records)
    events.is_truncated = error_at_end is not None
    return events


def parse_last_phase_of_events(events: Iterable[Mapping[str, Any]]) -> EventLogPhase:
    """Return the last phase in a sequence of events; a preview that failed is an InputError."""
    phases = [EventLogPhase()]
    for event in events:
        if phases[-1].summary is not None and "resourcePreEvent" in event:
            phases.append(EventLogPhase())
        try:
            _add_event(event, phases[-1])
        except InputError:
            raise
        except UNEXPECTED as error:
            raise InputError(
                f"contains an engine event of unknown structure: {type(error).__name__} {error}",
                remedy=REMEDY,
            ) from None
    last_phase = next((phase for phase in reversed(phases) if phase.steps), phases[-1])
    if last_phase.is_preview:
        refuse_failed_preview({"diagnostics": last_phase.errors})
    return last_phase


def _describe_invalid_event(value: Any) -> str:
    """Return why a line is not an event of the engine's, or nothing."""
    if isinstance(value, NotJsonError):
        return value.reason
    if isinstance(value, InputError):
        return value.problem
    if not isinstance(value, dict):
        return "not an object"
    return "" if KINDS & value.keys() or "sequence" in value else "it contains no event"


def _add_event(event: Mapping[str, Any], phase: EventLogPhase) -> None:
    if (content := event.get("resourcePreEvent")) is not None:
        phase.is_preview = bool(content.get("planning", False))
        step = _parse_step(content["metadata"])
        phase.step_index[step.urn, step.op] = len(phase.steps)
        phase.steps.append(step)
    elif content := event.get("resOutputsEvent"):
        _complete_step(content["metadata"], phase)
    elif content := event.get("resOpFailedEvent"):
        phase.failed.append(str(content["metadata"]["urn"]))
    elif content := event.get("summaryEvent"):
        phase.summary = {str(op): int(count) for op, count in (content.get("resourceChanges") or {}).items()}
    elif (content := event.get("diagnosticEvent")) and content.get("severity") == "error":
        phase.errors.append({**content, "message": COLOUR.sub("", str(content.get("message", "")))})


def _complete_step(metadata: Mapping[str, Any], phase: EventLogPhase) -> None:
    """Give a step's new resource the id and outputs that it got, which others refer to it by."""
    new = metadata.get("new")
    index = phase.step_index.get((str(metadata["urn"]), str(metadata["op"])))
    step = None if index is None else phase.steps[index]
    if index is None or step is None or step.new is None or not new:
        return
    created = parse_state_resource(new)
    resource = replace(step.new, id=created.id or step.new.id, outputs=created.outputs or step.new.outputs)
    phase.steps[index] = replace(step, new=resource)


def _parse_step(metadata: Mapping[str, Any]) -> PreviewStep:
    old, new = metadata.get("old"), metadata.get("new")
    return PreviewStep(
        op=str(metadata["op"]),
        urn=str(metadata["urn"]),
        old=parse_state_resource(old) if old else None,
        new=parse_state_resource(new) if new else None,
        diff_reasons=tuple(metadata.get("diffs") or ()),
        replace_reasons=tuple(metadata.get("keys") or ()),
    )
