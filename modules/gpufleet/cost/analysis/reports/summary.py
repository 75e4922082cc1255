"""The sentences that every report of a difference shares."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal

from gpufleet.catalog import Price
from gpufleet.cost.analysis.diff import CostDiff, Line, PolicyResult, PriceMove
from gpufleet.cost.formatting import count, number, percent, span, usd
from gpufleet.cost.money import ZERO, round_to_cents
from gpufleet.cost.pricing.bill import Bill, Charge, UnpricedResource

USED = ("gib_processed", "gib_sent")  # billed by use, not by the hour


def headline(diff: CostDiff) -> str:
    """Say in one sentence what the change does to the month."""
    after, change = diff.after.usd_per_month, diff.change_usd_per_month
    name = diff.stack or "this stack"
    if diff.prices and diff.prices.same_stack:
        return _price_headline(diff, name, diff.prices)
    if diff.partial:
        return _partial_headline(name, change)
    if diff.before.machines_without_price or diff.after.machines_without_price:
        return _unknown_headline(diff, name, change)
    if change == 0:
        said = f"The monthly cost of {name} does not change: it stays at {usd(after.expected)}"
    else:
        verb = "raises" if change > 0 else "lowers"
        share = "" if diff.change_percent is None else f" ({percent(diff.change_percent)})"
        said = f"This change {verb} the monthly cost of {name} by {usd(abs(change))}{share} to {usd(after.expected)}"
    return f"{said}{_budget(diff)}{holes(diff.after)}{_on_top(diff)}."


def _partial_headline(name: str, change: Decimal) -> str:
    known = "what it costs in all is not known, because the preview leaves unchanged resources out"
    if change == 0:
        return f"This change does not move the monthly cost of {name}; {known}."
    verb = "raises" if change > 0 else "lowers"
    return f"This change {verb} the monthly cost of {name} by {usd(abs(change))}; {known}."


def _unknown_headline(diff: CostDiff, name: str, change: Decimal) -> str:
    """Say that nobody knows, where machines have no price; the rest is told as what it is."""
    sides = (("before", diff.before.machines_without_price), ("after", diff.after.machines_without_price))
    told = " and ".join(
        f"{plural(missing, 'machine')} {side} the change" for side, missing in sides if missing
    )
    after = diff.after.usd_per_month.expected
    rest = f"stays at {usd(after)}" if change == 0 else f"changes by {usd(change, sign=True)} to {usd(after)}"
    limit = diff.budget_usd_per_month
    over = "" if limit is None or round_to_cents(after) <= limit else _budget(diff)
    head = f"What this change does to the monthly cost of {name} is not known: no price for {told}"
    return f"{head}. What has a price {rest}{over}{holes(diff.after)}{_on_top(diff)}."


def _price_headline(diff: CostDiff, name: str, move: PriceMove) -> str:
    change, after = diff.change_usd_per_month, usd(diff.after.usd_per_month.expected)
    dates = f"the prices of {_day(move.after)} instead of {_day(move.before)}"
    if change == 0:
        return f"With {dates}, {name} costs the same: {after} a month{_budget(diff)}{holes(diff.after)}{_on_top(diff)}."
    word = "more" if change > 0 else "less"
    share = "" if diff.change_percent is None else f" ({percent(diff.change_percent)})"
    said = f"With {dates}, the unchanged {name} costs {usd(abs(change))}{share} {word} a month: {after}"
    return f"{said}{_budget(diff)}{holes(diff.after)}{_on_top(diff)}."


def causes(diff: CostDiff) -> list[str]:
    """Say how much of the change comes from the code and how much from prices, where the dates differ."""
    move = diff.prices
    if move is None:
        return []
    days = f"{_day(move.before)} and {_day(move.after)}"
    if move.same_stack:
        return [f"Nothing in the code was compared: the same stack at the prices of {days}."]
    told = f"Of this change {usd(move.by_code, sign=True)} comes from the code"
    told += f" and {usd(move.by_prices, sign=True)} from prices between {days}"
    if move.untold:
        told += f"; {usd(move.untold, sign=True)} cannot be told apart, as a price is known on one date only"
    return [f"{told}."]


def _day(of: date | None) -> str:
    return of.isoformat() if of else "today"


def _budget(diff: CostDiff) -> str:
    limit = diff.budget_usd_per_month
    if limit is None:
        return ""
    over = round_to_cents(diff.after.usd_per_month.expected) - limit
    if over > 0:
        return f", {usd(over)} over its budget of {usd(limit)}"
    if missing := diff.after.machines_without_price:
        return f", not known whether within its budget of {usd(limit)}: {machines(missing)} no price"
    return f", within its budget of {usd(limit)}{at_most(diff.after, limit)}"


def machines(missing: int) -> str:
    """Write 1 machine has, 2 machines have."""
    return "1 machine has" if missing == 1 else f"{missing} machines have"


def at_most(bill: Bill, limit: Decimal) -> str:
    """Say how far the upper end is over a limit that the expected month keeps, nothing where it is not."""
    over = round_to_cents(bill.usd_per_month.high) - limit
    return f", up to {usd(over)} over it at maximum size" if over > 0 else ""


def _on_top(diff: CostDiff) -> str:
    """Say beside a budget what commitments cost, which is in no total."""
    if diff.budget_usd_per_month is None:
        return ""
    paid = sum((use.usd_per_month for use in diff.after.commitments), ZERO)
    return f"; commitments of {usd(paid)} a month come on top" if paid else ""


def holes(bill: Bill) -> str:
    """Say how many items a total leaves out, nothing where it leaves out none."""
    missing = sum(not gap.is_bounded for gap in bill.unpriced)
    return f", not counting {plural(missing, 'item')} without a price" if missing else ""


def plural(amount: int, noun: str) -> str:
    """Write 1 item, 2 items."""
    return f"{amount} {noun}{'' if amount == 1 else 's'}"


def bounds(diff: CostDiff) -> str:
    """Say between which bounds the month lies, nothing where it is certain."""
    month = diff.after.usd_per_month
    between = span(month, " and ")
    return "" if month.is_exact else f"Between {between} a month, by group size and spot capacity."


def notes(diff: CostDiff) -> list[str]:
    """Return the sentences that go with the headline: bounds, one-off cost, and what prices changed by themselves."""
    return [said for said in (bounds(diff), one_off(diff), *causes(diff)) if said]


def one_off(diff: CostDiff) -> str:
    """Say what the change costs once, nothing where it costs nothing."""
    once = diff.one_off_usd
    return f"Once: {usd(once)} while replaced resources run beside their successors." if once else ""


def what(charge: Charge) -> str:
    """Write what is billed: 2 x p4d.24xlarge, 100 GiB ebs:gp3."""
    sized = charge.price is not None and charge.price.unit == "gib"
    return f"{count(charge.quantity)} {'GiB' if sized else 'x'} {charge.item}"


def warnings(diff: CostDiff) -> list[str]:
    """Return what a reader must know, without the word that the title says already."""
    return [text.removeprefix("WARNING: ") for text in diff.warnings]


def terms(charge: Charge) -> str:
    """Write how it is bought: spot, 60 h."""
    bought = charge.purchase.replace("_", " ")
    return f"{bought}, {number(charge.hours_per_month)} h"


def gaps(unpriced: Iterable[UnpricedResource]) -> list[str]:
    """Write what has no price, the same reason once."""
    by_reason: dict[str, list[str]] = {}
    for gap in unpriced:
        part = f"{gap.name} {gap.component}".strip()
        by_reason.setdefault(gap.reason, []).append(part)
    return [f"{_few(names)}: {reason}" for reason, names in sorted(by_reason.items())]


def _few(names: list[str]) -> str:
    most = 3
    return (
        ", ".join(names) if len(names) <= most else f"{', '.join(names[:most])} and {len(names) - most} more"
    )


def _origin(price: Price) -> str:
    return f"as of {price.as_of or 'an unknown date'}, {price.source}"


def kept(policy: PolicyResult) -> list[str]:
    """Write the limits that were asked and hold."""
    return [
        f"{check.rule}: {check.demands}{f' ({check.scope})' if check.scope else ''}"
        for check in policy.checks
        if not check.broken
    ]


def dearest(lines: Iterable[Line]) -> list[Line]:
    """Sort lines so that what moves most money comes first, then what costs most."""
    return sorted(lines, key=lambda line: (-abs(line.usd_per_month), -line.shown.usd_per_month.expected))


def _unit(unit: str) -> str:
    """Write what a price is of: a GiB and hour, but a GiB that was processed, whenever that was."""
    said = unit.replace("gib", "GiB").replace("mib", "MiB").replace("_", " ")
    return said if unit in USED else f"{said} and hour"


def sources(charges: Iterable[Charge]) -> list[str]:
    """List each price used once, with its date and source."""
    found = {
        f"{charge.item} in {charge.region}, {charge.price.purchase.replace('_', ' ')}: "
        f"{charge.price.usd_per_hour:.6g} USD per {_unit(charge.price.unit)}, {_origin(charge.price)}"
        for charge in charges
        if charge.price
    }
    return sorted(found)
