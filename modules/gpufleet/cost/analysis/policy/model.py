"""A policy as values: limits, and the part of a change that they hold for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal
from fnmatch import fnmatchcase

from gpufleet.cost.pricing.bill import Charge, UnpricedResource


@dataclass(frozen=True)
class Limits:
    """Limits; None where one is not asked for. ``unpriced`` lists the types that may be without price."""

    budget_usd_per_month: Decimal | None = None
    max_high_usd_per_month: Decimal | None = None
    max_increase_usd_per_month: Decimal | None = None
    max_increase_percent: Decimal | None = None
    max_price_age_days: int | None = None
    unpriced: tuple[str, ...] = ("*",)
    max_resource_usd_per_month: Decimal | None = None
    purchases: tuple[str, ...] | None = None


LIMITS = tuple(field.name for field in fields(Limits))
ANYTHING = Limits()


@dataclass(frozen=True)
class Scope:
    """Which part of a change a rule holds for, by patterns (``prod*``)."""

    stack: str = "*"
    pool: str = "*"
    owner: str = "*"

    def takes(self, item: Charge | UnpricedResource) -> bool:
        """Tell whether a charge, or what has no price, is in the part."""
        return fnmatchcase(item.pool, self.pool) and fnmatchcase(item.owner, self.owner)

    @property
    def whole(self) -> bool:
        """Tell whether the part is all of the stack."""
        return self.pool == "*" and self.owner == "*"

    def __str__(self) -> str:
        """Write the patterns that leave something out."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        return ", ".join(f"{name} {pattern}" for name, pattern in told.items() if pattern != "*")


@dataclass(frozen=True)
class Rule:
    """Limits with a name, for a part of the change."""

    name: str
    when: Scope = Scope()
    limits: Limits = ANYTHING


@dataclass(frozen=True)
class Policy(Limits):
    """Limits for the whole stack, each named by its key, and rules with names of their own."""

    rules: tuple[Rule, ...] = ()

    @property
    def limits(self) -> Limits:
        """Return the limits of the whole stack."""
        return Limits(**{name: getattr(self, name) for name in LIMITS})
