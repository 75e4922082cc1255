"""What a preview or a state says is there before and after: the resources that bill on each side.

The rules of the engine that decide about money, in one place:

* a replacement is one step or three with one URN: before is the old resource, after the new one;
* ``read`` and external resources belong to somebody else and are never charged;
* a record pending deletion, and a resource kept on deletion, go on billing;
* a protected resource cannot be deleted: the saving will not happen;
* an operation that is not known here counts as a change from old to new;
* a resource whose replacement is pending is gone already, and billed no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpufleet import engine
from gpufleet.cost.inputs.drift import ignored_sizes
from gpufleet.engine import Events, Resource, Step
from gpufleet.errors import InputError

READS = frozenset({"read", "read-replacement", "discard", "discard-replaced", "read-discard"})
FORGETS = frozenset({"remove-pending-replace"})  # takes a record away whose resource is gone already
LOG_REMEDY = "give the log of a preview or an update"
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
    partial: bool = False  # the engine left resources out: totals are not the stack's
    overlaps: frozenset[str] = frozenset()  # URNs whose successor runs (or may run) beside them for a while


@dataclass
class _Draft:
    """Sides while they are being put together."""

    before: dict[str, Resource] = field(default_factory=dict)
    after: dict[str, Resource] = field(default_factory=dict)
    pending: list[Resource] = field(default_factory=list)
    kept: list[Resource] = field(default_factory=list)
    ops: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)


def resources_from_preview(document: Mapping[str, Any]) -> Sides:
    """Return both sides of a ``pulumi preview --json``."""
    steps = engine.parse_preview(document)
    _counts(document.get("changeSummary"))
    if not steps and not document.get("changeSummary"):  # the engine counts what it leaves out
        raise InputError("the preview has no steps", where="--preview", remedy="add --show-sames")
    sides = _sides(steps, _left_out(document.get("changeSummary") or {}, steps))
    config = engine.decode_object(document.get("config"))
    before, after = (_with_default_providers(side, config) for side in (sides.before, sides.after))
    return replace(sides, before=before, after=after)


def resources_from_events(events: Events) -> Sides:
    """Return both sides of an event log: of the preview in it, or of the update that was carried out."""
    if not events.steps and not events.summary:
        raise InputError("the event log has no resource in it", where="--event-log", remedy=LOG_REMEDY)
    told = _left_out(events.summary or {}, events.steps)
    if events.cut or events.summary is None:
        told = "the event log ends before the engine's summary"
    if events.failed:
        told = f"the update failed at {len(events.failed)} of its resources"
    return _sides(events.steps, told)


def _with_default_providers(side: tuple[Resource, ...], config: Mapping[str, Any]) -> tuple[Resource, ...]:
    """Add the default providers, which a preview leaves out: what they know (a region) stands in its config."""
    known = {resource.urn for resource in side}
    named = {resource.provider.rpartition("::")[0] for resource in side if resource.provider}
    added = []
    for urn in sorted(named - known):
        package = engine.urn_type(urn).removeprefix("pulumi:providers:") if urn.count("::") > 2 else ""  # noqa: PLR2004
        said = {
            key.partition(":")[2]: value for key, value in config.items() if key.startswith(f"{package}:")
        }
        if package and said:
            name = urn.rsplit("::", 1)[-1]
            added.append(Resource(urn, f"pulumi:providers:{package}", name, said, {}))
    return (*side, *added)


def _sides(steps: Sequence[Step], left_out: str) -> Sides:
    draft = _Draft()
    for step in steps:
        _take(step, draft)
    _settle(draft)
    after = (*draft.after.values(), *draft.kept)
    draft.warnings += ignored_sizes(after)
    draft.warnings += _twice((step.urn, step.op) for step in steps)
    draft.warnings += [f"totals are partial: {left_out}"] if left_out else []
    return Sides(
        stack=next((step.urn.split("::")[0].removeprefix("urn:pulumi:") for step in steps), ""),
        before=(*draft.before.values(), *draft.pending),
        after=after,
        ops=draft.ops,
        warnings=tuple(draft.warnings),
        partial=bool(left_out),
        overlaps=_overlaps(steps),
    )


def resources_from_state(document: Mapping[str, Any]) -> list[Resource]:
    """Return the resources that bill, of a ``pulumi stack export``: those pending deletion included."""
    return [resource for resource in engine.parse_state(document) if billable(resource)]


def billable(resource: Resource) -> bool:
    """Tell whether a resource is ours to pay: not read from elsewhere, not another one's view, not gone."""
    return _ours(resource) and not resource.pending_replacement


