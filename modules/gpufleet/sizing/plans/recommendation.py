"""The recommendation: which plan, why, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.sizing.plans.dependability import MAX_PRICE_AGE, is_dependable, is_stale
from gpufleet.sizing.plans.formatting import format_three_digits, format_usd
from gpufleet.sizing.plans.placement import find_smallest_placement
from gpufleet.sizing.plans.purchase import is_price_known
from gpufleet.sizing.plans.request import SizingRequest
from gpufleet.sizing.plans.result import SizingPlan

FULL_SHARE = 0.9  # of the memory that is available by default: above it, memory is the next constraint
CLOSE_SHARE = 1.25  # a plan that costs at most so much more can become the first
LEAST_MORE = 0.005  # below it, two costs are the same
REASONS = {"cost": "cheapest", "time": "quickest", "speed": "fastest", "power": "most economical with power"}
PURCHASES = {
    "on_demand": "on demand",
    "spot": "as spot",
    "reserved_1y": "committed for 1 year",
    "reserved_3y": "committed for 3 years",
}


def recommend_ranked_plan(request: SizingRequest, plans: Sequence[SizingPlan], considered: int) -> str:
    """Return the recommendation of the first of ranked plans; ``considered`` kinds of hardware were compared."""
    best = plans[0]
    if not best.is_feasible:
        return f"none of these plans: {_describe_obstacle(best)}"
    if best.tokens_per_s is None:
        return (
            f"none: the speed of each is unknown, because {'; '.join(best.speed.notes if best.speed else ())}"
        )
    ranking = REASONS[request.rank]
    what = f"the {ranking} of {considered} kinds of hardware" if considered > 1 else "the only kind asked for"
    if best.usd_per_hour is None and request.rank == "cost" and considered > 1:
        what = "no plan has a known rent; this one is the fastest"
    elif (
        request.is_serving
        and request.rank == "cost"
        and best.offer
        and not is_dependable(best.offer, request.day)
    ):
        what += ", though every price is spot or old"
    changes = "; ".join(_list_changes(request, best, plans))
    return (
        f"{_describe_plan(best)}: {what}{_describe_targets(request, best)}. What would change it: {changes}."
    )


def recommend_exact_plan(request: SizingRequest, plan: SizingPlan) -> str:
    """Return whether the one plan that was asked for is one to take, and what would change that."""
    if not plan.is_feasible:
        return f"not this plan: {_describe_obstacle(plan)}{_describe_smallest(request, plan)}"
    if plan.tokens_per_s is None:
        notes = "; ".join(plan.speed.notes if plan.speed else ())
        return f"not this plan: its speed is unknown, because {notes}"
    changes = "; ".join(_list_changes(request, plan, (plan,)))
    return f"{_describe_plan(plan)} runs it. What would change it: {changes}."


def _describe_plan(plan: SizingPlan) -> str:
    nodes = f"{plan.nodes} x " if plan.nodes > 1 else ""
    devices = f"{plan.devices} x " if plan.hardware.origin == "accelerator" and plan.devices > 1 else nodes
    name = f"{devices}{plan.hardware.name}"
    offer = plan.offer
    if offer is None or plan.usd_per_month is None:
        return f"{name} ({'to buy' if is_price_known(plan) else 'no price known'})"
    cost = (
        f"{format_usd(plan.total_usd)} USD"
        if plan.total_usd is not None
        else f"{format_usd(plan.usd_per_month)} USD a month"
    )
    if offer.purchase == "owned":
        return f"{name}, owned, {cost}"
    return f"{name}, {PURCHASES[offer.purchase]} at {offer.cloud} {offer.region}, {cost}"


def _describe_targets(request: SizingRequest, plan: SizingPlan) -> str:
    if request.users:
        rate = request.tokens_per_user
        figure = format_three_digits(plan.tokens_per_s_per_user)
        reached = f", who get {figure} tokens/s each: --tokens-per-user sets the least"
        each = f" at {format_three_digits(rate)} tokens/s each" if rate else reached
        return f" for {request.users:,} users{each}"
    unit = "documents" if request.workload.model.is_encoder else "requests"
    return f" for {format_three_digits(request.requests_per_s)} {unit}/s" if request.requests_per_s else ""


def _list_changes(request: SizingRequest, plan: SizingPlan, plans: Sequence[SizingPlan]) -> Iterator[str]:
    """Yield what would change the recommendation: speed, memory, price, age of prices."""
    yield _describe_speed(request, plan)
    available = plan.memory.available_gib or plan.memory.usable_gib
    needed = plan.memory.per_device_gib
    if available > 0 and needed > FULL_SHARE * available:
        yield f"memory: {needed:,.1f} of {available:,.1f} GiB of a device are taken, longer or more requests need more"
    cost = _cost(plan)
    others = [each for each in plans if each.hardware.name != plan.hardware.name and _cost(each) is not None]
    if cost is None or request.rank != "cost":
        return
    if plan.offer and plan.offer.purchase.startswith("reserved"):
        yield from _describe_without_commitment(request, plans)
    if request.is_serving:
        yield from _describe_undependable(request, plan, plans)
    if plan.offer and is_stale(plan.offer, request.day):
        yield f"price age: its price is of {plan.offer.as_of or 'an unknown day'}, over {MAX_PRICE_AGE.days} days old"
    usable = [each for each in others if not request.is_serving or is_dependable(each.offer, request.day)]
    rival = min(usable, key=lambda each: _cost(each) or 0.0, default=None)
    rival_cost = _cost(rival) if rival else None
    if rival and rival_cost is not None and cost <= rival_cost <= cost * CLOSE_SHARE:
        more = rival_cost / cost - 1
        yield f"price: {rival.hardware.name} costs {f'only {more:.0%} more' if more >= LEAST_MORE else 'the same'}"


def _describe_without_commitment(request: SizingRequest, plans: Sequence[SizingPlan]) -> Iterator[str]:
    """Yield the cheapest plan on demand whose price is not stale."""
    on_demand = [
        each
        for each in plans
        if each.offer and each.offer.purchase == "on_demand" and not is_stale(each.offer, request.day)
    ]
    if on_demand:
        least = min(on_demand, key=lambda each: _cost(each) or float("inf"))
        yield f"commitment: without one {least.hardware.name} on demand is {_cost_text(least)}"


def _describe_undependable(
    request: SizingRequest, plan: SizingPlan, plans: Sequence[SizingPlan]
) -> Iterator[str]:
    """Yield the cheapest spot plan, and the cheapest plan with an old price, if they cost less."""
    cost = _cost(plan) or 0.0
    cheaper = [each for each in plans if (_cost(each) or cost) < cost and each.offer]
    if not is_dependable(plan.offer, request.day):
        return
    spot = [each for each in cheaper if each.offer and each.offer.purchase == "spot"]
    if spot:
        least = min(spot, key=lambda each: _cost(each) or 0.0)
        yield f"price: {least.hardware.name} as spot is {_cost_text(least)}, if it may be interrupted"
    old = [each for each in cheaper if each.offer and each not in spot and is_stale(each.offer, request.day)]
    if old:
        least = min(old, key=lambda each: _cost(each) or 0.0)
        day = least.offer.as_of if least.offer and least.offer.as_of else "an unknown day"
        kind = PURCHASES[least.offer.purchase] if least.offer else ""
        yield (
            f"price age: {least.hardware.name} {kind} was {_cost_text(least)}, but that price is of {day}: "
            "run `gpufleet prices refresh`"
        )


def _describe_speed(request: SizingRequest, plan: SizingPlan) -> str:
    target, low = request.tokens_per_user, plan.tokens_per_s_low_per_user
    if target and low is not None and low < target:
        return (
            f"speed: at the low end of its range a user gets {format_three_digits(low)} tokens/s, "
            f"under the {format_three_digits(target)} asked for"
        )
    limit = plan.speed.limit if plan.speed else None
    return f"speed: {limit or 'no single part'} is its limit"


def _describe_obstacle(plan: SizingPlan) -> str:
    if plan.rejection_reason and plan.memory.fits:
        return plan.rejection_reason
    needed, usable = plan.memory.per_device_gib, max(plan.memory.usable_gib, 0.0)
    return f"it needs {needed:,.1f} GiB on the fullest device, {usable:,.1f} are usable"


def _describe_smallest(request: SizingRequest, plan: SizingPlan) -> str:
    """Return how many of the same devices hold the workload, empty if it is not memory that is missing."""
    if plan.memory.fits:
        return ""
    least = find_smallest_placement(request.workload, plan.hardware)
    if least is None:
        return "; no number of them that an engine can use holds it: take fewer bits, or other hardware"
    if least.layout.devices <= plan.devices:
        return f"; {least.layout.devices} of them hold one stream of it"
    return f"; {least.layout.devices} of them hold it"


def _cost(plan: SizingPlan) -> float | None:
    return plan.total_usd if plan.tokens else plan.usd_per_month


def _cost_text(plan: SizingPlan) -> str:
    return f"{format_usd(_cost(plan))} USD{'' if plan.tokens else ' a month'}"
