"""Targets of a single plan: each missed target is a warning with the excess."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gpufleet.sizing.plans.options import PlanOptions, parse_plan_options
from gpufleet.sizing.plans.search import find_plans
from gpufleet.sizing.plans.target import is_missed_target_warning, worst_target_ratio

ONE = {"on": "p4d.24xlarge", "devices": 8}
WORK = {"task": "pretrain", "tokens": "1T", **ONE}
MISSED = {
    "misses-requests": {"requests_per_s": 100_000.0, **ONE},
    "misses-tpot": {"tpot_ms": 0.1, **ONE},
    "misses-ttft": {"ttft_ms": 0.1, **ONE},
    "misses-latency": {"latency_s": 0.01, **ONE},
    "misses-deadline": {"deadline": "1d", **WORK},
    "misses-budget": {"budget": 10.0, **ONE},
}
MET = {
    "misses-requests": {"requests_per_s": 0.01, **ONE},
    "misses-tpot": {"tpot_ms": 10_000.0, **ONE},
    "misses-ttft": {"ttft_ms": 100_000.0, **ONE},
    "misses-latency": {"latency_s": 10_000.0, **ONE},
    "misses-deadline": {"deadline": "9999-01-01", **WORK},
    "misses-budget": {"budget": 1e7, **ONE},
}


@pytest.mark.parametrize("code", list(MISSED))
def test_missed_target_is_a_warning_with_the_plan(code, answer_size):
    answer = answer_size(**MISSED[code])
    assert len(answer.plans) == 1
    assert [warning.code for warning in answer.warnings if is_missed_target_warning(warning)] == [code]


@pytest.mark.parametrize("code", list(MET))
def test_met_target_has_no_warning(code, answer_size):
    assert not [warning for warning in answer_size(**MET[code]).warnings if is_missed_target_warning(warning)]


def test_excess_of_a_missed_target_is_computed(answer_size):
    answer = answer_size(budget=1000.0, **ONE)
    message = next(warning.message for warning in answer.warnings if is_missed_target_warning(warning))
    month = answer.plans[0].usd_per_month
    assert f"{month:,.2f} USD" in message
    assert f"{month / 1000:.0f}" in message


def test_accelerator_without_a_price_does_not_meet_a_budget(answer_size):
    answer = answer_size("qwen2-0.5b", on="Groq LPU", devices=1, budget=10.0)
    assert any(
        warning.code == "misses-budget" and "not known" in warning.message for warning in answer.warnings
    )


def test_plan_that_does_not_fit_serves_no_requests(answer_size, codes):
    assert "misses-requests" in codes(
        answer_size("llama-3.1-405b", on="H100 SXM5", devices=1, requests_per_s=0.001)
    )


@pytest.mark.parametrize(("budget", "code"), [("10", 1), ("10000000", 0)])
def test_missed_target_exits_with_one_and_prints_the_plan(budget, code, gpufleet, project):
    options = ("size", "--model", "llama-3.1-8b", "--on", "p4d.24xlarge", "--devices", "8", "--json")
    completed = gpufleet(*options, "--budget", budget, cwd=project)
    assert completed.returncode == code, completed.stderr
    assert len(json.loads(completed.stdout)["plans"]) == 1
    assert ("the budget is" in completed.stderr) is bool(code)


def test_plan_that_does_not_fit_exits_with_zero_without_targets(gpufleet, project):
    completed = gpufleet(
        "size", "--model", "llama-3.1-405b", "--on", "H100 SXM5", "--devices", "1", cwd=project
    )
    assert completed.returncode == 0
    assert "does-not-fit" in completed.stdout


@pytest.mark.parametrize(
    "options",
    [
        {"budget": 10.0},
        {"task": "pretrain", "tokens": "1T", "deadline": "5d", "budget": 1000.0},
        {"tpot_ms": 0.2},
        {"ttft_ms": 0.5},
    ],
)
def test_closest_plan_misses_its_worst_target_by_the_least(options, answer_size, repo_root):
    request = parse_plan_options(PlanOptions("llama-3.1-70b", **options), root=repo_root)
    answer = find_plans(request)
    assert not answer.plans
    nearest = worst_target_ratio(request, answer.closest_plan)
    free = find_plans(
        replace(request, deadline_h=None, budget_usd=None, ttft_s=None, tpot_s=None, max_plans=0)
    ).plans
    assert 1 < nearest <= min(worst_target_ratio(request, plan) for plan in free) * 1.001


def test_closest_plan_names_only_given_limits(answer_size):
    message = answer_size("llama-3.1-405b", budget=1.0).warnings[-1].message
    assert "the budget" in message
    assert "deadline" not in message
