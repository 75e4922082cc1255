"""Sentences that all reports of a difference share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal

from gpufleet.catalog import Price, find_part_period, round_unit_price
from gpufleet.cost.analysis.diff import CodeAndPriceEffects, CostDiff, CostDiffLine, PolicyResult
from gpufleet.cost.formatting import (
    format_amount,
    format_number,
    format_percent_change,
    format_quantity_range,
    format_usd,
    format_usd_range,
)
from gpufleet.cost.money import HOURS_PER_MONTH, ZERO, round_to_cents, to_decimal
from gpufleet.cost.pricing.bill import Bill, Charge, SkippedResource, UnpricedResource
from gpufleet.cost.pricing.monthly_use import MonthlyUse, TierShare, format_use_unit, is_time_counted

WITHOUT_PRICE, BY_USE = "Without price", "By use, of an unknown amount"  # titles of what totals leave out
UNENFORCED_BUDGET = (
    "The budget is not enforced here: --policy policy.yaml makes this a gate, with exit code 1."
)


def format_change_headline(diff: CostDiff) -> str:
    """Return one sentence about the change of the monthly cost."""
    after, change = diff.after.usd_per_month, diff.change_usd_per_month
    name = diff.stack or "this stack"
    if diff.prices and diff.prices.same_stack:
        return _price_headline(diff, name, diff.prices)
    if diff.partial:
        return _partial_headline(diff, name, change)
    if diff.unknown_changes:
        return _unknown_headline(diff, name, change)
    if change == 0:
        text = f"The monthly cost of {name} does not change: it stays at {format_usd(after.expected)}"
    else:
        verb = "raises" if change > 0 else "lowers"
        share = "" if diff.change_percent is None else f" ({format_percent_change(diff.change_percent)})"
        text = f"This change {verb} the monthly cost of {name} by {format_usd(abs(change))}{share}"
        text += f" to {format_usd(after.expected)}"
    return f"{text}{_budget_text(diff)}{format_unpriced_count(diff.after)}{_commitments_text(diff)}."


def _partial_headline(diff: CostDiff, name: str, change: Decimal) -> str:
    known = "the total cost is not known, because the preview omits unchanged resources"
    if diff.unknown_changes:
        priced = f"what has a price changes by {format_usd(change, show_sign=True)}"
        return f"{_unknown_effect_text(diff, name)}; {priced}, and the total cost is not known."
    if change == 0:
        return f"This change does not affect the monthly cost of {name}; {known}."
    verb = "raises" if change > 0 else "lowers"
    return f"This change {verb} the monthly cost of {name} by {format_usd(abs(change))}; {known}."


def _unknown_headline(diff: CostDiff, name: str, change: Decimal) -> str:
    """Return the headline if a changed resource has no price: the known part, and what is missing."""
    after = diff.after.usd_per_month.expected
    known_text = (
        f"stays at {format_usd(after)}"
        if change == 0
        else f"changes by {format_usd(change, show_sign=True)}, to {format_usd(after)}"
    )
    limit = diff.budget_usd_per_month
    over = "" if limit is None or round_to_cents(after) <= limit else _budget_text(diff)
    known = f"What has a price {known_text}{over}{format_unpriced_count(diff.after)}{_commitments_text(diff)}"
    return f"{_unknown_effect_text(diff, name)}. {known}."


def _unknown_effect_text(diff: CostDiff, name: str) -> str:
    """Return that the effect is not known, and why: changes without a price, and how many machines that are."""
    missing_counts = (
        ("before", diff.before.unpriced_machine_count),
        ("after", diff.after.unpriced_machine_count),
    )
    machines = " and ".join(
        f"{pluralize(missing, 'machine')} {time} the change" for time, missing in missing_counts if missing
    )
    unlisted = [each.reason for each in diff.unknown_changes if not each.urn]
    by_use = sum(each.is_by_use for each in diff.unknown_changes)
    count = len(diff.unknown_changes) - len(unlisted) - by_use
    reasons = [*unlisted, *([f"no price for {pluralize(count, 'changed resource')}"] if count else [])]
    if machines and count:
        reasons[-1] += f", with {machines}"
    if by_use:
        reasons.append(f"{pluralize(by_use, 'changed resource bills', 'changed resources bill')} by use")
    return f"The effect of this change on the monthly cost of {name} is not known: {'; '.join(reasons)}"


def format_unknown_changes(diff: CostDiff) -> list[str]:
    """Return a line for each change whose effect on the cost is not known."""
    return [str(each) for each in diff.unknown_changes]


def format_undecided_limits(policy: PolicyResult) -> list[str]:
    """Return the limits of which nobody knows whether the change keeps them."""
    return [f"{each.rule}: {each.message}" for each in policy.undecided]


def _price_headline(diff: CostDiff, name: str, move: CodeAndPriceEffects) -> str:
    change, after = diff.change_usd_per_month, format_usd(diff.after.usd_per_month.expected)
    dates = f"the prices of {_day_text(move.after)} instead of {_day_text(move.before)}"
    if change == 0:
        qualifiers = f"{_budget_text(diff)}{format_unpriced_count(diff.after)}{_commitments_text(diff)}"
        return f"With {dates}, {name} costs the same: {after} a month{qualifiers}."
    direction = "more" if change > 0 else "less"
    share = "" if diff.change_percent is None else f" ({format_percent_change(diff.change_percent)})"
    text = f"With {dates}, the unchanged {name} costs {format_usd(abs(change))}{share} {direction} a month: {after}"
    return f"{text}{_budget_text(diff)}{format_unpriced_count(diff.after)}{_commitments_text(diff)}."


def format_code_and_price_effects(diff: CostDiff) -> list[str]:
    """Return how much of the change comes from code and from prices, if the price dates differ."""
    move = diff.prices
    if move is None:
        return []
    days = f"{_day_text(move.before)} and {_day_text(move.after)}"
    if move.same_stack:
        return [f"Nothing in the code was compared: the same stack at the prices of {days}."]
    text = f"Of this change {format_usd(move.by_code, show_sign=True)} comes from the code"
    text += f" and {format_usd(move.by_prices, show_sign=True)} from prices between {days}"
    if move.unexplained:
        unexplained = format_usd(move.unexplained, show_sign=True)
        text += f"; {unexplained} cannot be attributed, because a price is known on one date only"
    return [f"{text}."]


def _day_text(day: date | None) -> str:
    return day.isoformat() if day else "today"


def _budget_text(diff: CostDiff) -> str:
    limit = diff.budget_usd_per_month
    if limit is None:
        return ""
    over = round_to_cents(diff.after.usd_per_month.expected) - limit
    if over > 0:
        return f", {format_usd(over)} over its budget of {format_usd(limit)}"
    if missing := diff.after.unpriced_machine_count:
        missing_text = f"{pluralize(missing, 'machine has', 'machines have')} no price"
        return f", not known whether within its budget of {format_usd(limit)}: {missing_text}"
    return f", within its budget of {format_usd(limit)}{format_excess_at_maximum_size(diff.after, limit)}"


def format_unenforced_budget(diff: CostDiff) -> str:
    """Return that a broken budget fails nothing, because no policy is checked; else empty."""
    limit = diff.budget_usd_per_month
    is_over = limit is not None and round_to_cents(diff.after.usd_per_month.expected) > limit
    is_checked = any(check.rule == "budget_usd_per_month" for check in diff.policy.checks)
    return UNENFORCED_BUDGET if is_over and not is_checked else ""


def format_excess_at_maximum_size(bill: Bill, limit: Decimal) -> str:
    """Return by how much the maximum size exceeds a limit, empty if it does not."""
    over = round_to_cents(bill.usd_per_month.high) - limit
    return f", up to {format_usd(over)} over it at maximum size" if over > 0 else ""


def _commitments_text(diff: CostDiff) -> str:
    """Return the cost of commitments, which no total includes; empty without a budget."""
    if diff.budget_usd_per_month is None:
        return ""
    paid = sum((use.usd_per_month for use in diff.after.commitments), ZERO)
    return f"; commitments of {format_usd(paid)} a month come on top" if paid else ""


def format_unpriced_count(bill: Bill) -> str:
    """Return how many items a total excludes, empty if none."""
    missing = sum(not gap.is_bounded for gap in bill.gaps.without_price)
    by_use = len(bill.gaps.by_use)
    parts = [f"{pluralize(missing, 'item')} without a price"] if missing else []
    if by_use and parts:
        parts.append(f"{by_use} that {'bills' if by_use == 1 else 'bill'} by use")
    elif by_use:
        parts.append(f"{pluralize(by_use, 'item that bills', 'items that bill')} by use")
    return f", not counting {' and '.join(parts)}" if parts else ""


def pluralize(amount: int, singular: str, plural: str = "") -> str:
    """Return "1 item" or "2 items"; ``plural`` is the singular with an s unless given."""
    return f"{amount} {singular if amount == 1 else plural or f'{singular}s'}"


def format_monthly_cost_range(diff: CostDiff) -> str:
    """Return the range of the monthly cost, empty if it is exact."""
    month = diff.after.usd_per_month
    between = format_usd_range(month, " and ")
    return "" if month.is_exact else f"Between {between} a month, by group size and spot capacity."


def format_headline_notes(diff: CostDiff) -> list[str]:
    """Return the sentences after the headline: range, one-off cost, effect of prices."""
    return [
        line
        for line in (
            format_monthly_cost_range(diff),
            format_one_off_cost(diff),
            format_unenforced_budget(diff),
            *format_code_and_price_effects(diff),
        )
        if line
    ]


def format_one_off_cost(diff: CostDiff) -> str:
    """Return the one-off cost of the change, empty if there is none."""
    once = diff.one_off_usd
    return (
        f"Once: {format_usd(once)} while replaced resources and their replacements both run." if once else ""
    )


def format_quantity_and_item(charge: Charge) -> str:
    """Return quantity and item: 2 x p4d.24xlarge, 100 GiB ebs:gp3, 2,000 requests sqs:request."""
    if charge.monthly_use:
        return f"{format_used_amount(charge.monthly_use)} {charge.item}"
    if charge.owned_nodes:
        return f"{pluralize(charge.owned_nodes, 'node')}, {charge.item}"
    return f"{format_quantity_range(charge.quantity)} {'GiB' if charge.is_by_size else 'x'} {charge.item}"


def format_diff_warnings(diff: CostDiff) -> list[str]:
    """Return the warnings without the prefix WARNING."""
    return [text.removeprefix("WARNING: ") for text in diff.warnings]


def format_line_amount(line: CostDiffLine, charge: Charge | None) -> str:
    """Return the monthly cost of one side of a line."""
    if charge is None:
        return "unpriced" if line.has_unpriced_side else "-"
    return format_usd(charge.usd_per_month.expected)


def format_purchase_terms(charge: Charge) -> str:
    """Return purchase kind and hours: spot, 60 h; what bills by use has no hours."""
    purchase_text = charge.purchase.replace("_", " ")
    if charge.monthly_use:
        return f"{purchase_text}, by use"
    return f"{purchase_text}, {format_number(charge.hours_per_month)} h"


def format_unpriced_reasons(unpriced: Iterable[UnpricedResource]) -> list[str]:
    """Return a line for each reason, with the unpriced resources."""
    by_reason: dict[str, list[str]] = {}
    for unpriced_resource in unpriced:
        part = f"{unpriced_resource.name} {unpriced_resource.component}".strip()
        by_reason.setdefault(unpriced_resource.reason, []).append(part)
    return [f"{_shorten_list(names)}: {reason}" for reason, names in sorted(by_reason.items())]


def format_skipped_reasons(skipped: Iterable[SkippedResource]) -> list[str]:
    """Return a line for each type and reason, with the resources that cost nothing."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for each in skipped:
        by_reason.setdefault((each.type, each.reason), []).append(each.name)
    return [
        f"{kind} ({_shorten_list(names)}): {reason}" for (kind, reason), names in sorted(by_reason.items())
    ]


