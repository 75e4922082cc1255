"""Check a difference against a policy: one check for each limit of each rule, in the rule's scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from gpufleet.cost.analysis.unknown_change import list_undecided_changes
from gpufleet.cost.pricing.bill import Bill

UNKNOWN_CHANGE = "unknown_change"
KNOWN_EFFECT = "every change has a known effect on the cost"
NO_LIMITS = CostLimits()


def check_policy(diff: CostDiff, policy: CostPolicy, today: date) -> CostDiff:
    """Return the difference with the policy's verdict in it."""
    policy = _inherit_allowed_changes(policy)
    checks = [*_check_unknown_change(diff, policy), *_run_checks("", "", policy.stack_limits, diff, today)]
    doubts: list[str] = []
    for rule in policy.rules:
        if not fnmatchcase(diff.stack, rule.when.stack):
            doubts.append(format_empty_rule(rule))
            continue
        filtered = filter_diff(diff, rule.when)
        found = [*_check_rule(rule, filtered, today)]
        checks += [check for check in found if not (rule.is_advice and not check.is_met)]
        doubts += [f"{rule.name}: {message}" for message in _advice(rule, found)]
        doubts += [format_empty_rule(rule, is_partial=diff.partial)] * _is_empty(filtered)
    if policy == CostPolicy():
        doubts.append(f"the policy has no limit for {diff.stack or 'this stack'}")
    return replace(diff, policy=PolicyResult.from_checks(checks), warnings=(*diff.warnings, *doubts))


def judge_without_policy(diff: CostDiff) -> CostDiff:
    """Return the difference with the verdict that holds without a policy: every change has a known effect."""
    return replace(diff, policy=PolicyResult.from_checks(_check_unknown_change(diff, CostPolicy())))


def format_empty_rule(rule: PolicyRule, *, is_partial: bool = False) -> str:
    """Return the warning about a rule that selects nothing: its limits are not checked."""
    listed = " of what the preview lists" if is_partial else " here"
    return f"policy rule {rule.name} selects nothing{listed} ({rule.when}): its limits are not checked"


def _inherit_allowed_changes(policy: CostPolicy) -> CostPolicy:
    """Return a policy whose rules allow what the policy allows, unless they say something else."""
    rules = tuple(
        replace(rule, limits=replace(rule.limits, unknown_change=policy.unknown_change))
        if rule.limits.unknown_change is None
        else rule
        for rule in policy.rules
    )
    return replace(policy, rules=rules)


def _check_unknown_change(diff: CostDiff, policy: CostPolicy) -> Iterator[PolicyLimitCheck]:
    """Yield the check that every change has a known effect; nothing if all have or may be without."""
    text = _undecided_text(diff, policy)
    if text:
        yield PolicyLimitCheck(UNKNOWN_CHANGE, UNKNOWN_CHANGE, KNOWN_EFFECT, undecided=text)


def _undecided_text(diff: CostDiff, limits: CostLimits) -> str:
    """Return which changes of unknown cost a limit does not allow, empty if none."""
    changes = list_undecided_changes(diff.unknown_changes, limits.unknown_change or ())
    if not changes:
        return ""
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"not decided, because the effect of a change is not known: {changes[0]}{more}"


def _check_rule(rule: PolicyRule, diff: CostDiff, today: date) -> Iterator[PolicyLimitCheck]:
    """Check a rule's limits in its scope; of a rule for each pool, owner or project, in each of them."""
    if not rule.each:
        yield from _run_checks(rule.name, str(rule.when), rule.limits, diff, today)
        return
    items: tuple[Item, ...] = (
        *(line.shown_charge for line in diff.lines),
        *diff.unpriced_resources,
        *(each for each in diff.unknown_changes if each.urn),
    )
    for name in sorted({group_name(item, rule.each) for item in items}):
        part = _filter_items(diff, partial(_is_in_group, rule.each, name))
        scope = ", ".join(text for text in (str(rule.when), f"{rule.each} {name or '(none)'}") if text)
        for check in _run_checks(rule.name, scope, rule.limits, part, today):
            group = f"{rule.each} {name or '(none)'}"
            messages = tuple(f"{group}: {message}" for message in check.violations)
            undecided = check.undecided and f"{group}: {check.undecided}"
            yield replace(check, violations=messages, undecided=undecided)


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
    """Return the part of a difference that is in a rule's scope."""
    if scope.is_complete_stack:
        return diff
    return _filter_items(diff, scope.is_in_scope)


def _filter_items(diff: CostDiff, is_selected: Callable[[Item], bool]) -> CostDiff:
    lines = tuple(line for line in diff.lines if is_selected(line.shown_charge))
    before, after = _filter_bill(diff.before, is_selected), _filter_bill(diff.after, is_selected)
    unknown = tuple(each for each in diff.unknown_changes if not each.urn or is_selected(each))
    return replace(diff, before=before, after=after, lines=lines, unknown_changes=unknown)


def _filter_bill(bill: Bill, is_selected: Callable[[Item], bool]) -> Bill:
    charges = tuple(charge for charge in bill.charges if is_selected(charge))
    return Bill(charges, tuple(gap for gap in bill.unpriced_resources if is_selected(gap)))


def _run_checks(
    name: str, scope: str, limits: CostLimits, diff: CostDiff, today: date
) -> Iterator[PolicyLimitCheck]:
    for key, check in LIMIT_CHECKS.items():
        if getattr(limits, key) != getattr(NO_LIMITS, key):
            broken = tuple(check(diff, limits, today))
            undecided = "" if broken or key not in EFFECT_LIMITS else _undecided_text(diff, limits)
            yield PolicyLimitCheck(name or key, key, describe_limit(key, limits), scope, broken, undecided)
