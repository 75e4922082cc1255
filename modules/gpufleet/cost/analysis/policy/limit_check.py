"""Check a difference against each limit; yield a message for each violation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase

from gpufleet.cost.analysis.diff import CostDiff
from gpufleet.cost.analysis.policy.model import CostLimits
from gpufleet.cost.formatting import format_usd
from gpufleet.cost.money import ZERO, round_to_cents
from gpufleet.cost.pricing.bill import Charge, UnpricedResource

PARTIAL_TOTALS = "cannot be judged: totals are partial; preview with --show-sames"
NOT_BOUGHT = (
    "owned",
    "covered",
)  # owned, or paid by a counted reservation


def check_budget(diff: CostDiff, limits: CostLimits, _: date) -> Iterator[str]:
    limit, month = limits.budget_usd_per_month, round_to_cents(diff.after.usd_per_month.expected)
    if diff.partial:
        yield PARTIAL_TOTALS
    elif limit is not None and month > limit:
        yield f"{format_usd(month)} a month is over the budget of {format_usd(limit)}"


def check_maximum_cost(diff: CostDiff, limits: CostLimits, _: date) -> Iterator[str]:
    """Check the upper bound: every group at its maximum size, uncertain spot as on-demand."""
    limit, month = limits.max_high_usd_per_month, round_to_cents(diff.after.usd_per_month.high)
    if diff.partial:
        yield PARTIAL_TOTALS
    elif limit is not None and month > limit:
        yield f"{format_usd(month)} a month at maximum size is over {format_usd(limit)}"


def check_cost_increase(diff: CostDiff, limits: CostLimits, _: date) -> Iterator[str]:
    change, limit = diff.change_usd_per_month, limits.max_increase_usd_per_month
    if limit is not None and change > limit:
        yield f"an increase of {format_usd(change)} a month is over {format_usd(limit)}"


def check_increase_percent(diff: CostDiff, limits: CostLimits, _: date) -> Iterator[str]:
    change, share, limit = diff.change_usd_per_month, diff.change_percent, limits.max_increase_percent
    if change <= 0 or limit is None:
        return
    if diff.partial:
        yield PARTIAL_TOTALS
    elif change <= (limits.ignore_increase_below_usd_per_month or ZERO):
        return
    elif share is None or share > limit:
        grown = "an increase from nothing" if share is None else f"an increase of {share} %"
        yield f"{grown} is over {limit} %"


def check_resource_cost(diff: CostDiff, limits: CostLimits, _: date) -> Iterator[str]:
    """Check the cost of each resource with its machine, disks and addresses."""
    months: dict[str, tuple[str, Decimal]] = {}
    for charge in diff.after.charges:
        spent = months.get(charge.urn, (charge.name, ZERO))[1] + charge.usd_per_month.expected
        months[charge.urn] = (charge.name, spent)
    limit = limits.max_resource_usd_per_month
    for name, month in sorted(months.values(), key=lambda each: (-each[1], each[0])):
        if limit is not None and round_to_cents(month) > limit:
            yield f"{name} costs {format_usd(month)} a month, over {format_usd(limit)} for one resource"


def check_purchase_kinds(diff: CostDiff, limits: CostLimits, _: date) -> Iterator[str]:
    """Check machines only: disks and addresses have one purchase kind."""
    allowed = limits.purchases or ()
    disallowed = {
        (charge.name, charge.purchase)
        for charge in diff.after.charges
        if _is_bought_machine(charge) and not _is_allowed(charge.purchase, allowed)
    }
    for name, purchase in sorted(disallowed):
        yield f"{name} is bought as {_purchase_text(purchase)}; allowed: {', '.join(map(_purchase_text, allowed))}"


def _is_bought_machine(charge: Charge) -> bool:
    is_machine = charge.component.partition(":")[0] == "machine"
    return is_machine and charge.purchase not in NOT_BOUGHT and charge.quantity.high > 0


def _is_allowed(purchase: str, allowed: tuple[str, ...]) -> bool:
    """Return whether a purchase is allowed; ``reserved`` allows every term."""
    return purchase in allowed or ("reserved" in allowed and purchase.startswith("reserved"))


def check_price_age(diff: CostDiff, limits: CostLimits, today: date) -> Iterator[str]:
    charges = [
        charge for charge in diff.after.charges if charge.purchase != "owned"
    ]  # the fleet declares those
    prices = {(charge.item, charge.region): charge.price for charge in charges if charge.price}
    limit = limits.max_price_age_days or 0
    for (item, region), price in sorted(prices.items(), key=lambda entry: entry[0]):
        dated = price.earliest_price_date
        if dated is None:
            yield f"the price of {item} in {region} has no date"
        elif (today - dated).days > limit:
            yield f"the price of {item} in {region} is {(today - dated).days} days old, over {limit}"


def check_unpriced_resources(diff: CostDiff, limits: CostLimits, _: date) -> Iterator[str]:
    for kind, gaps in _group_by_type(diff.after.gaps.without_price, limits.unpriced):
        yield f"{len(gaps)} of {kind} have no price: {gaps[0].reason}"


def check_unknown_usage(diff: CostDiff, limits: CostLimits, _: date) -> Iterator[str]:
    for kind, gaps in _group_by_type(diff.after.gaps.by_use, limits.unknown_usage):
        yield f"{len(gaps)} of {kind} bill by use of an unknown amount: {gaps[0].reason}"


def _group_by_type(
    gaps: Iterable[UnpricedResource], allowed: tuple[str, ...]
) -> list[tuple[str, list[UnpricedResource]]]:
    """Return the gaps of each type that is not allowed, by type."""
    by_type: dict[str, list[UnpricedResource]] = {}
    for gap in gaps:
        if not any(fnmatchcase(gap.type, pattern) for pattern in allowed):
            by_type.setdefault(gap.type, []).append(gap)
    return sorted(by_type.items())


LIMIT_CHECKS: dict[str, Callable[[CostDiff, CostLimits, date], Iterator[str]]] = {
    "budget_usd_per_month": check_budget,
    "max_high_usd_per_month": check_maximum_cost,
    "max_increase_usd_per_month": check_cost_increase,
    "max_increase_percent": check_increase_percent,
    "max_resource_usd_per_month": check_resource_cost,
    "purchases": check_purchase_kinds,
    "max_price_age_days": check_price_age,
    "unpriced": check_unpriced_resources,
    "unknown_usage": check_unknown_usage,
}


# Limits that a change of unknown cost may break: they are not decided while there is one.
EFFECT_LIMITS = frozenset(
    {
        "budget_usd_per_month",
        "max_high_usd_per_month",
        "max_increase_usd_per_month",
        "max_increase_percent",
        "max_resource_usd_per_month",
    }
)


def describe_limit(key: str, limits: CostLimits) -> str:
    """Return a limit as a short requirement."""
    value = getattr(limits, key)
    texts = {
        "budget_usd_per_month": lambda: f"at most {format_usd(value)} a month",
        "max_high_usd_per_month": lambda: f"at most {format_usd(value)} a month at maximum size",
        "max_increase_usd_per_month": lambda: f"at most {format_usd(value)} more a month",
        "max_increase_percent": lambda: f"at most {value} % more{_ignored_increase_text(limits)}",
        "max_resource_usd_per_month": lambda: f"no resource over {format_usd(value)} a month",
        "purchases": lambda: f"machines bought {' or '.join(map(_purchase_text, value))}",
        "max_price_age_days": lambda: f"no price older than {value} days",
        "unpriced": lambda: "no resource without a price" + _exceptions_text(value),
        "unknown_usage": lambda: (
            "an amount of use for each resource that bills by use" + _exceptions_text(value)
        ),
    }
    return texts[key]()


def _exceptions_text(types: tuple[str, ...]) -> str:
    return f" but {', '.join(types)}" if types else ""


def _ignored_increase_text(limits: CostLimits) -> str:
    floor = limits.ignore_increase_below_usd_per_month
    return "" if floor is None else f", from {format_usd(floor)} a month"


def _purchase_text(purchase: str) -> str:
    return purchase.replace("_", " ")
