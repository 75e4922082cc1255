"""The differences of several projects, and their sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase

from gpufleet.cost.analysis.diff import CostDiff, PolicyResult
from gpufleet.cost.analysis.policy import (
    UNKNOWN_CHANGE,
    CostLimits,
    CostPolicy,
    check_policy,
    format_empty_rule,
    judge_without_policy,
)
from gpufleet.cost.analysis.unknown_change import UnknownChange, name_project
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
        is_priced_change = any(line.is_changed for line in self.diff.lines)
        return before != after or is_priced_change or bool(self.diff.unknown_changes)


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

    @property
    def own_unknown_changes(self) -> tuple[UnknownChange, ...]:
        """Return the changes of unknown cost that are in no project of the list: of projects that are gone."""
        of_projects = {
            each for part in self.projects for each in name_project(part.diff.unknown_changes, part.name)
        }
        return tuple(each for each in self.total.unknown_changes if each not in of_projects)


def combine_diffs(
    name: str,
    projects: Iterable[ProjectDiff],
    policy: CostPolicy | None = None,
    today: date | None = None,
    *,
    warnings: tuple[str, ...] = (),
    unknown_changes: tuple[UnknownChange, ...] = (),
) -> CombinedDiff:
    """Return the projects with their sum, checked against a policy of all together.

    ``warnings`` and ``unknown_changes`` are those of no single project.
    """
    parts = tuple(replace(part, diff=replace(part.diff, policy=PolicyResult())) for part in projects)
    total = _sum_diffs(name, parts)
    total = replace(
        total,
        warnings=(*total.warnings, *warnings),
        unknown_changes=(*total.unknown_changes, *unknown_changes),
    )
    if policy is None:
        return CombinedDiff(parts, judge_without_policy(total))
    return CombinedDiff(parts, _check_policy(parts, total, policy, today or datetime.now(UTC).date()))


def _check_policy(
    parts: tuple[ProjectDiff, ...], total: CostDiff, policy: CostPolicy, today: date
) -> CostDiff:
    """Return the sum with the verdict: a rule applies to the projects with a stack that it names."""
    has_limits = policy.stack_limits != CostLimits()
    results = [
        check_policy(total, replace(policy, rules=()), today) if has_limits else judge_without_policy(total)
    ]
    checks = [*results[0].policy.checks]
    warnings = []
    for rule in policy.rules:
        matching = tuple(part for part in parts if fnmatchcase(part.diff.stack, rule.when.stack))
        if not matching:
            warnings.append(format_empty_rule(rule))
            continue
        any_stack = replace(rule, when=replace(rule.when, stack="*"))
        part_policy = CostPolicy(rules=(any_stack,), unknown_change=policy.unknown_change)
        result = check_policy(_sum_diffs(total.stack, matching), part_policy, today)
        checks += [check for check in result.policy.checks if check.limit != UNKNOWN_CHANGE]
        results.append(result)
    texts = dict.fromkeys(
        (*total.warnings, *(text for result in results for text in result.warnings), *warnings)
    )
    return replace(total, policy=PolicyResult.from_checks(checks), warnings=tuple(texts))


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
        unknown_changes=tuple(
            each for part in parts for each in name_project(part.diff.unknown_changes, part.name)
        ),
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
