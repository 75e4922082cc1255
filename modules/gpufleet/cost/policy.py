"""The policy file: limits on what a change may cost, each a rule with a name.

budget_usd_per_month: 60000      # left out: the stack's own budget, where it declares one
max_increase_usd_per_month: 500
max_increase_percent: 10
max_price_age_days: 400          # a price without a date is older than any limit
unpriced: forbid                 # allow (the default), forbid, or a list of resource types to allow
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gpufleet.cost.change import CostDiff, PolicyResult, Violation
from gpufleet.cost.demand import Unpriced
from gpufleet.cost.money import cents, exact
from gpufleet.cost.wording import usd
from gpufleet.errors import InputError

UNJUDGED = "cannot be judged: totals are partial; preview with --show-sames"


@dataclass(frozen=True)
class Policy:
    """Limits; None where a rule is not asked for. ``unpriced`` lists the types that may be without price."""

    budget_usd_per_month: Decimal | None = None
    max_increase_usd_per_month: Decimal | None = None
    max_increase_percent: Decimal | None = None
    max_price_age_days: int | None = None
    unpriced: tuple[str, ...] = ("*",)


def load_policy(path: Path) -> Policy:
    """Read a policy file; each mistake is one line with its place."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError

    try:
        data = YAML(typ="rt").load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(error.strerror or "cannot be read", where=str(path)) from None
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InputError(f"not YAML: {error.problem}", where=f"{path}:{line}") from None
    if data is None:
        return Policy()
    if not isinstance(data, dict):
        raise InputError("not a mapping of rules", where=f"{path}:1", remedy=f"rules: {', '.join(CHECKS)}")
    lines = getattr(data, "lc", None)
    return Policy(
        **{
            key: _rule(key, value, f"{path}:{lines.key(key)[0] + 1}" if lines else str(path))
            for key, value in data.items()
        }
    )


def _rule(key: str, value: Any, where: str) -> Any:
    check = CHECKS.get(key)
    if check is None:
        close = get_close_matches(str(key), CHECKS, n=1, cutoff=0.4)
        remedy = f"did you mean {close[0]}?" if close else f"rules: {', '.join(CHECKS)}"
        raise InputError("unknown rule", where=where, key=str(key), remedy=remedy)
    try:
        return check(value)
    except ValueError as error:
        raise InputError(f"{value!r} is not {error}", where=where, key=key) from None


def _amount(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError("a number of 0 or more")
    return exact(value)


def _days(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a whole number of days")
    return value


def _allowed(value: Any) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    words: dict[Any, tuple[str, ...]] = {"allow": ("*",), "forbid": ()}
    if not isinstance(value, str) or value not in words:
        raise ValueError("allow, forbid, or a list of resource types")
    return words[value]


CHECKS: dict[str, Callable[[Any], Any]] = {
    "budget_usd_per_month": _amount,
    "max_increase_usd_per_month": _amount,
    "max_increase_percent": _amount,
    "max_price_age_days": _days,
    "unpriced": _allowed,
}


def judge(diff: CostDiff, policy: Policy, today: date) -> CostDiff:
    """Return the difference with the policy's verdict in it."""
    violations = (
        *_budget(diff, policy),
        *_increase(diff, policy),
        *_ages(diff, policy, today),
        *_unpriced(diff, policy),
    )
    return replace(diff, policy=PolicyResult(not violations, violations))


def _budget(diff: CostDiff, policy: Policy) -> Iterator[Violation]:
    limit, month = policy.budget_usd_per_month, cents(diff.after.usd_per_month.expected)
    if limit is not None and diff.partial:
        yield Violation("budget_usd_per_month", UNJUDGED)
    elif limit is not None and month > limit:
        yield Violation("budget_usd_per_month", f"{usd(month)} a month is over the budget of {usd(limit)}")


def _increase(diff: CostDiff, policy: Policy) -> Iterator[Violation]:
    change, limit = diff.change_usd_per_month, policy.max_increase_usd_per_month
    if limit is not None and change > limit:
        yield Violation(
            "max_increase_usd_per_month", f"an increase of {usd(change)} a month is over {usd(limit)}"
        )
    percent, share = policy.max_increase_percent, diff.change_percent
    if percent is not None and diff.partial and change > 0:
        yield Violation("max_increase_percent", UNJUDGED)
    elif percent is not None and change > 0 and (share is None or share > percent):
        grown = "an increase from nothing" if share is None else f"an increase of {share} %"
        yield Violation("max_increase_percent", f"{grown} is over {percent} %")


def _ages(diff: CostDiff, policy: Policy, today: date) -> Iterator[Violation]:
    limit = policy.max_price_age_days
    if limit is None:
        return
    listed = [
        charge for charge in diff.after.charges if charge.purchase != "owned"
    ]  # the fleet declares those
    prices = {(charge.item, charge.region): charge.price for charge in listed if charge.price}
    for (item, region), price in sorted(prices.items(), key=lambda entry: entry[0]):
        dated = price.as_of_date
        if dated is None:
            yield Violation("max_price_age_days", f"the price of {item} in {region} has no date")
        elif (today - dated).days > limit:
            days = (today - dated).days
            yield Violation(
                "max_price_age_days", f"the price of {item} in {region} is {days} days old, over {limit}"
            )


def _unpriced(diff: CostDiff, policy: Policy) -> Iterator[Violation]:
    by_type: dict[str, list[Unpriced]] = {}
    for gap in diff.after.unpriced:
        if not any(fnmatchcase(gap.type, allowed) for allowed in policy.unpriced):
            by_type.setdefault(gap.type, []).append(gap)
    for kind, gaps in sorted(by_type.items()):
        yield Violation("unpriced", f"{len(gaps)} of {kind} without price: {gaps[0].reason}")
