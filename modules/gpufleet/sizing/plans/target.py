"""What was to be reached, and by how much a plan misses it: said of the one plan that was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from gpufleet.sizing.plan_warning import Caution
from gpufleet.sizing.plans.report import figure
from gpufleet.sizing.plans.request import Question
from gpufleet.sizing.plans.result import Plan
from gpufleet.sizing.plans.traffic import lone_first

MILLISECONDS = 1000
PREFIX = "misses-"
SLACK = 1e-6  # rounding is no miss


def missed(question: Question, plan: Plan) -> Iterator[Caution]:
    """Yield each target that the plan does not reach, with what it reaches instead."""
    yield from _latencies(question, plan)
    yield from _traffic(question, plan)
    yield from _deadline(question, plan)
    yield from _budget(question, plan)


def is_miss(caution: Caution) -> bool:
    """Tell whether a caution says that a target is missed."""
    return caution.code.startswith(PREFIX)


def distance(question: Question, plan: Plan) -> float:
    """Return how many times over its worst target a plan is; 1 or less where all are met, infinite where unknown."""
    ratios = [_ratio(value, limit) for value, limit in _reached(question, plan) if limit is not None]
    if question.requests_per_s is not None:
        ratios.append(_ratio(question.requests_per_s, (plan.requests_per_s or 0.0) * plan.replicas))
    return max(ratios, default=1.0)


def _reached(question: Question, plan: Plan) -> Iterator[tuple[float | None, float | None]]:
    yield lone_first(plan) or plan.time_to_first_token_s, question.ttft_s
    yield (1 / plan.per_stream if plan.per_stream else None), question.tpot_s
    yield plan.request_s, question.latency_s
    yield plan.hours, question.deadline_h
    yield (plan.usd if plan.tokens else plan.usd_per_month), question.budget_usd


def _ratio(value: float | None, limit: float) -> float:
    return inf if value is None or not limit else value / limit


def _latencies(question: Question, plan: Plan) -> Iterator[Caution]:
    first = lone_first(plan) or plan.time_to_first_token_s
    each = 1 / plan.per_stream if plan.per_stream else None
    wanted = (
        ("ttft", "--ttft-ms", "the first token comes", first, question.ttft_s),
        ("tpot", "--tpot-ms", "a further token comes", each, question.tpot_s),
        ("latency", "--latency", "a whole request is done", plan.request_s, question.latency_s),
    )
    for code, source, what, value, limit in wanted:
        if limit is None:
            continue
        if value is None:
            yield _miss(code, f"{what} after a time that is not known", source)
        elif value > limit * (1 + SLACK):
            shown, bound = value * MILLISECONDS, limit * MILLISECONDS
            yield _miss(
                code,
                f"{what} after {shown:.4g} ms, {bound:g} ms were asked for{_by(value, limit)}",
                source,
            )


def _traffic(question: Question, plan: Plan) -> Iterator[Caution]:
    wanted = question.requests_per_s
    if wanted is None:
        return
    has = (plan.requests_per_s or 0.0) * plan.replicas if plan.fits else 0.0
    if has < wanted * (1 - SLACK):
        short = (
            f"{figure(has)} requests/s can be served, {wanted:g} were asked for: {1 - has / wanted:.0%} short"
        )
        yield _miss("requests", short, "--requests-per-s")


def _deadline(question: Question, plan: Plan) -> Iterator[Caution]:
    limit = question.deadline_h
    if limit is None:
        return
    if plan.hours is None:
        yield _miss("deadline", "how long the work takes is not known", "--deadline")
    elif plan.hours > limit * (1 + SLACK):
        text = (
            f"the work takes {figure(plan.hours)} hours, {figure(limit)} were given{_by(plan.hours, limit)}"
        )
        yield _miss("deadline", text, "--deadline")


def _budget(question: Question, plan: Plan) -> Iterator[Caution]:
    limit = question.budget_usd
    if limit is None:
        return
    usd, what = (plan.usd, "the work") if plan.tokens else (plan.usd_per_month, "a month")
    if usd is None:
        yield _miss("budget", f"what {what} costs is not known", "--budget")
    elif usd > limit * (1 + SLACK):
        yield _miss(
            "budget", f"{what} costs {usd:,.2f} USD, the budget is {limit:,.2f}{_by(usd, limit)}", "--budget"
        )


def _by(value: float, limit: float) -> str:
    ratio = value / limit
    return f": {figure(ratio)} times as much" if ratio >= 2 else f": {ratio - 1:.1%} more"  # noqa: PLR2004 - twice


def _miss(code: str, text: str, source: str) -> Caution:
    return Caution(PREFIX + code, text, source)