def _shorten_list(names: list[str]) -> str:
    max_names = 3
    return (
        ", ".join(names)
        if len(names) <= max_names
        else f"{', '.join(names[:max_names])} and {len(names) - max_names} more"
    )


def _price_origin(price: Price | TierShare) -> str:
    return f"as of {price.as_of or 'an unknown date'}, {price.source}"


def format_met_limits(policy: PolicyResult) -> list[str]:
    """Return the checked limits that the change keeps."""
    return [
        f"{check.rule}: {check.requirement}{f' ({check.scope})' if check.scope else ''}"
        for check in policy.checks
        if check.is_met
    ]


def sort_lines_by_cost_change(lines: Iterable[CostDiffLine]) -> list[CostDiffLine]:
    """Sort lines by change of cost, then by cost, the largest first."""
    return sorted(
        lines, key=lambda line: (-abs(line.change_usd_per_month), -line.shown_charge.usd_per_month.expected)
    )


def format_used_amount(use: MonthlyUse) -> str:
    """Return an amount of a month with its unit: 600,000 GiB-months."""
    return f"{format_amount(use.amount)} {use.unit_name}"


def _unit_text(unit: str) -> str:
    """Return the unit of a price of an hour as text; a unit that counts time has no other hour."""
    if is_time_counted(unit):
        return format_use_unit(unit, is_stored=False)
    return f"{unit.replace('gib', 'GiB').replace('mib', 'MiB').replace('_', ' ')} and hour"


