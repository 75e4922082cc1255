"""Check a difference against a policy: one check for each limit of each rule, in the rule's scope."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase

from gpufleet.cost.analysis.diff import CostDiff, PolicyLimitCheck, PolicyResult, PolicyViolation
from gpufleet.cost.analysis.policy.limit_check import LIMIT_CHECKS, describe_limit
from gpufleet.cost.analysis.policy.model import CostLimits, CostPolicy, PolicyScope
from gpufleet.cost.pricing.bill import Bill

WHOLE_STACK = PolicyScope()
NO_LIMITS = CostLimits()


def check_policy(diff: CostDiff, policy: CostPolicy, today: date) -> CostDiff:
    """Return the difference with the policy's verdict in it."""
    checks = [*_run_checks("", WHOLE_STACK, policy.stack_limits, diff, today)]
    doubts: list[str] = []
    for rule in policy.rules:
        if fnmatchcase(diff.stack, rule.when.stack):
            filtered = filter_diff(diff, rule.when)
            checks += _run_checks(rule.name, rule.when, rule.limits, filtered, today)
            doubts += [f"policy rule {rule.name} matches nothing here ({rule.when})"] * _is_empty(filtered)
    if not checks:
        doubts.append(f"the policy has no limit for {diff.stack or 'this stack'}")
    violations = tuple(
        PolicyViolation(check.rule, message) for check in checks for message in check.violations
    )
    verdict = PolicyResult(not violations, violations, tuple(checks))
    return replace(diff, policy=verdict, warnings=(*diff.warnings, *doubts))


def _is_empty(diff: CostDiff) -> bool:
    """Return whether a filtered difference has no resources; a partial preview counts as non-empty."""
    return not (diff.partial or diff.lines or diff.before.unpriced_resources or diff.after.unpriced_resources)


def filter_diff(diff: CostDiff, scope: PolicyScope) -> CostDiff:
    """Return the part of a difference that is in a rule's scope."""
    if scope.is_complete_stack:
        return diff
    lines = tuple(line for line in diff.lines if scope.is_in_scope(line.shown_charge))
    return replace(
        diff, before=_filter_bill(diff.before, scope), after=_filter_bill(diff.after, scope), lines=lines
    )


def _filter_bill(bill: Bill, scope: PolicyScope) -> Bill:
    charges = tuple(charge for charge in bill.charges if scope.is_in_scope(charge))
    return Bill(charges, tuple(gap for gap in bill.unpriced_resources if scope.is_in_scope(gap)))


def _run_checks(
    name: str, scope: PolicyScope, limits: CostLimits, diff: CostDiff, today: date
) -> Iterator[PolicyLimitCheck]:
    for key, check in LIMIT_CHECKS.items():
        if getattr(limits, key) != getattr(NO_LIMITS, key):
            broken: Iterable[str] = check(diff, limits, today)
            yield PolicyLimitCheck(name or key, key, describe_limit(key, limits), str(scope), tuple(broken))