def _ours(resource: Resource) -> bool:
    return not resource.external and resource.view_of is None


def _take(step: Step, draft: _Draft) -> None:
    resource = step.new or step.old
    if step.op in READS or resource is None or not _ours(resource):
        return
    if step.op in FORGETS:
        draft.gone.add(step.urn)
        return
    if step.op in REMOVALS:
        _remove(step, draft)
        return
    draft.ops[step.urn] = "replace" if step.op in REPLACES else step.op
    if step.old and step.op not in ("create", "import"):
        draft.before[step.urn] = _alive(step.old)
    if step.new:
        draft.after[step.urn] = (
            step.new if draft.ops[step.urn] == "replace" else _continued(step.old, step.new)
        )


def _settle(draft: _Draft) -> None:
    """Drop what was gone before; take a record marked for deletion for the live one, where it is alone."""
    for urn in draft.gone:
        draft.before.pop(urn, None)
    for resource in draft.pending[:]:
        if resource.urn not in draft.before and resource.urn not in draft.after:
            draft.pending.remove(resource)
            draft.before[resource.urn] = _alive(resource)
            draft.ops[resource.urn] = "delete"


def _twice(steps: Iterable[tuple[str, str]]) -> list[str]:
    """Name the URNs that one operation is done to more than once: only the last is counted."""
    counts = Counter(steps)
    return [
        f"{urn.rsplit('::', 1)[-1]}: {found} {op} steps with one URN, only the last is counted"
        for (urn, op), found in counts.items()
        if found > 1 and op not in (*REMOVALS, *READS)
    ]


def _alive(old: Resource) -> Resource:
    """Return a resource as it is before the plan: the engine marks what the plan itself will delete."""
    return replace(old, delete=False) if old.delete else old


def _continued(old: Resource | None, new: Resource) -> Resource:
    """Give a resource that stays the id and outputs that it has: a preview leaves them out of the new state."""
    if old is None or (new.id and new.outputs):
        return new
    return replace(new, id=new.id or old.id, outputs=new.outputs or old.outputs)


def _remove(step: Step, draft: _Draft) -> None:
    old = step.old
    if old is None:
        return
    if old.delete and step.op == "delete":
        draft.pending.append(old)
        return
    draft.before[step.urn] = _alive(old)
    draft.ops[step.urn] = "replace" if step.op in REPLACES else "delete"
    if old.retain_on_delete:
        draft.kept.append(old)
        draft.warnings.append(f"{old.name} is kept on deletion and goes on billing outside the stack")
    elif old.protect and step.op == "delete":
        draft.after[step.urn] = old
        draft.warnings.append(
            f"{old.name} is protected: the engine will refuse to delete it, so nothing is saved"
        )


def _overlaps(steps: Iterable[Step]) -> frozenset[str]:
    """Return what is replaced create-first; where the steps do not tell, the engine's usual order is taken.

    The engine marks the old state of a resource that it deletes first as pending replacement.
    """
    first: dict[str, str] = {}
    for step in steps:
        if step.op in REPLACES and step.old and not step.old.pending_replacement:
            first.setdefault(step.urn, step.op)
    return frozenset(urn for urn, op in first.items() if op != "delete-replaced")


def _counts(told: Any) -> None:
    if told and not (isinstance(told, Mapping) and all(isinstance(each, int) for each in told.values())):
        raise InputError("is no count of operations", key="changeSummary", remedy=engine.REMEDY)


def _left_out(told: Mapping[str, int], steps: Iterable[Step]) -> str:
    """Compare the engine's own count of steps with the steps that are here; say what is missing."""
    seen = Counter(step.op for step in steps)
    unchanged = told.get("same", 0) - seen["same"]
    if unchanged > 0:
        return f"{unchanged} unchanged resources are not in this preview; add --show-sames for totals"
    short = [op for op in told if op != "same" and seen[op] < told[op]]
    return f"the preview counts more {' and '.join(short)} steps than it lists" if short else ""
