"""Sizing for users: how many wait at the same time, what each gets, what a month costs and what to buy instead."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

import pytest

from gpufleet import text_table
from gpufleet.catalog.purchase_price import find_purchase_price, load_default_power_price
from gpufleet.sizing.hardware import HardwareOffer
from gpufleet.sizing.plans.dependability import is_dependable, is_stale
from gpufleet.sizing.plans.formatting import format_three_digits
from gpufleet.sizing.plans.report import format_sizing_report

DAY = date(2026, 11, 29)


@pytest.mark.parametrize(("users", "rate"), [(1, 20.0), (40, 20.0), (200, 5.0)])
def test_each_user_gets_the_requested_speed(users, rate, answer_size):
    for plan in answer_size("llama-3.1-70b", users=users, tokens_per_user=rate, top=0).plans:
        assert plan.streams >= users
        assert plan.tokens_per_s / plan.streams >= rate * 0.999
        assert plan.is_feasible


def test_more_users_cost_more(answer_size):
    few, many = (
        answer_size("llama-3.1-70b", users=users, tokens_per_user=20.0).plans[0].usd_per_month
        for users in (10, 400)
    )
    assert many > 5 * few


def test_paid_devices_share_the_users(answer_size):
    plan = answer_size("llama-3.1-8b", on="p5.48xlarge", users=16, purchases=("on_demand",)).plans[0]
    assert (plan.nodes, plan.replicas * plan.layout.devices) == (1, 8)
    assert plan.streams == 16


def test_exact_devices_report_too_many_users_and_a_missed_speed(answer_size, codes):
    answer = answer_size(
        "llama-3.1-8b", on="L4", devices=1, users=4000, tokens_per_user=500.0, precision="fp8"
    )
    assert {"misses-users", "misses-tokens-per-user"} <= codes(answer)


def test_rack_with_too_few_nodes_is_said_so(answer_size):
    answer = answer_size("qwen2-0.5b", precision="q4_0", on="m2", users=100_000)
    assert not answer.plans
    assert "too few nodes" in answer.warnings[-1].message


def test_batch_max_has_no_cap(answer_size):
    plan = answer_size("qwen2-0.5b", on="H200 SXM", devices=1, context="64/64", batch="max").plans[0]
    assert plan.workload.batch > 10_000
    assert plan.is_feasible
    larger = answer_size(
        "qwen2-0.5b", on="H200 SXM", devices=1, context="64/64", batch=str(int(plan.workload.batch * 1.02))
    ).plans[0]
    assert not larger.is_feasible


@pytest.mark.parametrize(
    ("as_of", "stale"),
    [
        ("2026-06-03", False),
        ("2026-06-02", False),
        ("2026-06-01", True),
        ("2026-06", True),
        ("2025-11/2026-07", True),
        ("2026-07", False),
        (None, True),
    ],
)
def test_price_is_stale_after_180_days(as_of, stale):
    offer = HardwareOffer("aws", "us-east-1", "on_demand", 1.0, as_of)
    assert is_stale(offer, DAY) is stale
    assert is_dependable(offer, DAY) is not stale
    assert not is_dependable(replace(offer, purchase="spot", as_of="2026-11-01"), DAY)
    assert is_dependable(replace(offer, purchase="owned"), DAY)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-r1", "bge-m3"])
def test_no_spot_or_old_price_is_before_a_dependable_one_when_serving(model, answer_size):
    plans = answer_size(model, top=0).plans
    ranks = [2 if plan.usd_per_hour is None else 0 if is_dependable(plan.offer, DAY) else 1 for plan in plans]
    assert ranks == sorted(ranks)
    assert {0, 1} <= set(ranks)


def test_work_with_an_end_may_be_spot_first(answer_size):
    options = {"clouds": ("aws",)}
    work = answer_size("llama-3.1-8b", tokens="1B", **options).plans[0]
    serving = answer_size("llama-3.1-8b", **options).plans[0]
    assert work.offer.purchase == "spot"
    assert serving.offer.purchase != "spot"


def test_old_prices_are_named_once(answer_size):
    warnings = [each for each in answer_size("llama-3.1-8b", top=0).warnings if each.code == "stale-price"]
    assert len(warnings) == 1
    assert "180 days" in warnings[0].message


def test_purchase_is_paid_off_when_rent_has_cost_as_much(answer_size):
    answer = answer_size("llama-3.1-70b", on="L40S", devices=8, precision="fp8", usd_per_kwh=0.2)
    plan, option = answer.plans[0], answer.purchases[0]
    price = find_purchase_price("L40S", 48)
    power = plan.total_watts / 1000 * 730 * 0.2
    assert (option.usd_low, option.usd_high) == (8 * price.usd_low, 8 * price.usd_high)
    assert option.power_usd_per_month == pytest.approx(power)
    assert option.break_even_months[0] == pytest.approx(8 * price.usd_low / (plan.usd_per_month - power))


def test_hardware_without_a_source_has_no_price(answer_size):
    answer = answer_size("llama-3.1-8b", on="MI300X", devices=1)
    assert answer.purchases[0].price is None
    assert "no price known" in format_sizing_report(answer)


def test_every_purchase_price_names_an_accelerator_a_source_and_a_date(answer_size):
    from gpufleet import catalog
    from gpufleet.boundary import read_packaged_rows

    rows = read_packaged_rows("gpufleet.catalog", "data/purchase_prices.csv")
    for row in rows:
        assert row["accelerator"] in catalog.load_accelerators()
        assert row["source"]
        assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", row["as_of"])
        assert 0 < float(row["usd_low"]) <= float(row["usd_high"])
    power = load_default_power_price()
    assert power.source
    assert 0.02 < power.usd_per_kwh < 1


def test_two_kinds_of_hardware_are_in_one_table(answer_size):
    names = ("L4", "L40S", "L4")
    plans = answer_size("llama-3.1-8b", on=names, devices=1).plans
    assert [plan.hardware.name for plan in plans] == ["L4", "L40S"]
    ranked = answer_size("llama-3.1-8b", on=("L4", "RTX 4090"), top=0).plans
    assert {plan.hardware.name for plan in ranked} == {"L4", "GeForce RTX 4090"}


def test_hardware_that_misses_a_target_says_by_how_much(answer_size):
    answer = answer_size(
        "llama-3-8b", precision="q4_k_m", context="4096/16", latency_s=4.0, on=("M2 (10)", "RTX 4090")
    )
    message = next(each.message for each in answer.warnings if each.code == "not-ranked")
    assert re.search(
        r"M2 \(10\) misses a target: a whole request takes [\d.]+ s, the target is 4000 ms", message
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"users": 40, "tokens_per_user": 20.0},
            r"the cheapest of \d+ kinds of hardware for 40 users at 20 tokens/s",
        ),
        ({"rank": "speed"}, "the fastest of"),
        ({"on": "M4 Max (40)", "devices": 1, "model": "llama-3.1-405b"}, "not this plan: it needs"),
        ({"on": "Etched Sohu", "devices": 1}, "not this plan"),
        ({"task": "lora", "dataset": 1000}, "USD: the cheapest"),
    ],
)
def test_last_line_recommends_and_says_why(options, text, answer_size):
    answer = answer_size(**{"model": "llama-3.1-70b", **options})
    last = format_sizing_report(answer).splitlines()[-1]
    assert last.startswith("Recommended: ")
    assert re.search(text, last)


def test_recommendation_names_what_would_change_it(answer_size):
    text = answer_size("deepseek-r1", purchases=("on_demand", "spot")).recommendation
    for cause in ("What would change it", "speed: ", "as spot is"):
        assert cause in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1026.4, "1,030"),
        (1030e9, "1,030,000,000,000"),
        (0.5, "0.5"),
        (99.97, "100"),
        (3.2e-5, "0.000032"),
        (None, "-"),
    ],
)
def test_figures_have_no_exponent(value, text):
    assert format_three_digits(value) == text


@pytest.mark.parametrize("model", ["kimi-k2", "qwen2-0.5b", "bge-m3"])
def test_report_has_no_exponent_and_no_empty_range(model, answer_size):
    report = format_sizing_report(answer_size(model, top=0))
    assert not re.search(r"\d(\.\d+)?e[+-]\d", report)
    assert "---" not in report
    assert "1,030 B" in report or model != "kimi-k2"


@pytest.mark.parametrize("width", [80, 100, 120])
def test_table_fits_the_terminal_and_names_what_it_leaves_out(width, answer_size, monkeypatch):
    monkeypatch.setattr(text_table, "line_width", width)
    report = format_sizing_report(answer_size("llama-3.1-70b", users=40))
    table = report.split("HARDWARE", 1)[1].split("\n\n")[0].splitlines()
    assert max(map(len, table)) <= width
    assert "USD/MONTH" in table[0]
    assert "AS OF" in table[0]
    assert "too narrow here for WATTS" in " ".join(table)


def test_cheaper_old_price_does_not_hide_a_new_one(answer_size):
    """The on-demand price of p4d in us-east-2 is older than that in us-east-1, and lower."""
    ranked = answer_size("llama-3.1-8b", on="p4d.24xlarge", purchases=("on_demand",)).plans[0]
    exact = answer_size("llama-3.1-8b", on="p4d.24xlarge", devices=8, purchases=("on_demand",)).plans[0]
    assert is_dependable(ranked.offer, DAY)
    assert is_dependable(exact.offer, DAY)
