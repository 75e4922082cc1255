"""What each limit asks: a difference in, the ways in which it is broken out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase

from gpufleet.cost.analysis.diff import CostDiff
from gpufleet.cost.analysis.policy.model import Limits
from gpufleet.cost.formatting import usd
from gpufleet.cost.money import ZERO, round_to_cents
from gpufleet.cost.pricing.bill import Charge, UnpricedResource

UNJUDGED = "cannot be judged: totals are partial; preview with --show-sames"
OURS = ("owned", "covered")  # nothing is bought: the hardware is ours, or a reservation that is counted pays


def budget(diff: CostDiff, limits: Limits, _: date) -> Iterator[str]:
    limit, month = limits.budget_usd_per_month, round_to_cents(diff.after.usd_per_month.expected)
    if diff.partial:
        yield UNJUDGED
    elif limit is not None and month > limit:
        yield f"{usd(month)} a month is over the budget of {usd(limit)}"


def highest(diff: CostDiff, limits: Limits, _: date) -> Iterator[str]:
    """Look at the upper end: every group at its maximum, nothing on spot where that is not certain."""
    limit, month = limits.max_high_usd_per_month, round_to_cents(diff.after.usd_per_month.high)
    if diff.partial:
        yield UNJUDGED
    elif limit is not None and month > limit:
        yield f"{usd(month)} a month at maximum size is over {usd(limit)}"


def increase(diff: CostDiff, limits: Limits, _: date) -> Iterator[str]:
    change, limit = diff.change_usd_per_month, limits.max_increase_usd_per_month
    if limit is not None and change > limit:
        yield f"an increase of {usd(change)} a month is over {usd(limit)}"


def percentage(diff: CostDiff, limits: Limits, _: date) -> Iterator[str]:
    change, share, limit = diff.change_usd_per_month, diff.change_percent, limits.max_increase_percent
    if change <= 0 or limit is None:
        return
    if diff.partial:
        yield UNJUDGED
    elif share is None or share > limit:
        grown = "an increase from nothing" if share is None else f"an increase of {share} %"
        yield f"{grown} is over {limit} %"


def largest(diff: CostDiff, limits: Limits, _: date) -> Iterator[str]:
    """Compare each resource with all that it bills for: its machine, disks and addresses."""
    months: dict[str, tuple[str, Decimal]] = {}
    for charge in diff.after.charges:
        spent = months.get(charge.urn, (charge.name, ZERO))[1] + charge.usd_per_month.expected
        months[charge.urn] = (charge.name, spent)
    limit = limits.max_resource_usd_per_month
    for name, month in sorted(months.values(), key=lambda each: (-each[1], each[0])):
        if limit is not None and round_to_cents(month) > limit:
            yield f"{name} costs {usd(month)} a month, over {usd(limit)} for one resource"


def purchases(diff: CostDiff, limits: Limits, _: date) -> Iterator[str]:
    """Look at machines only: what is around them is sold plainly and in no other way."""
    allowed = limits.purchases or ()
    found = {
        (charge.name, charge.purchase)
        for charge in diff.after.charges
        if _bought(charge) and not _permitted(charge.purchase, allowed)
    }
    for name, purchase in sorted(found):
        yield f"{name} is bought {_words(purchase)}; allowed: {', '.join(map(_words, allowed))}"


def _bought(charge: Charge) -> bool:
    machine = charge.component.partition(":")[0] == "machine"
    return machine and charge.purchase not in OURS and charge.quantity.high > 0


def _permitted(purchase: str, allowed: tuple[str, ...]) -> bool:
    """Tell whether a purchase is allowed; ``reserved`` allows every term."""
    return purchase in allowed or ("reserved" in allowed and purchase.startswith("reserved"))


def ages(diff: CostDiff, limits: Limits, today: date) -> Iterator[str]:
    listed = [
        charge for charge in diff.after.charges if charge.purchase != "owned"
    ]  # the fleet declares those
    prices = {(charge.item, charge.region): charge.price for charge in listed if charge.price}
    limit = limits.max_price_age_days or 0
    for (item, region), price in sorted(prices.items(), key=lambda entry: entry[0]):
        dated = price.as_of_date
        if dated is None:
            yield f"the price of {item} in {region} has no date"
        elif (today - dated).days > limit:
            yield f"the price of {item} in {region} is {(today - dated).days} days old, over {limit}"


def unpriced(diff: CostDiff, limits: Limits, _: date) -> Iterator[str]:
    by_type: dict[str, list[UnpricedResource]] = {}
    for gap in diff.after.unpriced:
        if not any(fnmatchcase(gap.type, allowed) for allowed in limits.unpriced):
            by_type.setdefault(gap.type, []).append(gap)
    for kind, gaps in sorted(by_type.items()):
        yield f"{len(gaps)} of {kind} without price: {gaps[0].reason}"


LIMIT_CHECKS: dict[str, Callable[[CostDiff, Limits, date], Iterator[str]]] = {
    "budget_usd_per_month": budget,
    "max_high_usd_per_month": highest,
    "max_increase_usd_per_month": increase,
    "max_increase_percent": percentage,
    "max_resource_usd_per_month": largest,
    "purchases": purchases,
    "max_price_age_days": ages,
    "unpriced": unpriced,
}


def demands(key: str, limits: Limits) -> str:
    """Write what a limit demands, in a few words."""
    value = getattr(limits, key)
    said = {
        "budget_usd_per_month": lambda: f"at most {usd(value)} a month",
        "max_high_usd_per_month": lambda: f"at most {usd(value)} a month at maximum size",
        "max_increase_usd_per_month": lambda: f"at most {usd(value)} more a month",
        "max_increase_percent": lambda: f"at most {value} % more",
        "max_resource_usd_per_month": lambda: f"no resource over {usd(value)} a month",
        "purchases": lambda: f"machines bought {' or '.join(map(_words, value))}",
        "max_price_age_days": lambda: f"no price older than {value} days",
        "unpriced": lambda: "nothing without price" + (f" but {', '.join(value)}" if value else ""),
    }
    return said[key]()


def _words(purchase: str) -> str:
    return purchase.replace("_", " ")
