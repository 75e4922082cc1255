"""The difference between two bills, line by line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal

from gpufleet.cost.analysis.unknown_change import UnknownChange
from gpufleet.cost.money import ZERO, ZERO_RANGE, Range, round_to_cents
from gpufleet.cost.pricing.bill import Bill, Charge, GapClasses, UnpricedResource


@dataclass(frozen=True)
class PolicyViolation:
    """A policy rule that the change violates."""

    rule: str
    message: str


@dataclass(frozen=True)
class PolicyLimitCheck:
    """One limit of one rule, checked: its requirement, its scope, and how the change breaks it.

    ``undecided`` says why it is not known whether the change keeps the limit; empty if that is known.
    """

    rule: str
    limit: str
    requirement: str
    scope: str = ""
    violations: tuple[str, ...] = ()
    undecided: str = ""

    @property
    def is_met(self) -> bool:
        """True if the change surely keeps the limit."""
        return not self.violations and not self.undecided


@dataclass(frozen=True)
class PolicyResult:
    """The policy's verdict; without a policy only a change of unknown cost does not pass.

    ``checks`` holds passed limits too; ``undecided`` those of which the change of unknown cost may break any.
    """

    passed: bool = True
    violations: tuple[PolicyViolation, ...] = ()
    checks: tuple[PolicyLimitCheck, ...] = ()
    undecided: tuple[PolicyViolation, ...] = ()

    @classmethod
    def from_checks(cls, checks: Iterable[PolicyLimitCheck]) -> PolicyResult:
        """Return the verdict of checked limits."""
        checks = tuple(checks)
        violations = tuple(PolicyViolation(each.rule, text) for each in checks for text in each.violations)
        undecided = tuple(PolicyViolation(each.rule, each.undecided) for each in checks if each.undecided)
        return cls(not violations and not undecided, violations, checks, undecided)


@dataclass(frozen=True)
class CostDiffLine:
    """One charge before and after; one of the two may be absent."""

    op: str
    before: Charge | None
    after: Charge | None
    one_off_usd: Decimal = ZERO  # while old and new run at the same time
    has_unpriced_side: bool = False  # the charge that is absent is one without a price

    @property
    def shown_charge(self) -> Charge:
        """Return the charge after the change; if the line is deleted, the one before."""
        charge = self.after or self.before
        if charge is None:
            raise ValueError("a line without a charge")
        return charge

    @property
    def change_usd_per_month(self) -> Decimal:
        """Return the line's change of the monthly cost."""
        return monthly_cost(self.after).expected - monthly_cost(self.before).expected

    @property
    def is_changed(self) -> bool:
        """True if cost, quantity or terms differ between before and after."""
        return not has_same_charge(self.before, self.after)


@dataclass(frozen=True)
class CodeAndPriceEffects:
    """A change split into the effects of code and prices, where before and after have prices of different days.

    The three amounts are cents and add up to the change. ``unexplained`` has a price on one date only.
    """

    before: date | None
    after: date | None
    by_code: Decimal
    by_prices: Decimal
    unexplained: Decimal = Decimal(0)
    same_stack: bool = False  # no code was compared: the difference is one of prices only


@dataclass(frozen=True)
class CostDiff:
    """Two bills and their differences, line by line."""

    stack: str
    before: Bill
    after: Bill
    lines: tuple[CostDiffLine, ...]
    warnings: tuple[str, ...] = ()
    budget_usd_per_month: Decimal | None = None
    partial: bool = False  # totals cover only the resources that the preview lists
    policy: PolicyResult = field(default=PolicyResult())
    prices: CodeAndPriceEffects | None = None
    notes: tuple[str, ...] = ()  # independent of the change: commitments, their cost and end
    unknown_changes: tuple[UnknownChange, ...] = ()  # of what has no price, or is not listed

    @property
    def change_usd_per_month(self) -> Decimal:
        """Return the difference of the two rounded monthly costs."""
        return round_to_cents(self.after.usd_per_month.expected) - round_to_cents(
            self.before.usd_per_month.expected
        )

    @property
    def one_off_usd(self) -> Decimal:
        """Return the one-off cost: replaced machines that run until their successors do."""
        return round_to_cents(sum((line.one_off_usd for line in self.lines), ZERO))

    @property
    def change_percent(self) -> Decimal | None:
        """Return the change in percent; None if nothing was billed before or the totals are partial."""
        base = round_to_cents(self.before.usd_per_month.expected)
        return round_to_cents(self.change_usd_per_month * 100 / base) if base and not self.partial else None

    @property
    def gaps(self) -> GapClasses:
        """Return what has no price before or after the change, by class."""
        return GapClasses.of(self.unpriced_resources)

    @property
    def unpriced_resources(self) -> tuple[UnpricedResource, ...]:
        """Return resources without a price: those after the change, then those that it deletes."""
        after = {(gap.urn, gap.component) for gap in self.after.unpriced_resources}
        deleted = (gap for gap in self.before.unpriced_resources if (gap.urn, gap.component) not in after)
        return (*self.after.unpriced_resources, *deleted)

    def without_skipped_resources(self) -> CostDiff:
        """Return the difference without the resources that cost nothing."""
        return replace(self, after=self.after.without_skipped_resources())


