"""A policy: limits, and the scope that they apply to."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from decimal import Decimal
from fnmatch import fnmatchcase

from gpufleet.cost.analysis.unknown_change import UnknownChange
from gpufleet.cost.pricing.bill import Charge, UnpricedResource


@dataclass(frozen=True)
class CostLimits:
    """Limits; None means no limit.

    ``unpriced`` lists the types that may be without a price, ``unknown_usage`` those that may bill by use without an
    amount in the usage file.

    Up to ``ignore_increase_below_usd_per_month``, no increase is too large in percent. ``unknown_change`` lists the
    types that may change without a known effect; None in a rule means those of the policy, in a policy none. A rule's
    own list decides alone for its part, also in the limits of the stack.
    """

    budget_usd_per_month: Decimal | None = None
    max_high_usd_per_month: Decimal | None = None
    max_increase_usd_per_month: Decimal | None = None
    max_increase_percent: Decimal | None = None
    max_price_age_days: int | None = None
    unpriced: tuple[str, ...] = ("*",)
    unknown_usage: tuple[str, ...] = ("*",)
    max_resource_usd_per_month: Decimal | None = None
    purchases: tuple[str, ...] | None = None
    ignore_increase_below_usd_per_month: Decimal | None = None
    unknown_change: tuple[str, ...] | None = None


LIMITS = tuple(field.name for field in fields(CostLimits))
ANYTHING = CostLimits()


GROUPS = ("project", "pool", "owner")
Item = Charge | UnpricedResource | UnknownChange


def group_name(item: Item, group: str) -> str:
    """Return the pool, the owner or the Pulumi project of an item."""
    if group == "project":
        return item.urn.split("::")[1] if item.urn.count("::") > 1 else ""
    return str(getattr(item, group))


@dataclass(frozen=True)
class PolicyScope:
    """The part of a change that a rule applies to, by patterns (``prod*``)."""

    stack: str = "*"
    pool: str = "*"
    owner: str = "*"
    project: str = "*"

    def is_in_scope(self, item: Item) -> bool:
        """Return whether a charge, an unpriced resource or an unknown change is in scope."""
        patterns = ((name, getattr(self, name)) for name in GROUPS)
        return all(
            pattern == "*" or fnmatchcase(group_name(item, name), pattern) for name, pattern in patterns
        )

    @property
    def is_complete_stack(self) -> bool:
        """True if the scope is the complete stack."""
        return all(getattr(self, name) == "*" for name in GROUPS)

    def __str__(self) -> str:
        """Return the patterns that are not ``*``."""
        patterns = {field.name: getattr(self, field.name) for field in fields(self)}
        return ", ".join(f"{name} {pattern}" for name, pattern in patterns.items() if pattern != "*")


@dataclass(frozen=True)
class PolicyRule:
    """Named limits for a scope, or for each pool, owner or project in it. ``is_advice``: it warns only."""

    name: str
    when: PolicyScope = PolicyScope()
    limits: CostLimits = ANYTHING
    each: str = ""
    is_advice: bool = False


@dataclass(frozen=True)
class CostPolicy(CostLimits):
    """Limits for the complete stack, each named by its key, and named rules."""

    rules: tuple[PolicyRule, ...] = ()

    @property
    def stack_limits(self) -> CostLimits:
        """Return the limits of the complete stack."""
        return CostLimits(**{name: getattr(self, name) for name in LIMITS})


def without_allowances(policy: CostPolicy) -> CostPolicy:
    """Return a policy that accepts no change of unknown cost; a rule's own ``unknown_change`` decides nothing more."""
    rules = tuple(
        replace(rule, limits=replace(rule.limits, unknown_change=None))
        if rule.limits.unknown_change
        else rule
        for rule in policy.rules
    )
    return replace(
        policy, rules=rules, unknown_change=None if policy.unknown_change else policy.unknown_change
    )
