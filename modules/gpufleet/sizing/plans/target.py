"""Targets of a request, and by how much a plan misses them."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from gpufleet.sizing.plan_warning import PlanWarning
from gpufleet.sizing.plans.formatting import format_seconds, format_three_digits
from gpufleet.sizing.plans.request import SizingRequest
from gpufleet.sizing.plans.result import SizingPlan
from gpufleet.sizing.plans.traffic import time_to_first_token_s_without_queue

PREFIX = "misses-"
SLACK = 1e-6  # relative tolerance for rounding


def missed_target_warnings(request: SizingRequest, plan: SizingPlan) -> Iterator[PlanWarning]:
    """Yield a warning for each missed target with the reached value."""
    yield from _latency_warnings(request, plan)
    yield from _user_warnings(request, plan)
    yield from _traffic_warnings(request, plan)
    yield from _deadline_warnings(request, plan)
    yield from _budget_warnings(request, plan)


def is_missed_target_warning(warning: PlanWarning) -> bool:
    """Return whether a warning reports a missed target."""
    return warning.code.startswith(PREFIX)


def worst_target_ratio(request: SizingRequest, plan: SizingPlan) -> float:
    """Return value over limit of the worst target: 1 or less if all are met, infinite if unknown."""
    ratios = [_ratio(value, limit) for value, limit in _values_and_limits(request, plan) if limit is not None]
    if plan.users is not None:
        ratios.append(plan.users / plan.streams)
    if request.requests_per_s is not None:
        ratios.append(_ratio(request.requests_per_s, (plan.requests_per_s or 0.0) * plan.replicas))
    return max(ratios, default=1.0)


def _values_and_limits(
    request: SizingRequest, plan: SizingPlan
) -> Iterator[tuple[float | None, float | None]]:
    yield time_to_first_token_s_without_queue(plan) or plan.time_to_first_token_s, request.ttft_s
    yield (1 / plan.tokens_per_s_per_stream if plan.tokens_per_s_per_stream else None), request.tpot_s
    yield plan.request_duration_s, request.latency_s
    rate = plan.tokens_per_s_per_user if request.tokens_per_user else None
    yield (1 / rate if rate else None), (1 / request.tokens_per_user if request.tokens_per_user else None)
    yield plan.work_hours, request.deadline_h
    yield (plan.total_usd if plan.tokens else plan.usd_per_month), request.budget_usd


def _ratio(value: float | None, limit: float) -> float:
    return inf if value is None or not limit else value / limit


def _latency_warnings(request: SizingRequest, plan: SizingPlan) -> Iterator[PlanWarning]:
    first = time_to_first_token_s_without_queue(plan) or plan.time_to_first_token_s
    seconds_per_token = 1 / plan.tokens_per_s_per_stream if plan.tokens_per_s_per_stream else None
    targets = (
        ("ttft", "--ttft-ms", "the first token takes", first, request.ttft_s),
        ("tpot", "--tpot-ms", "a further token takes", seconds_per_token, request.tpot_s),
        ("latency", "--latency", "a whole request takes", plan.request_duration_s, request.latency_s),
    )
    for code, source, what, value, limit in targets:
        if limit is None:
            continue
        if value is None:
            yield _target_warning(code, f"{what} an unknown time", source)
        elif value > limit * (1 + SLACK):
            yield _target_warning(
                code,
                f"{what} {format_seconds(value)}, the target is {format_seconds(limit)}{_excess_text(value, limit)}",
                source,
            )


def _user_warnings(request: SizingRequest, plan: SizingPlan) -> Iterator[PlanWarning]:
    if plan.users is not None and plan.streams < plan.users:
        text = f"memory holds the requests of {plan.streams} users at once, not of {plan.users}"
        yield _target_warning("users", text, "--users")
    target, rate = request.tokens_per_user, plan.tokens_per_s_per_user
    if target is None:
        return
    if rate is None:
        yield _target_warning(
            "tokens-per-user", "the tokens per second of a user are not known", "--tokens-per-user"
        )
    elif rate < target * (1 - SLACK):
        text = f"each user gets {format_three_digits(rate)} tokens/s, the target is {format_three_digits(target)}"
        yield _target_warning("tokens-per-user", text, "--tokens-per-user")


def _traffic_warnings(request: SizingRequest, plan: SizingPlan) -> Iterator[PlanWarning]:
    target_rate = request.requests_per_s
    if target_rate is None:
        return
    served_rate = (plan.requests_per_s or 0.0) * plan.replicas if plan.is_feasible else 0.0
    if served_rate < target_rate * (1 - SLACK):
        missing = f"{1 - served_rate / target_rate:.0%} short"
        rates = [format_three_digits(rate) for rate in (served_rate, target_rate)]
        text = f"{rates[0]} requests/s can be served, the target is {rates[1]}: {missing}"
        yield _target_warning("requests", text, "--requests-per-s")


def _deadline_warnings(request: SizingRequest, plan: SizingPlan) -> Iterator[PlanWarning]:
    limit = request.deadline_h
    if limit is None:
        return
    if plan.work_hours is None:
        yield _target_warning("deadline", "the duration of the work is not known", "--deadline")
    elif plan.work_hours > limit * (1 + SLACK):
        allowed = f"the deadline allows {format_three_digits(limit)}{_excess_text(plan.work_hours, limit)}"
        text = f"the work takes {format_three_digits(plan.work_hours)} hours, {allowed}"
        yield _target_warning("deadline", text, "--deadline")


def _budget_warnings(request: SizingRequest, plan: SizingPlan) -> Iterator[PlanWarning]:
    limit = request.budget_usd
    if limit is None:
        return
    usd, what = (plan.total_usd, "the work") if plan.tokens else (plan.usd_per_month, "a month")
    if usd is None:
        yield _target_warning("budget", f"the cost of {what} is not known", "--budget")
    elif usd > limit * (1 + SLACK):
        yield _target_warning(
            "budget",
            f"{what} costs {usd:,.2f} USD, the budget is {limit:,.2f}{_excess_text(usd, limit)}",
            "--budget",
        )


def _excess_text(value: float, limit: float) -> str:
    ratio = value / limit
    return f": {format_three_digits(ratio)} times as much" if ratio >= 2 else f": {ratio - 1:.1%} more"  # noqa: PLR2004 - twice


def _target_warning(code: str, text: str, source: str) -> PlanWarning:
    return PlanWarning(PREFIX + code, text, source)