def compare_bills(
    stack: str,
    before: Bill,
    after: Bill,
    *,
    operations: dict[str, str] | None = None,
    warnings: tuple[str, ...] = (),
    budget_usd_per_month: Decimal | None = None,
    partial: bool = False,
    overlaps: frozenset[str] = frozenset(),
    overlap_hours: Decimal = ZERO,
) -> CostDiff:
    """Compare two bills. ``operations`` maps a URN to the engine's operation.

    The resources in ``overlaps`` run for ``overlap_hours`` together with their replacements.
    """
    old = {charge.comparison_key: charge for charge in before.charges}
    new = {charge.comparison_key: charge for charge in after.charges}
    gaps = [{(gap.urn, gap.component) for gap in bill.unpriced_resources} for bill in (before, after)]
    lines = [
        _make_line(
            old.get(key),
            new.get(key),
            (operations or {}).get(key[0]),
            *(_has_gap(each, key) for each in gaps),
        )
        for key in sorted({*old, *new})
    ]
    lines = [
        _with_overlap_cost(line, overlap_hours) if line.shown_charge.urn in overlaps else line
        for line in lines
    ]
    return CostDiff(stack, before, after, tuple(lines), warnings, budget_usd_per_month, partial)


def has_same_charge(before: Charge | None, after: Charge | None) -> bool:
    """Return whether two charges bill the same."""
    if before is None or after is None:
        return before is after
    return (
        (before.item, before.purchase, before.quantity, before.usd_per_hour, before.hours_per_month)
        == (after.item, after.purchase, after.quantity, after.usd_per_hour, after.hours_per_month)
    )  # fmt: skip


def monthly_cost(charge: Charge | None) -> Range:
    """Return a charge's monthly cost, zero without a charge."""
    return charge.usd_per_month if charge else ZERO_RANGE


def _has_gap(gaps: set[tuple[str, str]], key: tuple[str, str]) -> bool:
    """Return whether a component, or its resource as a whole, has no price."""
    return key in gaps or (key[0], "") in gaps


def _make_line(
    before: Charge | None,
    after: Charge | None,
    operation: str | None,
    is_unpriced_before: bool,
    is_unpriced_after: bool,
) -> CostDiffLine:
    is_unpriced = (before is None and is_unpriced_before) or (after is None and is_unpriced_after)
    if not operation or (operation == "same" and not has_same_charge(before, after)):
        operation = _derive_operation(before, after, is_unpriced=is_unpriced)
    return CostDiffLine(operation, before, after, has_unpriced_side=is_unpriced)


def _derive_operation(before: Charge | None, after: Charge | None, *, is_unpriced: bool) -> str:
    """Return the operation of a line; one with a side without a price is there on both."""
    if is_unpriced:
        return "update"
    if before is None:
        return "create"
    if after is None:
        return "delete"
    return "same" if has_same_charge(before, after) else "update"


def _with_overlap_cost(line: CostDiffLine, hours: Decimal) -> CostDiffLine:
    """Return a replaced line with the cost of the old resource while the new one starts."""
    if line.op != "replace" or line.before is None or line.before.purchase == "owned":
        return line  # owned hardware cannot run twice
    if line.before.monthly_use and not line.before.monthly_use.is_stored:
        return line  # two resources share the same requests
    if line.shown_charge.component.endswith(")"):  # one awaits deletion
        return line
    return replace(line, one_off_usd=line.before.usd_per_hour.expected * hours)
