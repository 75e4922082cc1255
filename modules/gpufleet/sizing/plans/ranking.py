"""What makes one plan better than another."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from gpufleet.sizing.plans.request import Rank
from gpufleet.sizing.plans.result import Plan

Key = tuple[float, ...]


def sort_key(rank: Rank) -> Callable[[Plan], Key]:
    """Return the sort key of a ranking: smaller is better; what is unknown comes last."""
    order = {"cost": _cost_key, "time": _time_key, "speed": _speed_key, "power": _power_key}[rank]
    return lambda plan: (
        float(not plan.tokens_per_s),
        *order(plan),
    )  # a speed that nobody knows is no promise


def _cost_key(plan: Plan) -> Key:
    """Order by what the work costs; by the hour where no work is given."""
    main = plan.usd if plan.tokens else plan.usd_per_hour
    return (
        _unknown_last(main),
        _unknown_last(plan.usd_per_million_tokens),
        -(plan.tokens_per_s or 0.0),
        float(plan.devices),
    )


def _time_key(plan: Plan) -> Key:
    """Order by the hours of the work; by one request's seconds where none is given."""
    main = plan.hours if plan.tokens else plan.request_s
    return (_unknown_last(main), _unknown_last(plan.usd_per_hour))


def _speed_key(plan: Plan) -> Key:
    return (-(plan.tokens_per_s or 0.0), _unknown_last(plan.usd_per_hour))


def _power_key(plan: Plan) -> Key:
    """Order by the energy of the work, or of a token where no work is given."""
    watts, speed = plan.watts, plan.tokens_per_s
    energy = watts / speed if watts and speed else None
    return (_unknown_last(energy), _unknown_last(plan.usd_per_hour))


def _unknown_last(value: float | None) -> float:
    return inf if value is None else value
