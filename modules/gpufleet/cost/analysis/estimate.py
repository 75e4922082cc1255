"""The questions the command line asks, answered: what does it cost, what would a change cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from gpufleet.catalog import Price
from gpufleet.cost.analysis.diff import CostDiff, compare
from gpufleet.cost.analysis.policy import Policy, judge
from gpufleet.cost.analysis.price_date import PriceDates, comparable, split
from gpufleet.cost.formatting import printable, usd
from gpufleet.cost.inputs.drift import ignored_sizes
from gpufleet.cost.inputs.stack_change import Sides
from gpufleet.cost.inputs.usage import NO_USAGE, UsageFile
from gpufleet.cost.money import ZERO, round_to_cents, to_decimal
from gpufleet.cost.pricing import commitments as committed
from gpufleet.cost.pricing import spot
from gpufleet.cost.pricing.bill import Bill
from gpufleet.cost.pricing.billing import price_resources
from gpufleet.cost.pricing.rates import PriceBook
from gpufleet.engine import Resource

if TYPE_CHECKING:
    from gpufleet.cost.pricing.commitments.model import Commitment
    from gpufleet.fleet import Budget, Fleet

# gpufleet.fleet is imported where it is used: while it loads, the child imports the SDKs already.
STALE_DAYS = 365  # list prices move about once a year; spot moves daily, so an old one says little
OUTSIDE = "traffic, licences, support and taxes are not in these figures"
LACKING = "prices that the catalogue lacks can be brought: gpufleet prices import FILE (docs/prices.md)"


@dataclass(frozen=True)
class Estimate:
    """What a stack costs, against its budget, with what a planner should know."""

    stack: str
    bill: Bill
    budget: Budget | None = None
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """Return how the month stands to the budget, in a sentence; what is paid already is not in it, and said."""
        paid = sum((use.usd_per_month for use in self.bill.commitments), ZERO)
        return f"{self._verdict}; commitments of {usd(paid)} a month come on top" if paid else self._verdict

    @property
    def _verdict(self) -> str:
        month = round_to_cents(self.bill.usd_per_month.expected)
        if self.budget is None:
            return "no budget is declared"
        limit = to_decimal(self.budget.max)
        if month > limit:
            return f"over the budget of {usd(limit)} by {usd(month - limit)}"
        if missing := self.bill.machines_without_price:
            told = "1 machine has" if missing == 1 else f"{missing} machines have"
            return f"cannot say whether it is within the budget of {usd(limit)}: {told} no price"
        if month < to_decimal(self.budget.min):
            return f"under the budget's floor of {usd(to_decimal(self.budget.min))}: is something missing?"
        over = round_to_cents(self.bill.usd_per_month.high) - limit
        risk = f", up to {usd(over)} over it at maximum size" if over > 0 else ""
        return f"within the budget of {usd(limit)}, {usd(limit - month)} to spare{risk}"

    @property
    def within_budget(self) -> bool | None:
        """Tell whether the month keeps the budget's ceiling; None without a budget, or where nobody can say."""
        if self.budget is None:
            return None
        kept = round_to_cents(self.bill.usd_per_month.expected) <= to_decimal(self.budget.max)
        return None if kept and self.bill.machines_without_price else kept


def estimate(
    resources: Iterable[Resource],
    declared: Fleet | None = None,
    *,
    stack: str = "",
    book: PriceBook | None = None,
    usage: UsageFile = NO_USAGE,
    commitments: tuple[Commitment, ...] = (),
    today: date | None = None,
) -> Estimate:
    """Price resources, and note what their fleet means for the budget."""
    from gpufleet import fleet

    listed, works, day = tuple(resources), spot.read_fleet_workloads(declared), today or _today()
    works = works | spot.read_usage_workloads(listed, usage)
    bill = price_resources(listed, book, usage=usage, commitments=commitments, on=day)
    bill = spot.add_useful_hour_rates(bill, works, book)
    told = (*ignored_sizes(listed), *usage.unmatched(listed), *spot.format_spot_warnings(bill.charges, book))
    told = (
        *told,
        *spot.format_spot_notes(bill, works),
        *committed.format_commitment_notes(bill.commitments, day),
    )
    told = (*told, *committed.format_commitment_warnings(commitments, day), *missing(bill))
    notes = (*(fleet.planning_notes(declared) if declared else ()), *told, *price_notes(bill), OUTSIDE)
    return Estimate(
        declared.stack if declared else stack, bill, _budget(declared), tuple(map(printable, notes))
    )


