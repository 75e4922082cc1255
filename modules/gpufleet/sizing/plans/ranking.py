"""Ranking: sort keys for plans, by the low end of their ranges: an uncertain plan must not win by its uncertainty."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from gpufleet.sizing.plans.request import Rank
from gpufleet.sizing.plans.result import SizingPlan

Key = tuple[float, ...]


def build_plan_sort_key(
    ranking: Rank, serving_rank: Callable[[SizingPlan], float]
) -> Callable[[SizingPlan], Key]:
    """Return the sort key of a ranking: smaller is better; unknown values come last.

    ``serving_rank`` puts offers last on which no service can be built: before the cost, and after any other measure,
    because a machine is not slower for the way it is paid.
    """
    order = {"cost": _cost_key, "time": _time_key, "speed": _speed_key, "power": _power_key}[ranking]
    first = 0 if ranking == "cost" else 1

    def build_key(plan: SizingPlan) -> Key:
        key = order(plan)
        unknown = float(not plan.tokens_per_s)  # plans with unknown speed come last
        return (float(not plan.is_feasible), unknown, *key[:first], serving_rank(plan), *key[first:])

    return build_key


def _cost_key(plan: SizingPlan) -> Key:
    """Order by the cost of the work, without work by the cost per hour."""
    main = _at_low_speed(plan, plan.total_usd) if plan.tokens else plan.usd_per_hour
    usd_per_token = plan.usd_per_million_tokens
    return (
        _unknown_last(main),
        _unknown_last(usd_per_token if plan.served_tokens_per_s else _at_low_speed(plan, usd_per_token)),
        -(plan.tokens_per_s_low or 0.0),
        float(plan.devices),
    )


def _time_key(plan: SizingPlan) -> Key:
    """Order by the hours of the work, without work by the seconds of one request."""
    main = plan.work_hours if plan.tokens else plan.request_duration_s
    return (_unknown_last(_at_low_speed(plan, main)), _unknown_last(plan.usd_per_hour))


def _speed_key(plan: SizingPlan) -> Key:
    return (-(plan.tokens_per_s_low or 0.0), _unknown_last(plan.usd_per_hour))


def _power_key(plan: SizingPlan) -> Key:
    """Order by energy per token."""
    watts, speed = plan.total_watts, plan.tokens_per_s
    energy = watts / speed if watts and speed else None
    return (_unknown_last(_at_low_speed(plan, energy)), _unknown_last(plan.usd_per_hour))


def _at_low_speed(plan: SizingPlan, value: float | None) -> float | None:
    """Return hours, dollars or energy that were computed at the expected speed, at the low end of its range."""
    if value is None or not plan.tokens_per_s or not plan.tokens_per_s_low:
        return value
    return value * plan.tokens_per_s / plan.tokens_per_s_low


def _unknown_last(value: float | None) -> float:
    return inf if value is None else value
