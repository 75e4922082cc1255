"""The differences of several projects, and their sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase

from gpufleet.cost.analysis.diff import CostDiff, PolicyResult
from gpufleet.cost.analysis.policy import CostLimits, CostPolicy, check_policy
from gpufleet.cost.pricing.bill import Bill


@dataclass(frozen=True)
class ProjectDiff:
    """The difference of one project; ``name`` is that of the list of projects."""

    name: str
    diff: CostDiff

    @property
    def is_changed(self) -> bool:
        """True if a charge or what has no price differs between before and after."""
        before, after = (
            {(gap.urn, gap.component, gap.reason) for gap in bill.unpriced_resources}
            for bill in (self.diff.before, self.diff.after)
        )
        return before != after or any(line.is_changed for line in self.diff.lines)


@dataclass(frozen=True)
class CombinedDiff:
    """The projects of a repository; ``total`` has the lines of all, and the policy's verdict on them."""

    projects: tuple[ProjectDiff, ...]
    total: CostDiff

    @property
    def own_warnings(self) -> tuple[str, ...]:
        """Return the warnings of no single project: of the policy, and of projects that are gone."""
        of_projects = set(_project_warnings(self.projects))
        return tuple(text for text in self.total.warnings if text not in of_projects)


def combine_diffs(
    name: str, projects: Iterable[ProjectDiff], policy: CostPolicy | None = None, today: date | None = None
) -> CombinedDiff:
    """Return the projects with their sum, checked against a policy of all together."""
    parts = tuple(projects)
    total = _sum_diffs(name, parts)
    if policy is not None:
        total = _check_policy(parts, total, policy, today or datetime.now(UTC).date())
    return CombinedDiff(parts, total)


def _check_policy(
    parts: tuple[ProjectDiff, ...], total: CostDiff, policy: CostPolicy, today: date
) -> CostDiff:
    """Return the sum with the verdict: a rule applies to the projects with a stack that it names."""
    results = []
    if policy.stack_limits != CostLimits():
        results.append(check_policy(total, replace(policy, rules=()), today))
    for rule in policy.rules:
        matching = tuple(part for part in parts if fnmatchcase(part.diff.stack, rule.when.stack))
        if matching:
            any_stack = replace(rule, when=replace(rule.when, stack="*"))
            results.append(
                check_policy(_sum_diffs(total.stack, matching), CostPolicy(rules=(any_stack,)), today)
            )
    checks = tuple(check for result in results for check in result.policy.checks)
    violations = tuple(each for result in results for each in result.policy.violations)
    warnings = dict.fromkeys((*total.warnings, *(text for result in results for text in result.warnings)))
    return replace(total, policy=PolicyResult(not violations, violations, checks), warnings=tuple(warnings))


def _sum_diffs(name: str, parts: tuple[ProjectDiff, ...]) -> CostDiff:
    diffs = [part.diff for part in parts]
    return CostDiff(
        name,
        _sum_bills(diff.before for diff in diffs),
        _sum_bills(diff.after for diff in diffs),
        tuple(line for diff in diffs for line in diff.lines),
        tuple(_project_warnings(parts)),
        partial=any(diff.partial for diff in diffs),
        notes=tuple(dict.fromkeys(text for diff in diffs for text in diff.notes)),
    )


def _project_warnings(parts: tuple[ProjectDiff, ...]) -> Iterator[str]:
    return (f"{part.name}: {text}" for part in parts for text in part.diff.warnings)


def _sum_bills(bills: Iterable[Bill]) -> Bill:
    parts = tuple(bills)
    commitments = {use.id: use for bill in parts for use in bill.commitments}
    return Bill(
        tuple(charge for bill in parts for charge in bill.charges),
        tuple(gap for bill in parts for gap in bill.unpriced_resources),
        tuple(commitments.values()),
        tuple(skipped for bill in parts for skipped in bill.skipped_resources),
        tuple(sorted({note for bill in parts for note in bill.region_notes})),
    )
