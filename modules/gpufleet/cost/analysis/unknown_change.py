"""Changes whose effect on the cost is not known: their inputs changed, and not all that they bill has a price.

A resource without a gap has a known effect: the bills have it, but for changed inputs that bill by use and that no
pricer reads (``data/unpriced_inputs.csv``). Of one with a gap every changed input counts, but for those that never
bill. So does a change of what decides its bill: a template, a provider, a file that it names, and what sets its size
or its use (``data/size_setters.csv``); where the gap is a value that only deployment decides, every file of the
program. A gap that differs by itself counts too, because then something that the pricer reads has changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import PurePosixPath

from gpufleet.cost.analysis.size_setter import ANYTHING, NO_SETTER, find_size_setter
from gpufleet.cost.formatting import replace_control_characters
from gpufleet.cost.inputs.graph import ResourceGraph, strip_api_version
from gpufleet.cost.inputs.input_change import find_changed_inputs, is_never_billed, list_texts
from gpufleet.cost.inputs.stack_change import StackChange
from gpufleet.cost.inputs.terms import find_owner_tag, read_resource_tags
from gpufleet.cost.inputs.values import MARKER_REASONS
from gpufleet.cost.pricing.bill import Bill, UnpricedResource
from gpufleet.cost.pricing.billing import find_free_reason
from gpufleet.cost.pricing.unpriced_input import find_unpriced_inputs
from gpufleet.engine import SECRET, UNKNOWN, StateResource

MAX_LISTED_NAMES = 4
USAGE = "usage"  # in a policy's list of types: what bills by use only
VERBS = {"create": "is new", "delete": "is deleted", "replace": "is replaced"}
DECIDES_ANOTHER_BILL = "billed through what"  # the reason of templates: what is made of them bills
ON_MACHINES = "runs on machines that are billed"
POD_MACHINES = ("machine:auto", "pods")  # components of clusters that start machines as pods ask for them
# A value that deployment, a secret or a look-up decides is the same before and after, whatever made it.
NOT_KNOWN = re.compile(
    rf"{MARKER_REASONS[UNKNOWN]}|\b(is|are) {MARKER_REASONS[SECRET]}|<[\w-]+:[\w/.-]+(:\w+)?>"
)
DOCUMENTATION = (".md", ".rst")
POD_AUTOSCALERS = re.compile(r":(Horizontal|Vertical)PodAutoscaler(List|Patch)?$")
# They have a pricer: their disks bill.
STATEFUL_SETS = re.compile(r"kubernetes:apps/[^:]*:StatefulSet(List|Patch)?$")
POD_SIZES = re.compile(r"(^|[.\]])(replicas|resources|parallelism|completions|schedule)\b")


@dataclass(frozen=True)
class UnknownChange:
    """A changed resource, or a part of the change, whose effect on the cost is not known.

    ``inputs`` are the paths that changed, ``causes`` the changed files and resources that decide about it. Without a
    URN it concerns the whole change: its steps are not all here.
    """

    urn: str
    type: str
    name: str
    op: str
    reason: str
    inputs: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    pool: str = ""
    owner: str = ""
    is_by_use: bool = False  # all that has no price in it bills by use only

    def __str__(self) -> str:
        """Return one line: the resource, what happens to it, and why its price is not known."""
        if not self.urn:
            return f"{self.name}: {self.reason}" if self.name else self.reason
        if self.inputs:
            changed = f"changes {shorten_list(self.inputs)}"
        else:
            changed = f"changes through {shorten_list(self.causes) or 'what it refers to'}"
        return f"{self.name} ({self.type}) {VERBS.get(self.op) or changed}: {self.reason}"


def shorten_list(names: tuple[str, ...]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - MAX_LISTED_NAMES
    return f"{', '.join(names[:MAX_LISTED_NAMES])}{f' and {more} more' if more > 0 else ''}"


@dataclass(frozen=True)
class _Sides:
    """The live resources and the gaps of a change, by URN."""

    before: dict[str, StateResource]
    after: dict[str, StateResource]
    gaps_before: dict[str, tuple[UnpricedResource, ...]]
    gaps_after: dict[str, tuple[UnpricedResource, ...]]
    change: StackChange

    def changed_inputs(self, urn: str) -> tuple[str, ...] | None:
        """Return the changed inputs of a resource; None if it is created or deleted."""
        old, new = self.before.get(urn), self.after.get(urn)
        if old is None or new is None:
            return None
        if self.change.ops.get(urn) == "same":
            return ()
        return find_changed_inputs(
            old,
            new,
            is_deployed_before=self.change.is_deployed_before,
            reported_keys=self.change.reported_keys.get(urn, ()),
        )

    def is_changed(self, urn: str) -> bool:
        """Return whether a resource is created, deleted, or has changed inputs that may bill."""
        return (urn in self.before or urn in self.after) and self.changed_inputs(urn) != ()

    @cached_property
    def changed_files(self) -> frozenset[str]:
        """The changed files of the program: documentation does not decide a bill."""
        return frozenset(file for file in self.change.changed_files if not file.endswith(DOCUMENTATION))

    @cached_property
    def referenced_urns(self) -> frozenset[str]:
        """The URNs that inputs of a resource were made from, before or after the change."""
        resources = (*self.before.values(), *self.after.values())
        return frozenset(
            urn for each in resources for urns in each.property_dependencies.values() for urn in urns
        )

    @cached_property
    def setters(self) -> dict[str, set[str]]:
        """The URNs of changed resources that set the size or the use of one with a gap, by the URN of that one."""
        found: dict[str, set[str]] = {}
        for side in (self.before, self.after):
            graph = ResourceGraph(side.values())
            for setter in side.values():
                path = find_size_setter(setter).target
                if path in ("", ANYTHING) or not self.is_changed_setter(setter.urn):
                    continue
                for urn in self._find_targets(setter, path, graph):
                    found.setdefault(urn, set()).add(setter.urn)
        return found

    def is_changed_setter(self, urn: str) -> bool:
        """Return whether a resource that sets a size changes, or what decides it: the rule of an event's target."""
        return self.is_changed(urn) or any(
            self.is_changed(each) for each in self.references(urn) if _is_decided_by(self, each)
        )

    def references(self, urn: str) -> frozenset[str]:
        """Return the URNs that inputs of a resource were made from, before or after the change."""
        sides = (side[urn] for side in (self.before, self.after) if urn in side)
        return frozenset(
            each for side in sides for urns in side.property_dependencies.values() for each in urns
        )

    def _find_targets(self, setter: StateResource, path: str, graph: ResourceGraph) -> Iterator[str]:
        """Yield the resources with a gap that an input names; also through what bills nothing: an alias, a target."""
        steps = tuple(int(step) if step.isdigit() else step for step in path.split("."))
        pending, visited = [*setter.property_dependencies.get(str(steps[0]), ())], set[str]()
        if not pending:
            types = {strip_api_version(gap.type) for gap in self.gaps}
            target = graph.find_referenced_resource(setter, steps, *types)
            pending = [target.urn] if target else []
        while pending:
            urn = pending.pop()
            resource = graph.get_resource(urn)
            if resource is None or urn in visited:
                continue
            visited.add(urn)
            if self.has_gap(urn):
                yield urn
            elif _free_reason(resource):
                pending += [each for urns in resource.property_dependencies.values() for each in urns]

    @property
    def gaps(self) -> Iterator[UnpricedResource]:
        """The gaps before and after the change."""
        for side in (self.gaps_before, self.gaps_after):
            for each in side.values():
                yield from each

    def list_gaps(self, urn: str) -> tuple[UnpricedResource, ...]:
        """Return the gaps of a resource before and after the change."""
        return (*self.gaps_before.get(urn, ()), *self.gaps_after.get(urn, ()))

    def has_gap(self, urn: str) -> bool:
        return urn in self.gaps_before or urn in self.gaps_after


