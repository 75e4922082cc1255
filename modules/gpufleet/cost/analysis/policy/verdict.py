"""Check a difference against a policy: one check for each limit of each rule, in the rule's scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase
from functools import partial

from gpufleet.cost.analysis.diff import CostDiff, PolicyLimitCheck, PolicyResult, PolicyViolation
from gpufleet.cost.analysis.policy.limit_check import LIMIT_CHECKS, describe_limit
from gpufleet.cost.analysis.policy.model import CostLimits, CostPolicy, PolicyRule, PolicyScope, group_name
from gpufleet.cost.pricing.bill import Bill, Charge, UnpricedResource

Item = Charge | UnpricedResource
WHOLE_STACK = PolicyScope()
NO_LIMITS = CostLimits()


def check_policy(diff: CostDiff, policy: CostPolicy, today: date) -> CostDiff:
    """Return the difference with the policy's verdict in it."""
    checks = [*_run_checks("", str(WHOLE_STACK), policy.stack_limits, diff, today)]
    doubts: list[str] = []
    for rule in policy.rules:
        if fnmatchcase(diff.stack, rule.when.stack):
            filtered = filter_diff(diff, rule.when)
            found = [*_check_rule(rule, filtered, today)]
            checks += [check for check in found if not (rule.is_advice and check.violations)]
            doubts += [f"{rule.name}: {message}" for message in _advice(rule, found)]
            doubts += [f"policy rule {rule.name} matches nothing here ({rule.when})"] * _is_empty(filtered)
    if not checks and not doubts:
        doubts.append(f"the policy has no limit for {diff.stack or 'this stack'}")
    violations = tuple(
        PolicyViolation(check.rule, message) for check in checks for message in check.violations
    )
    verdict = PolicyResult(not violations, violations, tuple(checks))
    return replace(diff, policy=verdict, warnings=(*diff.warnings, *doubts))


def _check_rule(rule: PolicyRule, diff: CostDiff, today: date) -> Iterator[PolicyLimitCheck]:
    """Check a rule's limits in its scope; of a rule for each pool, owner or project, in each of them."""
    if not rule.each:
        yield from _run_checks(rule.name, str(rule.when), rule.limits, diff, today)
        return
    items: tuple[Item, ...] = (*(line.shown_charge for line in diff.lines), *diff.unpriced_resources)
    for name in sorted({group_name(item, rule.each) for item in items}):
        part = _filter_items(diff, partial(_is_in_group, rule.each, name))
        scope = ", ".join(text for text in (str(rule.when), f"{rule.each} {name or '(none)'}") if text)
        for check in _run_checks(rule.name, scope, rule.limits, part, today):
            messages = (f"{rule.each} {name or '(none)'}: {message}" for message in check.violations)
            yield replace(check, violations=tuple(messages))


def _is_in_group(group: str, name: str, item: Item) -> bool:
    return group_name(item, group) == name


def _advice(rule: PolicyRule, checks: Iterable[PolicyLimitCheck]) -> list[str]:
    """Return the messages of a rule that only warns."""
    return [message for check in checks for message in check.violations] if rule.is_advice else []


def _is_empty(diff: CostDiff) -> bool:
    """Return whether a filtered difference has no resources; a partial preview counts as non-empty."""
    return not (diff.partial or diff.lines or diff.before.unpriced_resources or diff.after.unpriced_resources)


def filter_diff(diff: CostDiff, scope: PolicyScope) -> CostDiff:
    """Return the part of a difference that is in a rule's scope."""
    if scope.is_complete_stack:
        return diff
    return _filter_items(diff, scope.is_in_scope)


def _filter_items(diff: CostDiff, is_selected: Callable[[Item], bool]) -> CostDiff:
    lines = tuple(line for line in diff.lines if is_selected(line.shown_charge))
    before, after = _filter_bill(diff.before, is_selected), _filter_bill(diff.after, is_selected)
    return replace(diff, before=before, after=after, lines=lines)


def _filter_bill(bill: Bill, is_selected: Callable[[Item], bool]) -> Bill:
    charges = tuple(charge for charge in bill.charges if is_selected(charge))
    return Bill(charges, tuple(gap for gap in bill.unpriced_resources if is_selected(gap)))


def _run_checks(
    name: str, scope: str, limits: CostLimits, diff: CostDiff, today: date
) -> Iterator[PolicyLimitCheck]:
    for key, check in LIMIT_CHECKS.items():
        if getattr(limits, key) != getattr(NO_LIMITS, key):
            broken: Iterable[str] = check(diff, limits, today)
            yield PolicyLimitCheck(name or key, key, describe_limit(key, limits), scope, tuple(broken))
