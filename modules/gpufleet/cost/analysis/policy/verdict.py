"""Check a difference against a policy: one check for each limit of each rule, in the rule's scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase
from functools import partial

from gpufleet.cost.analysis.diff import CostDiff, PolicyLimitCheck, PolicyResult
from gpufleet.cost.analysis.policy.limit_check import EFFECT_LIMITS, LIMIT_CHECKS, describe_limit
from gpufleet.cost.analysis.policy.model import (
    CostLimits,
    CostPolicy,
    Item,
    PolicyRule,
    PolicyScope,
    group_name,
)
from gpufleet.cost.analysis.unknown_change import UnknownChange, list_undecided_changes, shorten_list
from gpufleet.cost.pricing.bill import Bill

UNKNOWN_CHANGE = "unknown_change"
KNOWN_EFFECT = "every change has a known effect on the cost"
NO_LIMITS = CostLimits()


def check_policy(diff: CostDiff, policy: CostPolicy, today: date) -> CostDiff:
    """Return the difference with the policy's verdict in it."""
    undecided = _list_undecided_changes(diff, policy)
    checks = [*_check_unknown_change(diff, policy)]
    checks += _run_checks("", "", policy.stack_limits, replace(diff, unknown_changes=undecided), today)
    doubts: list[str] = []
    for rule in policy.rules:
        if not fnmatchcase(diff.stack, rule.when.stack):
            doubts.append(format_empty_rule(rule))
            continue
        filtered = filter_diff(diff, rule.when)
        allowed = rule.limits.unknown_change
        unknown = undecided if allowed is None else list_undecided_changes(diff.unknown_changes, allowed)
        judged = filter_diff(replace(diff, unknown_changes=tuple(unknown)), rule.when)
        found = [*_check_rule(rule, judged, today)]
        if _is_empty(filtered):  # it is neither met nor decided
            found = [check for check in found if not check.is_met]
        checks += [check for check in found if not (rule.is_advice and not check.is_met)]
        doubts += [f"{rule.name}: {message}" for message in _advice(rule, found)]
        doubts += [format_empty_rule(rule, is_partial=diff.partial)] * _is_empty(filtered)
    if policy == CostPolicy():
        doubts.append(f"the policy has no limit for {diff.stack or 'this stack'}")
    return replace(diff, policy=PolicyResult.from_checks(checks), warnings=(*diff.warnings, *doubts))


def judge_without_policy(diff: CostDiff) -> CostDiff:
    """Return the difference with the verdict that holds without a policy: every change has a known effect."""
    return replace(diff, policy=PolicyResult.from_checks(_check_unknown_change(diff, CostPolicy())))


def _list_undecided_changes(diff: CostDiff, policy: CostPolicy) -> tuple[UnknownChange, ...]:
    """Return the changes of unknown cost that are not allowed: by the rules that decide about them, else the policy."""
    undecided = []
    for each, rules_by_side in _find_deciding_rules(diff, policy).items():
        allowed = [
            types
            for rules in rules_by_side
            for types in [rule.limits.unknown_change or () for rule in rules] or [policy.unknown_change or ()]
        ]
        if any(list_undecided_changes([each], types) for types in allowed):
            undecided.append(each)
    return tuple(undecided)


def _find_deciding_rules(diff: CostDiff, policy: CostPolicy) -> dict[UnknownChange, list[list[PolicyRule]]]:
    """Return the rules with their own ``unknown_change`` in whose part each change is, after and before it.

    A change without a URN is in no part.
    """
    rules = [
        rule
        for rule in policy.rules
        if rule.limits.unknown_change is not None and fnmatchcase(diff.stack, rule.when.stack)
    ]
    before: dict[str, list[Item]] = {}
    for item in _list_items(diff.before):
        before.setdefault(item.urn, []).append(item)
    return {
        change: [
            [
                rule
                for rule in rules
                if (
                    rule.when.is_in_scope(side) if side.urn else rule.when.is_complete_stack and not rule.each
                )
            ]
            for side in (change, *before.get(change.urn, ()))
        ]
        for change in diff.unknown_changes
    }


def format_empty_rule(rule: PolicyRule, *, is_partial: bool = False) -> str:
    """Return the warning about a rule that selects nothing: its limits are not checked."""
    listed = " of what the preview lists" if is_partial else " here"
    return f"policy rule {rule.name} selects nothing{listed} ({rule.when}): its limits are not checked"


def _check_unknown_change(diff: CostDiff, policy: CostPolicy) -> Iterator[PolicyLimitCheck]:
    """Yield the check that every change has a known effect; nothing if all have or may be without.

    Rules with their own ``unknown_change`` check what they decide about.
    """
    rules = _find_deciding_rules(diff, policy)
    changes = [
        each
        for each in list_undecided_changes(diff.unknown_changes, policy.unknown_change or ())
        if not all(rules[each])
    ]
    if changes:
        yield PolicyLimitCheck(
            UNKNOWN_CHANGE, UNKNOWN_CHANGE, KNOWN_EFFECT, undecided=_undecided_text(changes)
        )