def format_price_sources(charges: Iterable[Charge]) -> list[str]:
    """Return a line for each used price and each volume tier that is reached, with date and source."""
    lines = {line for charge in charges if charge.price for line in _list_price_lines(charge, charge.price)}
    return [text for _, _, text in sorted(lines)]


def _format_rate(charge: Charge, price: Price) -> str:
    """Return the price of what runs: of an hour, or of a month if the list has it by the month."""
    if price.unit != "machine" and find_part_period(charge.cloud, charge.region, charge.item) == "month":
        usd_per_month = round_unit_price(to_decimal(price.usd_per_hour) * HOURS_PER_MONTH)
        return f"{usd_per_month:f} USD per {format_use_unit(price.unit, is_stored=True)}"
    return f"{price.usd_per_hour:.6g} USD per {_unit_text(price.unit)}"


def _list_price_lines(charge: Charge, price: Price) -> Iterator[tuple[str, Decimal, str]]:
    """Yield the lines of a charge, each with what sorts it: the item and the start of the tier."""
    subject, use = f"{charge.item} in {charge.region}, {price.purchase.replace('_', ' ')}", charge.monthly_use
    if use is None:
        rate = _format_rate(charge, price)
        yield subject, ZERO, f"{subject}: {rate}, {_price_origin(price)}"
        return
    for share in use.shares:
        tier = f", from {format_amount(share.from_amount)} {use.unit_name}" if share.from_amount else ""
        rate = f"{share.usd_per_unit:f} USD per {use.singular_unit_name}"
        yield subject, share.from_amount, f"{subject}{tier}: {rate}, {_price_origin(share)}"
