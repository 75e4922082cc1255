"""Judge a difference: each limit of each rule is one check, of the part of the change that the rule is for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase

from gpufleet.cost.analysis.diff import Check, CostDiff, PolicyResult, Violation
from gpufleet.cost.analysis.policy.limit_check import LIMIT_CHECKS, demands
from gpufleet.cost.analysis.policy.model import Limits, Policy, Scope
from gpufleet.cost.pricing.bill import Bill

WHOLE = Scope()
NO_LIMITS = Limits()


def judge(diff: CostDiff, policy: Policy, today: date) -> CostDiff:
    """Return the difference with the policy's verdict in it."""
    checks = [*_checks("", WHOLE, policy.limits, diff, today)]
    doubts: list[str] = []
    for rule in policy.rules:
        if fnmatchcase(diff.stack, rule.when.stack):
            held = part(diff, rule.when)
            checks += _checks(rule.name, rule.when, rule.limits, held, today)
            doubts += [f"policy rule {rule.name} matches nothing here ({rule.when})"] * _nothing(held)
    if not checks:
        doubts.append(f"the policy asks nothing of {diff.stack or 'this stack'}: no limit in it holds for it")
    violations = tuple(Violation(check.rule, told) for check in checks for told in check.broken)
    verdict = PolicyResult(not violations, violations, tuple(checks))
    return replace(diff, policy=verdict, warnings=(*diff.warnings, *doubts))


def _nothing(of: CostDiff) -> bool:
    """Tell whether a part holds nothing on either side, as far as the preview lists what there is."""
    return not (of.partial or of.lines or of.before.unpriced or of.after.unpriced)


def part(diff: CostDiff, scope: Scope) -> CostDiff:
    """Return the part of a difference that a rule is for."""
    if scope.whole:
        return diff
    lines = tuple(line for line in diff.lines if scope.takes(line.shown))
    return replace(diff, before=_bill(diff.before, scope), after=_bill(diff.after, scope), lines=lines)


def _bill(bill: Bill, scope: Scope) -> Bill:
    charges = tuple(charge for charge in bill.charges if scope.takes(charge))
    return Bill(charges, tuple(gap for gap in bill.unpriced if scope.takes(gap)))


def _checks(name: str, scope: Scope, limits: Limits, of: CostDiff, today: date) -> Iterator[Check]:
    for key, check in LIMIT_CHECKS.items():
        if getattr(limits, key) != getattr(NO_LIMITS, key):
            broken: Iterable[str] = check(of, limits, today)
            yield Check(name or key, key, demands(key, limits), str(scope), tuple(broken))