def _undecided_text(changes: Sequence[UnknownChange]) -> str:
    """Return which changes of unknown cost leave a limit undecided; the report has their reasons."""
    names = tuple(each.name if each.urn else str(each) for each in changes)
    return f"not decided, because the effect of a change is not known: {shorten_list(names)}"


def _check_rule(rule: PolicyRule, diff: CostDiff, today: date) -> Iterator[PolicyLimitCheck]:
    """Check a rule's limits in its scope; of a rule for each pool, owner or project, in each of them.

    ``diff`` has the unknown changes that the rule, or the policy without its own list, does not allow.
    """
    if not rule.each:
        yield from _check_part(rule, str(rule.when), diff, today)
        return
    items: tuple[Item, ...] = (
        *_list_items(diff.before),
        *_list_items(diff.after),
        *(each for each in diff.unknown_changes if each.urn),
    )
    for name in sorted({group_name(item, rule.each) for item in items}):
        part = _filter_items(diff, partial(_is_in_group, rule.each, name))
        scope = ", ".join(text for text in (str(rule.when), f"{rule.each} {name or '(none)'}") if text)
        for check in _check_part(rule, scope, part, today):
            group = f"{rule.each} {name or '(none)'}"
            messages = tuple(f"{group}: {message}" for message in check.violations)
            undecided = check.undecided and f"{group}: {check.undecided}"
            yield replace(check, violations=messages, undecided=undecided)


def _check_part(rule: PolicyRule, scope: str, diff: CostDiff, today: date) -> Iterator[PolicyLimitCheck]:
    """Check the limits of a rule, and its own ``unknown_change`` if no other limit is undecided by that."""
    checks = [*_run_checks(rule.name, scope, rule.limits, diff, today)]
    yield from checks
    is_own = rule.limits.unknown_change is not None
    if is_own and diff.unknown_changes and not any(check.undecided for check in checks):
        text = _undecided_text(diff.unknown_changes)
        yield PolicyLimitCheck(rule.name, UNKNOWN_CHANGE, KNOWN_EFFECT, scope, undecided=text)


def _is_in_group(group: str, name: str, item: Item) -> bool:
    return group_name(item, group) == name


def _advice(rule: PolicyRule, checks: Iterable[PolicyLimitCheck]) -> list[str]:
    """Return the messages of a rule that only warns."""
    texts = ((*check.violations, *([check.undecided] if check.undecided else [])) for check in checks)
    return [text for each in texts for text in each] if rule.is_advice else []


def _is_empty(diff: CostDiff) -> bool:
    """Return whether a filtered difference has no resources."""
    return not (
        diff.lines
        or diff.before.unpriced_resources
        or diff.after.unpriced_resources
        or any(each.urn for each in diff.unknown_changes)
    )


def filter_diff(diff: CostDiff, scope: PolicyScope) -> CostDiff:
    """Return the part of a difference that is in a rule's scope, with what the change takes out of it."""
    if scope.is_complete_stack:
        return diff
    return _filter_items(diff, scope.is_in_scope)


def _filter_items(diff: CostDiff, is_in_part: Callable[[Item], bool]) -> CostDiff:
    """Return a part of a difference. A resource that was in it counts after the change, whatever its tags are then."""
    before = _filter_bill(diff.before, is_in_part)
    urns = {each.urn for each in _list_items(before)}

    def is_selected(item: Item) -> bool:
        return item.urn in urns or is_in_part(item)

    lines = tuple(line for line in diff.lines if is_selected(line.shown_charge))
    unknown = tuple(each for each in diff.unknown_changes if not each.urn or is_selected(each))
    after = _filter_bill(diff.after, is_selected)
    return replace(diff, before=before, after=after, lines=lines, unknown_changes=unknown)


def _list_items(bill: Bill) -> tuple[Item, ...]:
    return (*bill.charges, *bill.unpriced_resources)


def _filter_bill(bill: Bill, is_selected: Callable[[Item], bool]) -> Bill:
    charges = tuple(charge for charge in bill.charges if is_selected(charge))
    return Bill(charges, tuple(gap for gap in bill.unpriced_resources if is_selected(gap)))


def _run_checks(
    name: str, scope: str, limits: CostLimits, diff: CostDiff, today: date
) -> Iterator[PolicyLimitCheck]:
    for key, check in LIMIT_CHECKS.items():
        if getattr(limits, key) != getattr(NO_LIMITS, key):
            broken = tuple(check(diff, limits, today))
            is_decided = broken or key not in EFFECT_LIMITS or not diff.unknown_changes
            text = "" if is_decided else _undecided_text(diff.unknown_changes)
            yield PolicyLimitCheck(name or key, key, describe_limit(key, limits), scope, broken, text)
