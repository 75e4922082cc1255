"""The difference between two bills, line by line."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal

from gpufleet.cost.money import ZERO, ZERO_RANGE, Range, round_to_cents
from gpufleet.cost.pricing.bill import Bill, Charge, UnpricedResource


@dataclass(frozen=True)
class Violation:
    """A rule of the policy that the change breaks."""

    rule: str
    message: str


@dataclass(frozen=True)
class Check:
    """One limit of one rule, asked of the change: what it demands, where, and in what it is broken."""

    rule: str
    limit: str
    demands: str
    scope: str = ""
    broken: tuple[str, ...] = ()


@dataclass(frozen=True)
class PolicyResult:
    """What the policy says; with no policy nothing is violated. ``checks`` are all limits, kept ones too."""

    passed: bool = True
    violations: tuple[Violation, ...] = ()
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Line:
    """One charge on both sides. One of them may be absent."""

    op: str
    before: Charge | None
    after: Charge | None
    one_off_usd: Decimal = ZERO  # old and new side by side, while the one replaces the other

    @property
    def shown(self) -> Charge:
        """Return the charge that describes the line: what will be, or what was."""
        charge = self.after or self.before
        if charge is None:
            raise ValueError("a line without a charge")
        return charge

    @property
    def usd_per_month(self) -> Decimal:
        """Return what the line adds to or takes from the month."""
        return month(self.after).expected - month(self.before).expected

    @property
    def changed(self) -> bool:
        """Tell whether money, quantity or terms differ between the sides."""
        return not alike(self.before, self.after)


@dataclass(frozen=True)
class PriceMove:
    """What of a change comes from prices: both sides were priced by the catalogue of a date of their own.

    The three amounts are cents and add up to the change. ``untold`` is what has a price on one date only.
    """

    before: date | None
    after: date | None
    by_code: Decimal
    by_prices: Decimal
    untold: Decimal = Decimal(0)
    same_stack: bool = False  # no code was compared: the difference is one of prices only


@dataclass(frozen=True)
class CostDiff:
    """Two bills and what lies between them."""

    stack: str
    before: Bill
    after: Bill
    lines: tuple[Line, ...]
    warnings: tuple[str, ...] = ()
    budget_usd_per_month: Decimal | None = None
    partial: bool = False  # totals cover only the resources that the preview lists
    policy: PolicyResult = field(default=PolicyResult())
    prices: PriceMove | None = None
    notes: tuple[
        str, ...
    ] = ()  # what is so whether the change is made or not: commitments, their cost and end

    @property
    def change_usd_per_month(self) -> Decimal:
        """Return the change in cents: the difference of the two months as they are shown."""
        return round_to_cents(self.after.usd_per_month.expected) - round_to_cents(
            self.before.usd_per_month.expected
        )

    @property
    def one_off_usd(self) -> Decimal:
        """Return what the change itself costs, once: old machines that run on until their successors do."""
        return round_to_cents(sum((line.one_off_usd for line in self.lines), ZERO))

    @property
    def change_percent(self) -> Decimal | None:
        """Return the change in percent, None where there was nothing before or the whole is not known."""
        base = round_to_cents(self.before.usd_per_month.expected)
        return round_to_cents(self.change_usd_per_month * 100 / base) if base and not self.partial else None

    @property
    def unpriced(self) -> tuple[UnpricedResource, ...]:
        """Return what has no price after the change, and what had none before and goes."""
        after = {(gap.urn, gap.component) for gap in self.after.unpriced}
        gone = (gap for gap in self.before.unpriced if (gap.urn, gap.component) not in after)
        return (*self.after.unpriced, *gone)


def compare(
    stack: str,
    before: Bill,
    after: Bill,
    *,
    ops: dict[str, str] | None = None,
    warnings: tuple[str, ...] = (),
    budget_usd_per_month: Decimal | None = None,
    partial: bool = False,
    overlaps: frozenset[str] = frozenset(),
    overlap_hours: Decimal = ZERO,
) -> CostDiff:
    """Put two bills side by side. ``ops`` is what the engine does to each URN, where it told.

    The resources in ``overlaps`` go on for ``overlap_hours`` beside what replaces them.
    """
    old = {charge.key: charge for charge in before.charges}
    new = {charge.key: charge for charge in after.charges}
    lines = [_line(old.get(key), new.get(key), (ops or {}).get(key[0])) for key in sorted({*old, *new})]
    lines = [_overlapping(line, overlap_hours) if line.shown.urn in overlaps else line for line in lines]
    return CostDiff(stack, before, after, tuple(lines), warnings, budget_usd_per_month, partial)


def alike(before: Charge | None, after: Charge | None) -> bool:
    """Tell whether two charges bill the same."""
    if before is None or after is None:
        return before is after
    return (
        (before.item, before.purchase, before.quantity, before.usd_per_hour, before.hours_per_month)
        == (after.item, after.purchase, after.quantity, after.usd_per_hour, after.hours_per_month)
    )  # fmt: skip


def month(charge: Charge | None) -> Range:
    """Return a charge's month; of none, nothing."""
    return charge.usd_per_month if charge else ZERO_RANGE


def _line(before: Charge | None, after: Charge | None, told: str | None) -> Line:
    if told and not (told == "same" and not alike(before, after)):
        return Line(told, before, after)
    if before is None:
        return Line("create", before, after)
    if after is None:
        return Line("delete", before, after)
    return Line("same" if alike(before, after) else "update", before, after)


def _overlapping(line: Line, hours: Decimal) -> Line:
    """Return a replaced line with what its old half costs beside the new one."""
    if line.op != "replace" or line.before is None or line.before.purchase == "owned":
        return line  # our own hardware cannot stand beside itself
    if line.shown.component.endswith(")"):  # one awaits deletion
        return line
    return replace(line, one_off_usd=line.before.usd_per_hour.expected * hours)