def find_unknown_changes(
    before: Iterable[StateResource],
    after: Iterable[StateResource],
    old_bill: Bill,
    new_bill: Bill,
    change: StackChange,
) -> tuple[UnknownChange, ...]:
    """Return the changes whose effect on the cost is not known, by name."""
    sides = _Sides(
        {each.urn: each for each in before if not each.delete},
        {each.urn: each for each in after if not each.delete},
        _group_gaps(old_bill, has_bounded=True),
        _group_gaps(new_bill, has_bounded=False),
        change,
    )
    found = (*_find_gap_changes(sides), *_find_deciding_changes(sides))
    incomplete = [describe_unlisted_change(text) for text in change.missing_changes]
    return (*incomplete, *sorted(found, key=lambda each: (each.name, each.urn)))


def describe_unlisted_change(text: str) -> UnknownChange:
    """Return a change that is of no single resource."""
    return UnknownChange("", "", "", "", text)


def _group_gaps(bill: Bill, *, has_bounded: bool) -> dict[str, tuple[UnpricedResource, ...]]:
    """Return the gaps of each resource. The expected value of a bounded gap is its highest: too much only before."""
    groups: dict[str, tuple[UnpricedResource, ...]] = {}
    for gap in bill.unpriced_resources:
        if has_bounded or not gap.is_bounded:
            groups[gap.urn] = (*groups.get(gap.urn, ()), gap)
    return groups


