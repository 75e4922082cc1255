"""Sentences that all reports of a difference share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal

from gpufleet.catalog import Price
from gpufleet.cost.analysis.diff import CostDiff, Line, PolicyResult, PriceEffect
from gpufleet.cost.formatting import count, format_number, format_percent_change, span, usd
from gpufleet.cost.money import ZERO, round_to_cents
from gpufleet.cost.pricing.bill import Bill, Charge, UnpricedResource

USED = ("gib_processed", "gib_sent")  # billed by use, not by the hour


def headline(diff: CostDiff) -> str:
    """Return one sentence about the change of the monthly cost."""
    after, change = diff.after.usd_per_month, diff.change_usd_per_month
    name = diff.stack or "this stack"
    if diff.prices and diff.prices.same_stack:
        return _price_headline(diff, name, diff.prices)
    if diff.partial:
        return _partial_headline(name, change)
    if diff.before.machines_without_price or diff.after.machines_without_price:
        return _unknown_headline(diff, name, change)
    if change == 0:
        text = f"The monthly cost of {name} does not change: it stays at {usd(after.expected)}"
    else:
        verb = "raises" if change > 0 else "lowers"
        share = "" if diff.change_percent is None else f" ({format_percent_change(diff.change_percent)})"
        text = f"This change {verb} the monthly cost of {name} by {usd(abs(change))}{share} to {usd(after.expected)}"
    return f"{text}{_budget_text(diff)}{unpriced_count_text(diff.after)}{_commitments_text(diff)}."


def _partial_headline(name: str, change: Decimal) -> str:
    known = "what it costs in all is not known, because the preview leaves unchanged resources out"
    if change == 0:
        return f"This change does not move the monthly cost of {name}; {known}."
    verb = "raises" if change > 0 else "lowers"
    return f"This change {verb} the monthly cost of {name} by {usd(abs(change))}; {known}."


def _unknown_headline(diff: CostDiff, name: str, change: Decimal) -> str:
    """Return the headline if machines have no price: the known part, and how many machines are missing."""
    missing_counts = (
        ("before", diff.before.machines_without_price),
        ("after", diff.after.machines_without_price),
    )
    places = " and ".join(
        f"{plural(missing, 'machine')} {time} the change" for time, missing in missing_counts if missing
    )
    after = diff.after.usd_per_month.expected
    known_text = (
        f"stays at {usd(after)}" if change == 0 else f"changes by {usd(change, sign=True)} to {usd(after)}"
    )
    limit = diff.budget_usd_per_month
    over = "" if limit is None or round_to_cents(after) <= limit else _budget_text(diff)
    lead = f"What this change does to the monthly cost of {name} is not known: no price for {places}"
    return f"{lead}. What has a price {known_text}{over}{unpriced_count_text(diff.after)}{_commitments_text(diff)}."


def _price_headline(diff: CostDiff, name: str, move: PriceEffect) -> str:
    change, after = diff.change_usd_per_month, usd(diff.after.usd_per_month.expected)
    dates = f"the prices of {_day_text(move.after)} instead of {_day_text(move.before)}"
    if change == 0:
        qualifiers = f"{_budget_text(diff)}{unpriced_count_text(diff.after)}{_commitments_text(diff)}"
        return f"With {dates}, {name} costs the same: {after} a month{qualifiers}."
    direction = "more" if change > 0 else "less"
    share = "" if diff.change_percent is None else f" ({format_percent_change(diff.change_percent)})"
    text = f"With {dates}, the unchanged {name} costs {usd(abs(change))}{share} {direction} a month: {after}"
    return f"{text}{_budget_text(diff)}{unpriced_count_text(diff.after)}{_commitments_text(diff)}."


def price_effect_lines(diff: CostDiff) -> list[str]:
    """Return how much of the change comes from code and from prices, if the price dates differ."""
    move = diff.prices
    if move is None:
        return []
    days = f"{_day_text(move.before)} and {_day_text(move.after)}"
    if move.same_stack:
        return [f"Nothing in the code was compared: the same stack at the prices of {days}."]
    text = f"Of this change {usd(move.by_code, sign=True)} comes from the code"
    text += f" and {usd(move.by_prices, sign=True)} from prices between {days}"
    if move.unexplained:
        text += f"; {usd(move.unexplained, sign=True)} cannot be attributed, because a price is known on one date only"
    return [f"{text}."]


def _day_text(day: date | None) -> str:
    return day.isoformat() if day else "today"


def _budget_text(diff: CostDiff) -> str:
    limit = diff.budget_usd_per_month
    if limit is None:
        return ""
    over = round_to_cents(diff.after.usd_per_month.expected) - limit
    if over > 0:
        return f", {usd(over)} over its budget of {usd(limit)}"
    if missing := diff.after.machines_without_price:
        return f", not known whether within its budget of {usd(limit)}: {machines_have(missing)} no price"
    return f", within its budget of {usd(limit)}{maximum_text(diff.after, limit)}"


def machines_have(missing: int) -> str:
    """Return "1 machine has" or "2 machines have"."""
    return "1 machine has" if missing == 1 else f"{missing} machines have"


def maximum_text(bill: Bill, limit: Decimal) -> str:
    """Return by how much the maximum size exceeds a limit, empty if it does not."""
    over = round_to_cents(bill.usd_per_month.high) - limit
    return f", up to {usd(over)} over it at maximum size" if over > 0 else ""


def _commitments_text(diff: CostDiff) -> str:
    """Return the cost of commitments, which no total includes; empty without a budget."""
    if diff.budget_usd_per_month is None:
        return ""
    paid = sum((use.usd_per_month for use in diff.after.commitments), ZERO)
    return f"; commitments of {usd(paid)} a month come on top" if paid else ""


def unpriced_count_text(bill: Bill) -> str:
    """Return how many items a total excludes, empty if none."""
    missing = sum(not gap.is_bounded for gap in bill.unpriced)
    return f", not counting {plural(missing, 'item')} without a price" if missing else ""


def plural(amount: int, noun: str) -> str:
    """Return "1 item" or "2 items"."""
    return f"{amount} {noun}{'' if amount == 1 else 's'}"


def range_text(diff: CostDiff) -> str:
    """Return the range of the monthly cost, empty if it is exact."""
    month = diff.after.usd_per_month
    between = span(month, " and ")
    return "" if month.is_exact else f"Between {between} a month, by group size and spot capacity."


def notes(diff: CostDiff) -> list[str]:
    """Return the sentences after the headline: range, one-off cost, effect of prices."""
    return [line for line in (range_text(diff), one_off_text(diff), *price_effect_lines(diff)) if line]


def one_off_text(diff: CostDiff) -> str:
    """Return the one-off cost of the change, empty if there is none."""
    once = diff.one_off_usd
    return f"Once: {usd(once)} while replaced resources and their replacements both run." if once else ""


def quantity_text(charge: Charge) -> str:
    """Return quantity and item: 2 x p4d.24xlarge, 100 GiB ebs:gp3."""
    is_by_size = charge.price is not None and charge.price.unit == "gib"
    return f"{count(charge.quantity)} {'GiB' if is_by_size else 'x'} {charge.item}"


def warnings(diff: CostDiff) -> list[str]:
    """Return the warnings without the prefix WARNING."""
    return [text.removeprefix("WARNING: ") for text in diff.warnings]


def terms_text(charge: Charge) -> str:
    """Return purchase kind and hours: spot, 60 h."""
    purchase_text = charge.purchase.replace("_", " ")
    return f"{purchase_text}, {format_number(charge.hours_per_month)} h"


def unpriced_lines(unpriced: Iterable[UnpricedResource]) -> list[str]:
    """Return a line for each reason, with the unpriced resources."""
    by_reason: dict[str, list[str]] = {}
    for unpriced_resource in unpriced:
        part = f"{unpriced_resource.name} {unpriced_resource.component}".strip()
        by_reason.setdefault(unpriced_resource.reason, []).append(part)
    return [f"{_shorten_list(names)}: {reason}" for reason, names in sorted(by_reason.items())]


def _shorten_list(names: list[str]) -> str:
    max_names = 3
    return (
        ", ".join(names)
        if len(names) <= max_names
        else f"{', '.join(names[:max_names])} and {len(names) - max_names} more"
    )


def _price_origin(price: Price) -> str:
    return f"as of {price.as_of or 'an unknown date'}, {price.source}"


def kept_limits(policy: PolicyResult) -> list[str]:
    """Return the checked limits that the change keeps."""
    return [
        f"{check.rule}: {check.demands}{f' ({check.scope})' if check.scope else ''}"
        for check in policy.checks
        if not check.broken
    ]


def sort_by_cost(lines: Iterable[Line]) -> list[Line]:
    """Sort lines by change of cost, then by cost, the largest first."""
    return sorted(lines, key=lambda line: (-abs(line.usd_per_month), -line.shown.usd_per_month.expected))


def _unit_text(unit: str) -> str:
    """Return a price's unit as text; units billed by use have no hour."""
    text = unit.replace("gib", "GiB").replace("mib", "MiB").replace("_", " ")
    return text if unit in USED else f"{text} and hour"


def price_sources(charges: Iterable[Charge]) -> list[str]:
    """Return a line for each used price, with date and source."""
    lines = {
        f"{charge.item} in {charge.region}, {charge.price.purchase.replace('_', ' ')}: "
        f"{charge.price.usd_per_hour:.6g} USD per {_unit_text(charge.price.unit)}, {_price_origin(charge.price)}"
        for charge in charges
        if charge.price
    }
    return sorted(lines)