def diff(
    before: Iterable[Resource],
    after: Iterable[Resource],
    policy: Policy | None = None,
    *,
    sides: Sides | None = None,
    budget: Budget | None = None,
    book: PriceBook | None = None,
    today: date | None = None,
    usage: UsageFile = NO_USAGE,
    commitments: tuple[Commitment, ...] = (),
    declared: Fleet | None = None,
    dates: PriceDates | None = None,
) -> CostDiff:
    """Compare two sides, and judge the change where there is a policy.

    ``sides`` gives the stack, the engine's operations and its warnings where the sides are from a preview;
    ``declared`` is the fleet after the change, where it is known. With ``dates`` each side has the prices of a day of
    its own, and the answer tells what the code changes from what prices do.
    """
    told, was, will = sides or Sides(), tuple(before), tuple(after)
    limit, day = to_decimal(budget.max) if budget else None, today or _today()
    books = (dates.book(dates.before), dates.book(dates.after)) if dates else (book, book)

    works = spot.read_fleet_workloads(declared) | spot.read_usage_workloads((*was, *will), usage)

    def bill(side: tuple[Resource, ...], prices: PriceBook | None) -> Bill:
        bought = price_resources(side, prices, usage=usage, commitments=commitments, on=day)
        return spot.add_useful_hour_rates(bought, works, prices)

    old, new, move = bill(was, books[0]), bill(will, books[1]), None
    if dates and was == will:
        old, new, move = comparable(dates, old, new)
    elif dates:
        move = split(dates, old, bill(will, books[0]), new)
    money = (
        *spot.format_spot_warnings(new.charges, books[1]),
        *committed.format_utilization_changes(old.commitments, new.commitments),
    )
    found = compare(
        told.stack,
        old,
        new,
        ops=told.ops,
        warnings=tuple(map(printable, (*told.warnings, *usage.unmatched((*was, *will)), *money))),
        budget_usd_per_month=limit,
        partial=told.partial,
        overlaps=told.overlaps,
        overlap_hours=usage.overlap_hours,
    )
    told_too = (
        *committed.format_commitment_warnings(commitments, day),
        *committed.format_commitment_notes(new.commitments, day),
        *missing(found),
    )
    found = replace(found, prices=move, notes=tuple(map(printable, told_too)))
    return judge(found, _with_budget(policy, limit), day) if policy else found


def missing(of: Bill | CostDiff) -> tuple[str, ...]:
    """Say how to bring a price that the catalogue lacks."""
    lacks = any(gap.reason.startswith("no ") and " price for " in gap.reason for gap in of.unpriced)
    return (LACKING,) if lacks else ()


def price_notes(bill: Bill, today: date | None = None) -> tuple[str, ...]:
    """Name the prices that have no date or an old one."""
    used = {(charge.item, charge.purchase, charge.price) for charge in bill.charges if charge.price}
    told = [note for item, purchase, of in used if (note := _age(item, purchase, of, today or _today()))]
    return tuple(sorted(told))


def _age(item: str, purchase: str, of: Price, today: date) -> str:
    if purchase == "owned":
        return ""
    if of.as_of_date is None:
        return f"the {of.purchase} price of {item} in {of.region} has no date ({of.source})"
    days = (today - of.as_of_date).days
    return (
        f"the {of.purchase} price of {item} in {of.region} is {days} days old ({of.as_of}, {of.source})"
        if days > STALE_DAYS
        else ""
    )


def _with_budget(policy: Policy, limit: Decimal | None) -> Policy:
    return replace(policy, budget_usd_per_month=limit) if policy.budget_usd_per_month is None else policy


def _budget(declared: Fleet | None) -> Budget | None:
    return declared.budget_usd_per_month if declared else None


def _today() -> date:
    return datetime.now(UTC).date()