def _find_gap_changes(sides: _Sides) -> Iterator[UnknownChange]:
    """Yield the resources with a gap that change, by themselves or by what decides their bill."""
    for urn in {*sides.gaps_before, *sides.gaps_after}:
        inputs = sides.changed_inputs(urn)
        causes = () if inputs is None or inputs else _find_causes(sides, urn)
        if inputs is None or inputs or causes or _has_other_gap(sides, urn):
            gap = (sides.gaps_after.get(urn) or sides.gaps_before[urn])[0]
            yield _describe_change(sides, urn, inputs, gap, causes)


def _describe_change(
    sides: _Sides,
    urn: str,
    inputs: tuple[str, ...] | None,
    gap: UnpricedResource,
    causes: tuple[str, ...] = (),
) -> UnknownChange:
    return UnknownChange(
        urn,
        gap.type,
        gap.name,
        _operation(sides, urn),
        f"{gap.component}: {gap.reason}" if gap.component else gap.reason,
        tuple(map(replace_control_characters, inputs or ())),
        tuple(map(replace_control_characters, causes)),
        gap.pool,
        gap.owner,
        all(each.is_by_use for each in sides.list_gaps(urn)) if sides.has_gap(urn) else gap.is_by_use,
    )


def _operation(sides: _Sides, urn: str) -> str:
    if urn not in sides.before:
        return "create"
    if urn not in sides.after:
        return "delete"
    return "replace" if sides.change.ops.get(urn) == "replace" else "update"


def _has_other_gap(sides: _Sides, urn: str) -> bool:
    """Return whether what has no price differs: of a gap on one side only, and of its reason or count."""
    if urn not in sides.before or urn not in sides.after:
        return True
    old, new = (
        {(gap.component, gap.reason, gap.count) for gap in gaps.get(urn, ()) if not gap.is_bounded}
        for gaps in (sides.gaps_before, sides.gaps_after)
    )
    return old != new


def _find_causes(sides: _Sides, urn: str) -> tuple[str, ...]:
    """Return the changed providers, templates, setters and files that decide the bill of an unchanged resource."""
    new = sides.after[urn]
    provider_urn = (new.provider or "").rpartition("::")[0]
    is_provider_changed = provider_urn in sides.before and provider_urn in sides.after
    urns = {provider_urn} if is_provider_changed and sides.is_changed(provider_urn) else set()
    references = sides.references(urn)
    urns |= {each for each in references if _is_decided_by(sides, each) and sides.is_changed(each)}
    urns |= sides.setters.get(urn, set())
    if not urns and _has_other_gap(
        sides, urn
    ):  # a pricer reads more than the above: a disk, a cluster, a subnet
        urns = {each for each in references if sides.is_changed(each)}
    resources = (sides.after.get(each) or sides.before[each] for each in urns)
    type_ = strip_api_version(new.type)
    billed = {name: value for name, value in new.inputs.items() if not is_never_billed(type_, name)}
    files = {text for text in list_texts(billed) if _names_changed_file(text, sides.changed_files)}
    if any(NOT_KNOWN.search(gap.reason) for gap in sides.gaps_after.get(urn, ())):
        files |= sides.changed_files
    return (*sorted(f"{each.name} ({each.type})" for each in resources), *sorted(files))


def _names_changed_file(text: str, changed: frozenset[str]) -> bool:
    """Return whether a text is the path of a changed file, or of a folder with one."""
    if not changed or not text or len(text) > 1000 or "\n" in text:  # noqa: PLR2004 - no path is so long
        return False
    path = str(PurePosixPath(text))
    return path in changed or any(each.startswith(f"{path}/") or path == "." for each in changed)


def _is_decided_by(sides: _Sides, urn: str) -> bool:
    """Return whether a resource decides the bill of those that refer to it."""
    resource = sides.after.get(urn) or sides.before.get(urn)
    if resource is None:
        return False
    setter = find_size_setter(resource)
    return _free_reason(resource).startswith(DECIDES_ANOTHER_BILL) or (
        setter != NO_SETTER and not setter.target
    )


