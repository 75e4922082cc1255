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
from gpufleet.engine.document import UNEXPECTED, reading
from gpufleet.engine.preview import Step, refuse_failure
from gpufleet.engine.state import parse_resource
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
class Events:
    """The last phase of a log: its steps, the engine's own count of them, and how it ended.

    ``planning`` tells a preview from an update; ``summary`` is None where the log ends before it.
    """

    steps: list[Step] = field(default_factory=list)
    summary: dict[str, int] | None = None
    planning: bool = True
    failed: list[str] = field(default_factory=list)
    errors: list[Mapping[str, Any]] = field(default_factory=list, repr=False)
    cut: bool = False
    places: dict[tuple[str, str], int] = field(
        default_factory=dict, repr=False
    )  # of steps, by URN and operation


def read_events(text: str, where: str) -> Events:
    """Return what an event log says; a last line that was cut off is left out, another is an InputError."""
    if not text.strip():
        raise InputError("empty: the engine wrote no event", where=where, remedy=REMEDY)
    found: list[Mapping[str, Any]] = []
    cut: InputError | None = None
    value: Any
    for at, value in decode_json_lines(text, where, ENGINE_DOCUMENT):
        if cut is not None:
            raise cut
        why = _why_not_event(value)
        if not why:
            found.append(value)
            continue
        refusal = InputError(f"not an engine event: {why}", where=f"{where}:{at}", remedy=REMEDY)
        if not isinstance(value, NotJsonError) or not found:
            raise refusal
        cut = refusal  # a mistake, unless it is the last line
    with reading(where):
        events = parse_events(found)
    events.cut = cut is not None
    return events


def parse_events(events: Iterable[Mapping[str, Any]]) -> Events:
    """Return the last phase in a sequence of events; a preview that failed is an InputError."""
    phases = [Events()]
    for event in events:
        if phases[-1].summary is not None and "resourcePreEvent" in event:
            phases.append(Events())
        try:
            _take(event, phases[-1])
        except InputError:
            raise
        except UNEXPECTED as error:
            raise InputError(
                f"an engine event of another shape: {type(error).__name__} {error}", remedy=REMEDY
            ) from None
    told = next((phase for phase in reversed(phases) if phase.steps), phases[-1])
    if told.planning:
        refuse_failure({"diagnostics": told.errors})
    return told


def _why_not_event(value: Any) -> str:
    """Return why a line is not an event of the engine's, or nothing."""
    if isinstance(value, NotJsonError):
        return value.reason
    if isinstance(value, InputError):
        return value.problem
    if not isinstance(value, dict):
        return "not an object"
    return "" if KINDS & value.keys() or "sequence" in value else "no event in it"


def _take(event: Mapping[str, Any], phase: Events) -> None:
    if (held := event.get("resourcePreEvent")) is not None:
        phase.planning = bool(held.get("planning", False))
        step = _step(held["metadata"])
        phase.places[step.urn, step.op] = len(phase.steps)
        phase.steps.append(step)
    elif held := event.get("resOutputsEvent"):
        _complete(held["metadata"], phase)
    elif held := event.get("resOpFailedEvent"):
        phase.failed.append(str(held["metadata"]["urn"]))
    elif held := event.get("summaryEvent"):
        phase.summary = {str(op): int(count) for op, count in (held.get("resourceChanges") or {}).items()}
    elif (held := event.get("diagnosticEvent")) and held.get("severity") == "error":
        phase.errors.append({**held, "message": COLOUR.sub("", str(held.get("message", "")))})


def _complete(metadata: Mapping[str, Any], phase: Events) -> None:
    """Give a step's new resource the id and outputs that it got, which others refer to it by."""
    new = metadata.get("new")
    at = phase.places.get((str(metadata["urn"]), str(metadata["op"])))
    step = None if at is None else phase.steps[at]
    if at is None or step is None or step.new is None or not new:
        return
    made = parse_resource(new)
    kept = replace(step.new, id=made.id or step.new.id, outputs=made.outputs or step.new.outputs)
    phase.steps[at] = replace(step, new=kept)


def _step(metadata: Mapping[str, Any]) -> Step:
    old, new = metadata.get("old"), metadata.get("new")
    return Step(
        op=str(metadata["op"]),
        urn=str(metadata["urn"]),
        old=parse_resource(old) if old else None,
        new=parse_resource(new) if new else None,
        diff_reasons=tuple(metadata.get("diffs") or ()),
        replace_reasons=tuple(metadata.get("keys") or ()),
    )
