"""The resources of a stack before and after a change, from a preview, an event log or a state.

The engine's rules that affect cost:

* a replacement is one step or three with one URN: before is the old resource, after the new one;
* ``read`` and external resources are managed elsewhere and are never charged;
* a record pending deletion, and a resource retained on deletion, are still billed;
* a protected resource cannot be deleted: the saving will not happen;
* an unknown operation counts as a change from old to new;
* a resource with a pending replacement is deleted already and no longer billed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpufleet import engine
from gpufleet.cost.inputs.alias import rename_resources
from gpufleet.cost.inputs.drift import ignored_size_change_warnings
from gpufleet.engine import EventLogPhase, PreviewStep, StateResource
from gpufleet.errors import InputError

READ_OPERATIONS = frozenset({"read", "read-replacement", "discard", "discard-replaced", "read-discard"})
FORGET_OPERATIONS = frozenset(
    {"remove-pending-replace"}
)  # removes a record of a resource that is deleted already
LOG_REMEDY = "give the log of a preview or an update"
REMOVAL_OPERATIONS = frozenset({"delete", "delete-replaced"})
REPLACE_OPERATIONS = frozenset({"replace", "create-replacement", "delete-replaced", "import-replacement"})


@dataclass(frozen=True)
class StackChange:
    """The resources before and after a change, the operation on each URN, and warnings."""

    stack: str = ""
    before: tuple[StateResource, ...] = ()
    after: tuple[StateResource, ...] = ()
    ops: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    partial: bool = False  # the engine omitted resources: totals do not cover the stack
    overlaps: frozenset[str] = frozenset()  # URNs that run together with their replacement for a while
    missing_changes: tuple[str, ...] = ()  # why changes of the plan are not here: their effect is not known
    reported_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # changed inputs, by URN
    is_deployed_before: bool = False  # the resources before come from a state, those after from a program
    changed_files: frozenset[str] = frozenset()  # of the project, relative to it


@dataclass(frozen=True)
class MissingSteps:
    """What the engine counts and does not list, empty if nothing; ``has_all_changes``: only unchanged resources."""

    text: str = ""
    has_all_changes: bool = False


@dataclass
class _StackChangeDraft:
    """A StackChange under construction."""

    before: dict[str, StateResource] = field(default_factory=dict)
    after: dict[str, StateResource] = field(default_factory=dict)
    pending: list[StateResource] = field(default_factory=list)
    retained: list[StateResource] = field(default_factory=list)
    ops: dict[str, str] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)


def change_from_preview(document: Mapping[str, Any]) -> StackChange:
    """Return the change in a ``pulumi preview --json``."""
    steps = engine.parse_pulumi_preview(document)
    _check_counts(document.get("changeSummary"))
    counts = document.get("changeSummary")
    if not steps and not counts:  # the engine counts omitted steps too
        raise InputError("the preview has no steps", where="--preview", remedy="add --show-sames")
    change = _build_change(steps, _find_missing_steps(counts or {}, steps))
    config = engine.decode_properties(document.get("config"))
    before, after = (_with_default_providers(side, config) for side in (change.before, change.after))
    return replace(change, before=before, after=after)


def change_from_events(events: EventLogPhase) -> StackChange:
    """Return the change in an event log of a preview or an update."""
    if not events.steps and not events.summary:
        raise InputError("the event log has no resource in it", where="--event-log", remedy=LOG_REMEDY)
    missing = _find_missing_steps(events.summary or {}, events.steps)
    if events.is_truncated or events.summary is None:
        missing = MissingSteps("the event log is cut off before the engine's summary")
    if events.failed:
        missing = MissingSteps(f"the update failed at {len(events.failed)} of its resources")
    return _build_change(events.steps, missing)


def _with_default_providers(
    resources: tuple[StateResource, ...], config: Mapping[str, Any]
) -> tuple[StateResource, ...]:
    """Add the default providers, which a preview omits; their settings (a region) are in its config."""
    known_urns = {resource.urn for resource in resources}
    provider_urns = {resource.provider.rpartition("::")[0] for resource in resources if resource.provider}
    default_providers = []
    for urn in sorted(provider_urns - known_urns):
        package = (
            engine.parse_type_from_urn(urn).removeprefix("pulumi:providers:") if urn.count("::") > 2 else ""  # noqa: PLR2004
        )
        settings = {
            key.partition(":")[2]: value for key, value in config.items() if key.startswith(f"{package}:")
        }
        if package and settings:
            name = urn.rsplit("::", 1)[-1]
            default_providers.append(StateResource(urn, f"pulumi:providers:{package}", name, settings, {}))
    return (*resources, *default_providers)


def _build_change(steps: Sequence[PreviewStep], missing: MissingSteps) -> StackChange:
    draft = _StackChangeDraft()
    for step in steps:
        _apply_step(step, draft)
    _settle_deletions(draft)
    after = (*draft.after.values(), *draft.retained)
    draft.warnings += ignored_size_change_warnings(after)
    draft.warnings += _repeated_step_warnings((step.urn, step.op) for step in steps)
    draft.warnings += [f"totals are partial: {missing.text}"] if missing.text else []
    return StackChange(
        stack=next((step.urn.split("::")[0].removeprefix("urn:pulumi:") for step in steps), ""),
        before=rename_resources((*draft.before.values(), *draft.pending), _find_new_urns(steps)),
        after=after,
        ops=draft.ops,
        warnings=tuple(draft.warnings),
        partial=bool(missing.text),
        overlaps=_overlapping_urns(steps),
        missing_changes=(missing.text,) if missing.text and not missing.has_all_changes else (),
        reported_keys={step.urn: step.diff_reasons for step in steps if step.diff_reasons},
    )


def _find_new_urns(steps: Iterable[PreviewStep]) -> dict[str, str]:
    """Return the new URN of each resource that the engine found by an alias."""
    return {step.old.urn: step.urn for step in steps if step.old and step.old.urn != step.urn}


def resources_from_state(document: Mapping[str, Any]) -> list[StateResource]:
    """Return the billable resources of a ``pulumi stack export``, including those pending deletion."""
    return [resource for resource in engine.parse_stack_state(document) if is_billable(resource)]


def is_billable(resource: StateResource) -> bool:
    """Return whether the stack pays for a resource: managed here, not a view of another one, not deleted."""
    return _is_managed(resource) and not resource.pending_replacement


def _is_managed(resource: StateResource) -> bool:
    return not resource.external and resource.view_of is None


def _apply_step(step: PreviewStep, draft: _StackChangeDraft) -> None:
    resource = step.new or step.old
    if step.op in READ_OPERATIONS or resource is None or not _is_managed(resource):
        return
    if step.op in FORGET_OPERATIONS:
        draft.forgotten.add(step.urn)
        return
    if step.op in REMOVAL_OPERATIONS:
        _apply_removal(step, draft)
        return
    draft.ops[step.urn] = "replace" if step.op in REPLACE_OPERATIONS else step.op
    if step.old and step.op not in ("create", "import"):
        draft.before[step.urn] = _without_delete_mark(step.old)
    if step.new:
        draft.after[step.urn] = (
            step.new if draft.ops[step.urn] == "replace" else _with_known_outputs(step.old, step.new)
        )


def _settle_deletions(draft: _StackChangeDraft) -> None:
    """Drop resources that were deleted before; a lone record marked for deletion is the live resource."""
    for urn in draft.forgotten:
        draft.before.pop(urn, None)
    for resource in draft.pending[:]:
        if resource.urn not in draft.before and resource.urn not in draft.after:
            draft.pending.remove(resource)
            draft.before[resource.urn] = _without_delete_mark(resource)
            draft.ops[resource.urn] = "delete"


def _repeated_step_warnings(steps: Iterable[tuple[str, str]]) -> list[str]:
    """Warn about URNs with the same operation more than once: only the last step counts."""
    counts = Counter(steps)
    return [
        f"{urn.rsplit('::', 1)[-1]}: {count} {op} steps with one URN, only the last is counted"
        for (urn, op), count in counts.items()
        if count > 1 and op not in (*REMOVAL_OPERATIONS, *READ_OPERATIONS)
    ]


def _without_delete_mark(old: StateResource) -> StateResource:
    """Return a resource without the delete mark: the engine sets it on resources that the plan deletes."""
    return replace(old, delete=False) if old.delete else old


def _with_known_outputs(old: StateResource | None, new: StateResource) -> StateResource:
    """Return the new state with the old id and outputs: a preview omits them."""
    if old is None or (new.id and new.outputs):
        return new
    return replace(new, id=new.id or old.id, outputs=new.outputs or old.outputs)


def _apply_removal(step: PreviewStep, draft: _StackChangeDraft) -> None:
    old = step.old
    if old is None:
        return
    if old.delete and step.op == "delete":
        draft.pending.append(old)
        return
    draft.before[step.urn] = _without_delete_mark(old)
    draft.ops[step.urn] = "replace" if step.op in REPLACE_OPERATIONS else "delete"
    if old.retain_on_delete:
        draft.retained.append(old)
        draft.warnings.append(describe_kept_resource(old))
    elif old.protect and step.op == "delete":
        draft.after[step.urn] = old
        draft.warnings.append(describe_kept_resource(old))


def describe_kept_resource(resource: StateResource) -> str:
    """Return why a resource still bills after its removal, empty if it does not."""
    if resource.retain_on_delete:
        return f"{resource.name} is retained on deletion and is still billed outside the stack"
    if resource.protect:
        return f"{resource.name} is protected: the engine will refuse to delete it, so nothing is saved"
    return ""


def _overlapping_urns(steps: Iterable[PreviewStep]) -> frozenset[str]:
    """Return the URNs that are replaced create-first, which is the engine's default order.

    The engine marks the old state of a delete-first replacement as pending replacement.
    """
    first_operations: dict[str, str] = {}
    for step in steps:
        if step.op in REPLACE_OPERATIONS and step.old and not step.old.pending_replacement:
            first_operations.setdefault(step.urn, step.op)
    return frozenset(urn for urn, op in first_operations.items() if op != "delete-replaced")


def _check_counts(counts: Any) -> None:
    if counts and not (
        isinstance(counts, Mapping) and all(isinstance(count, int) for count in counts.values())
    ):
        raise InputError("is not a count of operations", key="changeSummary", remedy=engine.REMEDY)


def _find_missing_steps(counts: Mapping[str, int], steps: Iterable[PreviewStep]) -> MissingSteps:
    """Compare the engine's count of steps with the listed steps."""
    listed_steps = Counter(step.op for step in steps)
    missing_operations = [op for op in counts if op != "same" and listed_steps[op] < counts[op]]
    if missing_operations:
        return MissingSteps(f"the preview counts more {' and '.join(missing_operations)} steps than it lists")
    unchanged = counts.get("same", 0) - listed_steps["same"]
    if unchanged > 0:
        text = f"{unchanged} unchanged resources are not in this preview; add --show-sames for totals"
        return MissingSteps(text, has_all_changes=True)
    return MissingSteps()