def _free_reason(resource: StateResource) -> str:
    return find_free_reason(strip_api_version(resource.type)) if resource.custom else ""


def _find_deciding_changes(sides: _Sides) -> Iterator[UnknownChange]:
    """Yield changed resources that bill nothing themselves and decide what others bill, without a price for those."""
    rules: tuple[tuple[Callable[[StateResource], str], bool], ...] = (
        (_size_setter_reason, True),
        (lambda each: _unpriced_input_reason(each, sides), True),
        (lambda each: _lonely_template_reason(each, sides), bool(sides.gaps_before or sides.gaps_after)),
        (lambda each: _pod_reason(each, sides), _starts_machines_for_pods(sides)),
    )
    for find_reason in (find_reason for find_reason, is_needed in rules if is_needed):
        for urn in {*sides.before, *sides.after}:
            resource = sides.after.get(urn) or sides.before[urn]
            if sides.has_gap(urn) or not resource.custom:
                continue
            reason = find_reason(resource)
            if reason and sides.is_changed(urn):
                yield _describe_deciding_change(sides, resource, reason)


def _describe_deciding_change(sides: _Sides, resource: StateResource, reason: str) -> UnknownChange:
    tags = read_resource_tags(resource.inputs)
    gap = UnpricedResource(
        resource.urn,
        resource.type,
        replace_control_characters(resource.name),
        reason,
        pool=replace_control_characters(tags.get("gpufleet-pool", "")),
        owner=replace_control_characters(find_owner_tag(tags)),
    )
    return _describe_change(sides, resource.urn, sides.changed_inputs(resource.urn), gap)


def _size_setter_reason(resource: StateResource) -> str:
    """Return what a type sets the size of, which no pricer reads."""
    setter = find_size_setter(resource)
    return setter.why if setter.target == ANYTHING else ""


def _unpriced_input_reason(resource: StateResource, sides: _Sides) -> str:
    """Return why a changed input of a live resource counts: it bills by use, and no pricer reads it."""
    changed = {re.split(r"[.\[]", path, maxsplit=1)[0] for path in sides.changed_inputs(resource.urn) or ()}
    if not changed:
        return ""
    old, new = sides.before[resource.urn].inputs, sides.after[resource.urn].inputs
    return next(
        (
            row.why
            for row in find_unpriced_inputs(strip_api_version(resource.type))
            if row.counts == "change"
            and row.path.partition(".")[0] in changed
            and row.list_billed_values(old) != row.list_billed_values(new)
        ),
        "",
    )


def _lonely_template_reason(resource: StateResource, sides: _Sides) -> str:
    """Return why a template counts that nothing here refers to, while others have no price."""
    reason = _free_reason(resource)
    if not reason.startswith(DECIDES_ANOTHER_BILL) or resource.urn in sides.referenced_urns:
        return ""
    return f"{reason}, and nothing here refers to it"


def _starts_machines_for_pods(sides: _Sides) -> bool:
    return any(
        gap.component in POD_MACHINES or (gap.component == "machine" and gap.type.startswith("kubernetes:"))
        for gap in sides.gaps
    )


def _pod_reason(resource: StateResource, sides: _Sides) -> str:
    """Return why pods count: the cluster starts machines for them. Their images and settings do not."""
    is_autoscaler = POD_AUTOSCALERS.search(resource.type) is not None
    has_pods = _free_reason(resource) == ON_MACHINES or STATEFUL_SETS.match(resource.type)
    if not resource.type.startswith("kubernetes:") or not (is_autoscaler or has_pods):
        return ""
    inputs = sides.changed_inputs(resource.urn)
    has_other_size = is_autoscaler or inputs is None or any(POD_SIZES.search(path) for path in inputs)
    return "the cluster starts machines as pods ask for them" if has_other_size else ""


def list_undecided_changes(changes: Iterable[UnknownChange], allowed: tuple[str, ...]) -> list[UnknownChange]:
    """Return the changes of types that a policy does not allow; one without a type is never allowed by its type."""
    return [
        each
        for each in changes
        if not any(
            pattern == "*" or (pattern == USAGE and each.is_by_use) or fnmatchcase(each.type, pattern)
            for pattern in allowed
        )
    ]


def name_project(changes: Iterable[UnknownChange], project: str) -> tuple[UnknownChange, ...]:
    """Return the changes of one project of several; those of no resource get its name."""
    return tuple(each if each.urn else replace(each, name=project) for each in changes)
