"""Price resources: what a stack costs, and what a change would cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from gpufleet.catalog import STALE_DAYS, Price
from gpufleet.cost.analysis.diff import CostDiff, compare_bills
from gpufleet.cost.analysis.policy import CostPolicy, check_policy, judge_without_policy
from gpufleet.cost.analysis.price_date import (
    PriceDates,
    exclude_items_priced_once,
    split_code_and_price_effects,
)
from gpufleet.cost.analysis.unknown_change import find_unknown_changes
from gpufleet.cost.formatting import format_amount, format_usd, replace_control_characters
from gpufleet.cost.inputs.default_region import NO_REGIONS, DefaultRegions
from gpufleet.cost.inputs.drift import ignored_size_change_warnings
from gpufleet.cost.inputs.stack_change import StackChange
from gpufleet.cost.inputs.usage import NO_USAGE, UsageFile
from gpufleet.cost.money import ZERO, round_to_cents, to_decimal
from gpufleet.cost.pricing import commitments as committed
from gpufleet.cost.pricing import spot
from gpufleet.cost.pricing.bill import Bill, Charge
from gpufleet.cost.pricing.billing import price_resources
from gpufleet.cost.pricing.rates import UNKNOWN_REGION, PriceBook
from gpufleet.cost.pricing.region import HIDDEN_REGION
from gpufleet.engine import StateResource

if TYPE_CHECKING:
    from gpufleet.cost.pricing.commitments.model import Commitment
    from gpufleet.fleet import Fleet, MonthlyBudget

NotedPrice = tuple[str, str, str, Price]  # item, region of the charge, purchase
# gpufleet.fleet is imported where it is used: while it loads, the child imports the SDKs already.
SHOWN_ITEMS = 4  # of the prices that one note is about
EXCLUDED_COSTS = "traffic, licences of applications, support and taxes are not in these figures"
UNKNOWN_REGION_HINT = (
    "give the region of resources without one: --region eu-west-1, or aws:region, gcp:region or azure-native:location "
    "in the stack's file"
)
MISSING_PRICE_HINT = (
    "import prices that the catalogue does not have: gpufleet prices import FILE (docs/prices.md)"
)


@dataclass(frozen=True)
class CostEstimate:
    """What a stack costs, compared with its budget, and notes for its planner."""

    stack: str
    bill: Bill
    budget: MonthlyBudget | None = None
    notes: tuple[str, ...] = ()

    @property
    def budget_verdict(self) -> str:
        """Return a sentence that compares the month with the budget; commitments come on top."""
        paid = sum((use.usd_per_month for use in self.bill.commitments), ZERO)
        return (
            f"{self._verdict}; commitments of {format_usd(paid)} a month come on top"
            if paid
            else self._verdict
        )

    @property
    def _verdict(self) -> str:
        month = round_to_cents(self.bill.usd_per_month.expected)
        if self.budget is None:
            return "no budget is declared"
        limit = to_decimal(self.budget.max)
        if month > limit:
            return f"over the budget of {format_usd(limit)} by {format_usd(month - limit)}"
        if missing := self.bill.unpriced_machine_count:
            machines_text = "1 machine has" if missing == 1 else f"{missing} machines have"
            return f"unknown whether it is within the budget of {format_usd(limit)}: {machines_text} no price"
        if month < to_decimal(self.budget.min):
            return f"under the budget's floor of {format_usd(to_decimal(self.budget.min))}: is something missing?"
        over = round_to_cents(self.bill.usd_per_month.high) - limit
        risk = f", up to {format_usd(over)} over it at maximum size" if over > 0 else ""
        return f"within the budget of {format_usd(limit)}, {format_usd(limit - month)} to spare{risk}"

    @property
    def is_within_budget(self) -> bool | None:
        """Return whether the month is within the budget; None without a budget, or where prices are missing."""
        if self.budget is None:
            return None
        is_within = round_to_cents(self.bill.usd_per_month.expected) <= to_decimal(self.budget.max)
        return None if is_within and self.bill.unpriced_machine_count else is_within


def estimate(
    resources: Iterable[StateResource],
    declared: Fleet | None = None,
    *,
    stack: str = "",
    book: PriceBook | None = None,
    usage: UsageFile | None = None,
    commitments: tuple[Commitment, ...] = (),
    today: date | None = None,
    regions: DefaultRegions = NO_REGIONS,
) -> CostEstimate:
    """Price resources, and add notes about the fleet, its prices and commitments."""
    from gpufleet import fleet

    usage = usage or NO_USAGE
    priced_resources, day = tuple(resources), today or _utc_today()
    workloads = spot.read_fleet_spot_workloads(declared) | spot.read_usage_spot_workloads(
        priced_resources, usage
    )
    bill = price_resources(
        priced_resources, book, usage=usage, commitments=commitments, on_date=day, regions=regions
    )
    bill = spot.add_useful_hour_rates(bill, workloads, book)
    notes = (
        *(fleet.list_planning_notes(declared) if declared else ()),
        *ignored_size_change_warnings(priced_resources),
        *usage.format_unmatched_pattern_notes(priced_resources),
        *bill.usage_notes,
        *spot.format_spot_warnings(bill.charges, book),
        *spot.format_spot_notes(bill, workloads),
        *committed.format_commitment_notes(bill.commitments, day),
        *committed.format_commitment_warnings(commitments, day),
        *bill.region_notes,
        *missing_price_hints(bill),
        *list_price_notes(bill, day),
        EXCLUDED_COSTS,
    )
    return CostEstimate(
        declared.stack if declared else stack,
        bill,
        _declared_budget(declared),
        tuple(map(replace_control_characters, notes)),
    )


def diff(
    before: Iterable[StateResource],
    after: Iterable[StateResource],
    policy: CostPolicy | None = None,
    *,
    change: StackChange | None = None,
    budget: MonthlyBudget | None = None,
    book: PriceBook | None = None,
    today: date | None = None,
    usage: UsageFile | None = None,
    commitments: tuple[Commitment, ...] = (),
    declared: Fleet | None = None,
    dates: PriceDates | None = None,
    regions: DefaultRegions = NO_REGIONS,
) -> CostDiff:
    """Compare two lists of resources, and check the change against a policy if there is one.

    ``change`` gives the stack, the engine's operations and its warnings if the resources come from a preview.
    ``declared`` is the fleet after the change. With ``dates`` before and after have the prices of different days,
    and the difference separates the effect of the code from that of prices.
    """
    change, usage = change or StackChange(), usage or NO_USAGE
    old, new = tuple(before), tuple(after)
    limit, day = to_decimal(budget.max) if budget else None, today or _utc_today()
    books = (dates.book(dates.before), dates.book(dates.after)) if dates else (book, book)
    workloads = spot.read_fleet_spot_workloads(declared) | spot.read_usage_spot_workloads((*old, *new), usage)

    kept = tuple(each for each in old if not each.delete and change.ops.get(each.urn) != "replace")

    def make_bill_at_prices(resources: tuple[StateResource, ...], prices: PriceBook | None) -> Bill:
        bill = price_resources(
            resources,
            prices,
            usage=usage,
            commitments=commitments,
            on_date=day,
            updated_from=kept if resources is new else (),
            regions=regions,
        )
        return spot.add_useful_hour_rates(bill, workloads, prices)

    old_bill, new_bill = make_bill_at_prices(old, books[0]), make_bill_at_prices(new, books[1])
    bill_at_new_prices, price_effect = old_bill, None
    if dates and old == new:
        old_bill, new_bill, price_effect = exclude_items_priced_once(dates, old_bill, new_bill)
        bill_at_new_prices = new_bill
    elif dates:
        bill_at_new_prices = make_bill_at_prices(old, books[1])
        price_effect = split_code_and_price_effects(
            dates, old_bill, make_bill_at_prices(new, books[0]), new_bill
        )
    warnings = (
        *change.warnings,
        *usage.format_unmatched_pattern_notes((*old, *new)),
        *new_bill.usage_notes,
        *spot.format_spot_warnings(new_bill.charges, books[1]),
        *committed.format_unused_commitment_increases(old_bill.commitments, new_bill.commitments),
    )
    cost_diff = compare_bills(
        change.stack,
        old_bill,
        new_bill,
        operations=change.ops,
        warnings=tuple(map(replace_control_characters, warnings)),
        budget_usd_per_month=limit,
        partial=change.partial,
        overlaps=change.overlaps,
        overlap_hours=usage.overlap_hours,
    )
    cost_diff = replace(
        cost_diff,
        prices=price_effect,
        notes=_list_diff_notes(cost_diff, commitments, day),
        unknown_changes=find_unknown_changes(old, new, bill_at_new_prices, new_bill, change),
    )
    if policy is None:
        return judge_without_policy(cost_diff)
    return check_policy(cost_diff, _with_budget(policy, limit), day)


def _list_diff_notes(cost_diff: CostDiff, commitments: tuple[Commitment, ...], day: date) -> tuple[str, ...]:
    """Return what holds for both sides: commitments, default regions, and how to give what is missing."""
    notes = (
        *committed.format_commitment_warnings(commitments, day),
        *committed.format_commitment_notes(cost_diff.after.commitments, day),
        *sorted({*cost_diff.before.region_notes, *cost_diff.after.region_notes}),
        *missing_price_hints(cost_diff),
        *list_price_notes(cost_diff.after, day),
        EXCLUDED_COSTS,
    )
    return tuple(map(replace_control_characters, notes))


def missing_price_hints(priced: Bill | CostDiff) -> tuple[str, ...]:
    """Return how to give a missing region and how to import a missing price, nothing if none is missing."""
    reasons = [gap.reason for gap in priced.unpriced_resources if " price for " in gap.reason]
    has_unknown_region = any(UNKNOWN_REGION in reason for reason in reasons)
    has_missing_price = any(
        reason.startswith("no ") and UNKNOWN_REGION not in reason and HIDDEN_REGION not in reason
        for reason in reasons
    )
    hints = ((has_unknown_region, UNKNOWN_REGION_HINT), (has_missing_price, MISSING_PRICE_HINT))
    return tuple(hint for is_needed, hint in hints if is_needed)


def list_price_notes(bill: Bill, today: date) -> tuple[str, ...]:
    """Return at most a note each about prices of other regions, old prices and undated ones."""
    prices = sorted(
        {
            (item, charge.region, charge.purchase, price)
            for charge in bill.charges
            if charge.price and charge.purchase != "owned"
            for item, price in _list_prices(charge, charge.price)
        },
        key=lambda each: (each[0], each[1], each[2], each[3].as_of or "", each[3].source),
    )
    notes = (
        _list_elsewhere_note(prices),
        _format_old_note([each for each in prices if _is_old(each[3], today)]),
        _format_undated_note([each for each in prices if each[3].earliest_price_date is None]),
    )
    return tuple(filter(None, notes))


def _list_elsewhere_note(prices: list[NotedPrice]) -> str:
    """Return which prices stand for those of another region, in which nobody recorded them."""
    items = sorted(
        {
            f"{item} in {region} as {price.region}"
            for item, region, purchase, price in prices
            if price.region != region and purchase == "on_demand"
        }
    )
    if not items:
        return ""
    return (
        "priced as another region, whose ranges are the spread between regions, because their own price is not "
        f"recorded: {_shorten(items)}"
    )


def _is_old(price: Price, today: date) -> bool:
    day = price.earliest_price_date
    return day is not None and (today - day).days > STALE_DAYS


def _format_old_note(prices: list[NotedPrice]) -> str:
    if not prices:
        return ""
    item, region, purchase, price = min(prices, key=lambda each: each[3].earliest_price_date or date.max)
    text = f"{len(prices)} prices are" if len(prices) > 1 else "1 price is"
    return (
        f"{text} over {STALE_DAYS} days old, the oldest of {price.as_of} ({purchase} of {item} in {region}); their "
        "ranges cover how such prices move; gpufleet prices refresh reads today's"
    )


def _format_undated_note(prices: list[NotedPrice]) -> str:
    items = sorted({f"{purchase} of {item} in {region}" for item, region, purchase, _ in prices})
    return f"prices without a date: {_shorten(items)}" if items else ""


def _shorten(items: list[str]) -> str:
    more = len(items) - SHOWN_ITEMS
    return "; ".join([*items[:SHOWN_ITEMS], *([f"{more} more"] if more > 0 else [])])


def _list_prices(charge: Charge, price: Price) -> Iterator[tuple[str, Price]]:
    """Yield the price of a charge, and those of the volume tiers that it reaches."""
    yield charge.item, price
    use = charge.monthly_use
    for share in use.shares[1:] if use else ():
        name = f"{charge.item} from {format_amount(share.from_amount)} {use.unit_name}" if use else ""
        yield name, replace(price, as_of=share.as_of, source=share.source)


def _with_budget(policy: CostPolicy, limit: Decimal | None) -> CostPolicy:
    return replace(policy, budget_usd_per_month=limit) if policy.budget_usd_per_month is None else policy


def _declared_budget(declared: Fleet | None) -> MonthlyBudget | None:
    return declared.budget_usd_per_month if declared else None


def _utc_today() -> date:
    return datetime.now(UTC).date()
