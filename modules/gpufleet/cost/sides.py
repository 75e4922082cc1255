"""What a preview or a state says is there before and after: the resources that bill on each side.

The rules of the engine that decide about money, in one place:

* a replacement is one step or three with one URN: before is the old resource, after the new one;
* ``read`` and external resources belong to somebody else and are never charged;
* a record pending deletion, and a resource kept on deletion, go on billing;
* a protected resource cannot be deleted: the saving will not happen;
* an operation that is not known here counts as a change from old to new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpufleet import engine
from gpufleet.engine import Resource, Step

READS = frozenset({"read", "read-replacement", "discard", "discard-replaced", "read-discard"})
REMOVALS = frozenset({"delete", "delete-replaced"})
REPLACES = frozenset({"replace", "create-replacement", "delete-replaced", "import-replacement"})


@dataclass(frozen=True)
class Sides:
    """Both sides of a change, what is done to each URN, and what a reader must know about them."""

    stack: str = ""
    before: tuple[Resource, ...] = ()
    after: tuple[Resource, ...] = ()
    ops: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass
class _Draft:
    """Sides while they are being put together."""

    before: dict[str, Resource] = field(default_factory=dict)
    after: dict[str, Resource] = field(default_factory=dict)
    pending: list[Resource] = field(default_factory=list)
    kept: list[Resource] = field(default_factory=list)
    ops: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def resources_from_preview(document: Mapping[str, Any]) -> Sides:
    """Return both sides of a ``pulumi preview --json``."""
    steps = engine.parse_preview(document)
    draft = _Draft()
    for step in steps:
        _take(step, draft)
    draft.warnings += _partial(document, steps)
    return Sides(
        stack=next((step.urn.split("::")[0].removeprefix("urn:pulumi:") for step in steps), ""),
        before=(*draft.before.values(), *draft.pending),
        after=(*draft.after.values(), *draft.kept),
        ops=draft.ops,
        warnings=tuple(draft.warnings),
    )


def resources_from_state(document: Mapping[str, Any]) -> list[Resource]:
    """Return the resources that bill, of a ``pulumi stack export``: those pending deletion included."""
    return [resource for resource in engine.parse_state(document) if billable(resource)]


def billable(resource: Resource) -> bool:
    """Tell whether a resource is ours to pay: not read from elsewhere, not another one's view."""
    return not resource.external and resource.view_of is None


def _take(step: Step, draft: _Draft) -> None:
    resource = step.new or step.old
    if step.op in READS or resource is None or not billable(resource):
        return
    if step.op in REMOVALS:
        _remove(step, draft)
        return
    draft.ops[step.urn] = "replace" if step.op in REPLACES else step.op
    if step.old and step.op not in ("create", "import"):
        draft.before[step.urn] = step.old
    if step.new:
        draft.after[step.urn] = step.new


def _remove(step: Step, draft: _Draft) -> None:
    old = step.old
    if old is None:
        return
    if old.delete and step.op == "delete":
        draft.pending.append(old)
        return
    draft.before[step.urn] = old
    draft.ops[step.urn] = "replace" if step.op in REPLACES else "delete"
    if old.retain_on_delete:
        draft.kept.append(old)
        draft.warnings.append(f"{old.name} is kept on deletion and goes on billing outside the stack")
    elif old.protect and step.op == "delete":
        draft.after[step.urn] = old
        draft.warnings.append(
            f"{old.name} is protected: the engine will refuse to delete it, so nothing is saved"
        )


def _partial(document: Mapping[str, Any], steps: Iterable[Step]) -> list[str]:
    """Compare the engine's own count of steps with the steps that are here."""
    told = document.get("changeSummary") or {}
    seen: dict[str, int] = {}
    for step in steps:
        seen[step.op] = seen.get(step.op, 0) + 1
    if told.get("same", 0) > 0 and not seen.get("same"):
        return [
            f"{told['same']} unchanged resources are not in this preview, so totals are partial: add --show-sames"
        ]
    short = [
        op
        for op, count in told.items()
        if op in ("create", "update", "delete", "same") and seen.get(op, 0) < count
    ]
    return (
        [f"the preview counts more {' and '.join(short)} steps than it lists, so totals are partial"]
        if short
        else []
    )
