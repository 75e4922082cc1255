"""A preview (``pulumi preview --json``) as typed steps.

Unchanged resources are in it only with ``--show-sames``. A replacement comes as one step or as three
(create-replacement, replace, delete-replaced) with the same URN. An operation not known here is kept by its
name, so that a newer engine's changes are never taken for none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.engine.state import StateResource, parse_state_resource
from gpufleet.errors import InputError

REMEDY = "give the output of `pulumi preview --json`"
# The engine's opening words for a failed program say no more than that it failed.
UNINFORMATIVE_MESSAGES = ("preview failed", "update failed")


@dataclass(frozen=True)
class PreviewStep:
    """What the engine would do to one resource: ``old`` is before, ``new`` after; one of them may be absent."""

    op: str
    urn: str
    old: StateResource | None
    new: StateResource | None
    diff_reasons: tuple[str, ...] = ()
    replace_reasons: tuple[str, ...] = ()


def parse_pulumi_preview(document: Mapping[str, Any]) -> list[PreviewStep]:
    """Return the steps of a preview; a preview that failed, or another document, is an InputError."""
    if not isinstance(document, Mapping):
        raise InputError("the input is not a Pulumi preview: it is a list or a plain value", remedy=REMEDY)
    refuse_failed_preview(document)
    steps = document.get("steps")
    if steps is None and "changeSummary" in document:
        return []
    if not isinstance(steps, list):
        raise InputError(f"the input is not a Pulumi preview: {_describe_document(document)}", remedy=REMEDY)
    return [_parse_step(step) for step in steps]


def refuse_failed_preview(document: Mapping[str, Any]) -> None:
    """Raise an InputError with the cause where the diagnostics hold an error."""
    diagnostics = document.get("diagnostics") or []
    if not isinstance(diagnostics, list) or not all(isinstance(entry, Mapping) for entry in diagnostics):
        raise InputError(
            "the input is not a Pulumi preview: its diagnostics have an unknown structure", remedy=REMEDY
        )
    errors = [str(entry.get("message", "")) for entry in diagnostics if entry.get("severity") == "error"]
    if errors:
        message = next(
            (text for text in errors if text.strip().lower() not in UNINFORMATIVE_MESSAGES), errors[0]
        )
        raise InputError(
            f"the preview failed: {_last_line(message)}", remedy="make `pulumi preview` succeed first"
        )


def _last_line(message: str) -> str:
    """Return what a traceback ends in, which is its cause, without terminal colour."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    text = lines[-1] if lines else "no reason given"
    return text.removeprefix("error: ")[:300]


def _describe_document(document: Mapping[str, Any]) -> str:
    if "deployment" in document:
        return "it is the state of a stack"
    if "sequence" in document:
        return "it is one event of a stream"
    return "it has no 'steps'"


def _parse_step(step: Any) -> PreviewStep:
    if not isinstance(step, Mapping) or not isinstance(step.get("op"), str):
        raise InputError("the preview contains a step without 'op'", remedy=REMEDY)
    urn = step.get("urn")
    if not isinstance(urn, str) or urn.count("::") < 3:  # noqa: PLR2004 - urn:pulumi:stack::project::type::name
        raise InputError(f"the preview contains a step without a URN: {str(urn)[:80]!r}", remedy=REMEDY)
    old, new = step.get("oldState"), step.get("newState")
    if not old and not new:
        raise InputError(f"the preview contains a step without a state: {urn[:200]}", remedy=REMEDY)
    return PreviewStep(
        op=step["op"],
        urn=urn,
        old=parse_state_resource(old) if old else None,
        new=parse_state_resource(new) if new else None,
        diff_reasons=_parse_names(step.get("diffReasons")),
        replace_reasons=_parse_names(step.get("replaceReasons")),
    )


def _parse_names(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
