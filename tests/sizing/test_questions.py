"""Test the documented answers to common questions and the three usual tiers.

Ranges are wide on purpose: they test the conclusion, not the digits of a calibration.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import quoted  # next to this file; tests are not a package

GB = 1e9 / 2**30
SERVED = {"precision": "f16", "context": "8192", "engine": "vllm"}


@pytest.fixture
def plan_and_codes(answer_size):
    """Answer a question about one hardware and number of devices: the plan, and the codes of its warnings."""

    def plan_exact_devices(model, on, devices=1, **options):
        answer = answer_size(model, on=on, devices=devices, **options)
        return answer.plans[0], {warning.code for warning in answer.warnings}

    return plan_exact_devices


class TestLaptop405B:
    def test_four_bit_weights_need_twice_the_laptop_memory(self, plan_and_codes):
        plan, codes = plan_and_codes("llama-3.1-405b", "M4 Max (40)", precision="q4_k_m")
        assert not plan.is_feasible
        assert "does-not-fit" in codes
        assert 1.9 < plan.memory.per_device_gib / plan.memory.usable_gib < 2.4
        assert plan.tokens_per_s_high < 5

    @pytest.mark.parametrize("precision", ["iq1_s", "iq2_xxs"])
    def test_precisions_that_fit_are_far_from_50_tokens_per_second(self, plan_and_codes, precision):
        plan, _ = plan_and_codes("llama-3.1-405b", "M4 Max (40)", precision=precision)
        assert plan.is_feasible
        assert plan.tokens_per_s_high < 10

    def test_smallest_precision_does_not_fit_in_64_gb(self, plan_and_codes):
        assert not plan_and_codes("llama-3.1-405b", "M3 Max 64GB", precision="iq1_s")[0].is_feasible

    def test_server_with_eight_cards_reaches_the_target(self, answer_size):
        answer = answer_size("llama-3.1-405b", precision="int4", tpot_ms=25, clouds=("aws", "azure", "gcp"))
        assert answer.plans
        assert all(plan.tokens_per_s_per_stream >= 40 for plan in answer.plans)
        assert min(plan.layout.devices for plan in answer.plans) >= 4


class TestDeepSeekV3:
    def test_deepseek_in_four_bits_needs_at_least_377_gib(self, plan_and_codes):
        plan, _ = plan_and_codes("deepseek-v3", "M3 Ultra (80)", precision="q4_k_m")
        assert plan.memory.weights == pytest.approx(376.65, rel=0.001)
        assert plan.is_feasible
        assert 8 < plan.tokens_per_s_low < plan.tokens_per_s_high < 60

    def test_deepseek_does_not_fit_on_one_card(self, plan_and_codes):
        assert not plan_and_codes("deepseek-v3", "B200", precision="q4_k_m")[0].is_feasible
        assert not plan_and_codes("deepseek-v3", "H100 SXM5 80GB", 4, precision="q4_k_m")[0].is_feasible
        assert not plan_and_codes("deepseek-v3", "H100 SXM5 80GB", 8, precision="fp8")[0].is_feasible

    def test_eight_h200_serve_deepseek_in_fp8(self, plan_and_codes):
        plan, _ = plan_and_codes(
            "deepseek-v3", "H200 SXM", 8, precision="fp8", batch="32", context="4096/1024"
        )
        assert plan.is_feasible
        assert plan.memory.kv_cache > 30
        assert plan.tokens_per_s_per_stream > 10

    def test_all_experts_need_memory_though_few_are_used(self, answer_size):
        answer = answer_size("deepseek-v3", precision="fp8", top=1)
        assert answer.memory.weights > 600
        assert answer.workload.model.active_parameters < 0.06 * answer.workload.model.parameters


class TestBladesAgainstOneMac:
    def test_inference_uses_eight_of_twenty_blades_and_is_slow(self, plan_and_codes):
        plan, codes = plan_and_codes("llama-3.1-70b", "blades-1", 20, precision="q4_k_m")
        assert {"summed-memory", "nodes-power-of-two", "slow-link-tensor"} <= codes
        assert plan.layout.devices == 8
        assert plan.tokens_per_s_high < 3
        mac, said_of_mac = plan_and_codes("llama-3.1-70b", "M4 Max (40)", precision="q4_k_m")
        assert mac.is_feasible
        assert mac.tokens_per_s > 5 * plan.tokens_per_s
        assert "summed-memory" not in said_of_mac

    def test_model_of_160_gb_does_not_fit_on_twenty_blades(self, plan_and_codes):
        plan, _ = plan_and_codes("llama-3.1-405b", "blades-1", 20, precision="iq2_xxs")
        assert not plan.is_feasible  # 101 GiB on the eight blades that the engine can use

    def test_training_on_blades_is_slow(self, plan_and_codes):
        blades, codes = plan_and_codes("qwen2.5-7b", "blades-1", 20, task="lora")
        assert {"board-without-gpu", "slow-link-training", "summed-memory"} <= codes
        mac, _ = plan_and_codes("qwen2.5-7b", "M4 Max (40)", task="lora")
        assert mac.tokens_per_s > 5 * blades.tokens_per_s


class TestTwoThingsOnOneCard:
    @pytest.mark.parametrize("card", ["g6.xlarge", "RTX 4090", "RTX 3090"])
    def test_model_and_reserved_memory_fit_on_24_gb(self, plan_and_codes, card):
        plan, codes = plan_and_codes("llama-3-8b", card, reserve_gib=1.7 * GB, **SERVED)
        assert plan.is_feasible
        assert "memory-reserved" in codes

    def test_reserved_memory_includes_a_driver_context(self, plan_and_codes):
        alone, codes = plan_and_codes("llama-3-8b", "RTX 4090", **SERVED)
        shared, _ = plan_and_codes("llama-3-8b", "RTX 4090", reserve_gib=1.7, **SERVED)
        assert alone.memory.usable_gib - shared.memory.usable_gib == pytest.approx(1.7 + 0.45)
        assert "memory-reserved" not in codes

    def test_reserved_memory_on_a_mac_includes_no_driver_context(self, plan_and_codes):
        alone, shared = (
            plan_and_codes("llama-3-8b", "M4 Max (40)", **more)[0] for more in ({}, {"reserve_gib": 2.0})
        )
        assert alone.memory.usable_gib - shared.memory.usable_gib == pytest.approx(2.0)

    def test_reserved_memory_and_many_streams_do_not_fit(self, plan_and_codes):
        assert not plan_and_codes("llama-3-8b", "g6.xlarge", batch="8", reserve_gib=1.7 * GB, **SERVED)[
            0
        ].is_feasible

    def test_reserved_memory_above_the_card_memory_leaves_no_plan(self, plan_and_codes):
        plan, codes = plan_and_codes("llama-3-8b", "RTX 4090", reserve_gib=40.0, **SERVED)
        assert not plan.is_feasible
        assert {"does-not-fit", "memory-reserved"} <= codes

    def test_reserved_memory_applies_to_rankings(self, answer_size):
        free, full = (
            {
                p.hardware.name
                for p in answer_size("llama-3-8b", top=0, clouds=("aws",), reserve_gib=g).plans
                if p.devices == 1
            }
            for g in (None, 30.0)
        )
        assert "g6.xlarge" in free - full

    @pytest.mark.parametrize("reserve", ["0", "-1", "nan"])
    def test_reserved_memory_must_be_positive(self, gpufleet, project, reserve):
        completed = gpufleet("size", "--model", "llama-3-8b", "--reserve-gib", reserve, cwd=project)
        assert completed.returncode == 2
        assert "--reserve-gib" in completed.stderr


class TestTrainingByADate:
    @pytest.mark.parametrize(
        ("model", "days", "minimum", "maximum"),
        [("llama-2-7b", 30, 50, 140), ("llama-3.1-70b", 60, 250, 600)],  # at 35 to 55 % of their rate
    )
    def test_number_of_h100s_for_two_trillion_tokens_is_plausible(
        self, answer_size, model, days, minimum, maximum
    ):
        answer = answer_size(model, task="pretrain", tokens="2T", deadline=f"{days}d", on="p5.48xlarge")
        plan = answer.plans[0]
        assert plan.is_feasible
        assert minimum <= plan.devices <= maximum
        assert plan.work_hours <= days * 24

    def test_number_of_devices_matches_the_training_operations(self, answer_size):
        plan = answer_size(
            "llama-2-7b", task="pretrain", tokens="2T", deadline="30d", on="p5.48xlarge"
        ).plans[0]
        operations = 6 * 6.738e9 * 2e12
        used = operations / (plan.work_hours * 3600) / plan.devices / 989e12
        assert 0.3 < used < 0.6  # MosaicML's own runs: 38 to 46 % on H100

    def test_fewer_nodes_miss_the_deadline(self, answer_size):
        options = {"task": "pretrain", "tokens": "2T", "on": "p5.48xlarge"}
        plan = answer_size("llama-3.1-70b", deadline="60d", **options).plans[0]
        fewer = answer_size("llama-3.1-70b", devices=int(plan.devices * 0.85) // 8 * 8, **options).plans[0]
        assert fewer.work_hours > 60 * 24

    def test_training_70b_takes_about_ten_times_as_long_as_7b(self, answer_size):
        seven, seventy = (
            answer_size(model, task="pretrain", tokens="1T", deadline="30d", on="p5.48xlarge")
            .plans[0]
            .devices
            for model in ("llama-2-7b", "llama-3.1-70b")
        )
        assert 6 < seventy / seven < 16


class TestTiers:
    def test_m2_with_16_gb_suits_the_development_tier(self, plan_and_codes):
        plan, _ = plan_and_codes("qwen2-0.5b", "M2 (10) 16GB")
        assert plan.is_feasible
        assert plan.memory.usable_gib < 13  # of 16
        assert 30 < plan.tokens_per_s < 110  # not the 2 to 5 that a planning document says
        full, _ = plan_and_codes(
            "qwen2-0.5b", "M2 (10) 16GB", task="dpo", context="1024", batch="1", dataset=2000
        )
        assert full.is_feasible
        assert full.memory.per_device_gib > 6  # nor 4 to 6 GB
        assert full.work_hours > 0.3

    @pytest.mark.parametrize(
        ("on", "more", "fits"),
        [
            ("A100 SXM4 40GB", {}, False),
            ("RTX 4090", {}, False),
            ("A100 SXM4 40GB", {"adapter": "lora"}, True),
            ("RTX 4090", {"adapter": "lora"}, True),
            ("RTX 4090", {"adapter": "qlora", "precision": "nf4"}, True),
        ],
    )
    def test_one_card_suits_the_staging_tier_for_dpo_of_7b(self, plan_and_codes, on, more, fits):
        assert (
            plan_and_codes("qwen2.5-7b", on, task="dpo", context="1024", batch="1", **more)[0].is_feasible
            is fits
        )

    @pytest.mark.parametrize(
        ("model", "place", "more", "fits"),
        [
            ("qwen2.5-14b", ("A100 SXM4 40GB", 4), {}, False),
            ("qwen2.5-32b", ("A100 SXM4 40GB", 8), {}, False),
            ("qwen2.5-14b", ("A100 SXM4 40GB", 4), {"adapter": "lora"}, True),
            ("qwen2.5-32b", ("A100 SXM4 40GB", 8), {"adapter": "qlora", "precision": "nf4"}, True),
            ("qwen2.5-14b", ("H100 SXM5 80GB", 8), {}, True),
        ],
    )
    def test_dpo_of_large_models_on_the_production_tier_fits_as_expected(
        self, plan_and_codes, model, place, more, fits
    ):
        assert (
            plan_and_codes(model, *place, task="dpo", context="2048", batch="1", **more)[0].is_feasible
            is fits
        )

    def test_training_pairs_count_twice(self, plan_and_codes):
        options = {"task": "dpo", "adapter": "lora", "context": "1024"}
        plan, _ = plan_and_codes("qwen2.5-7b", "A100 SXM4 40GB", dataset=20000, **options)
        assert plan.tokens == 2 * 20000 * 1024
        assert plan.work_hours == pytest.approx(plan.tokens / plan.tokens_per_s / 3600)


def pages():
    return [(quote.page, quote) for page in quoted.PAGES for quote in quoted.find_quotes(page)]


@pytest.mark.parametrize(
    ("page", "quote"), pages(), ids=lambda it: it if isinstance(it, str) else it.command[9:80]
)
def test_documentation_quotes_current_output(page, quote, repo_root, monkeypatch):
    monkeypatch.chdir(repo_root)
    expected = quoted.normalize(quoted.run_quoted_command(quote))
    assert quoted.normalize(quote.output) == expected, (
        f"docs/{page} is old: run python tests/sizing/quoted.py"
    )


def measurements():
    return [each for page in quoted.PAGES for each in quoted.find_measurements(page)]


@pytest.mark.parametrize(
    "measurement", measurements(), ids=lambda it: f"{it.quote.command[15:70]} {it.value}"
)
def test_published_measurement_is_compared_as_the_page_says(measurement, repo_root, monkeypatch):
    monkeypatch.chdir(repo_root)
    assert measurement.verdict == quoted.judge(measurement), (
        f"docs/{measurement.quote.page} is old: run python tests/sizing/quoted.py"
    )


def test_each_question_has_a_command_and_a_published_measurement_or_a_reason(repo_root):
    text = (repo_root / "docs/questions.md").read_text()
    for question in text.split("\n## ")[1:]:
        title = question.splitlines()[0]
        assert "$ gpufleet " in question, title
        has_reason = re.search(r"^(Unknown, because|Published: )", question, re.MULTILINE)
        assert quoted.MEASURED.search(question) or has_reason, title


def test_documents_have_enough_quotes():
    count = {page: len(quoted.find_quotes(page)) for page in quoted.PAGES}
    assert count["questions.md"] >= 12
    assert count["tiers.md"] >= 12
    assert count["sizing.md"] >= 1
    assert count["compare.md"] >= 1


def test_quote_selects_named_sections():
    text = "Model: x\n\nMemory of it\n  parts\n\nHARDWARE\nrow\n\n  details\n\nWarnings\n  a: b\n"
    assert quoted.select_sections(text, ("plans",)) == "HARDWARE\nrow\n\n  details\n"
    assert quoted.select_sections(text, ("headline", "warnings")) == "Model: x\n\nWarnings\n  a: b\n"
    assert quoted.select_sections(text, ()) == text
    assert quoted.normalize("in  2025-11/2026-07") == quoted.normalize("in 2026-01-02 ")


def test_json_has_the_warnings_of_the_text_output(gpufleet, project):
    completed = gpufleet(
        "size", "--model", "llama-3-8b", "--precision", "f16", "--on", "RTX 4090", "--devices", "1",
        "--reserve-gib", "1.7", "--json", cwd=project,
    )  # fmt: skip
    page = json.loads(completed.stdout)
    assert page["plans"][0]["fits"] is True
    assert [warning["code"] for warning in page["warnings"]] == ["memory-reserved"]


def test_documented_accuracy_table_matches_the_benchmark():
    import accuracy  # beside this file

    printed = (
        "speeds\n\n            devices    n   median      p90  in 80 %\n"
        "decode      all                    120    10.4%    27.2%      81%\n"
        "decode      fewer than 10 each      26    17.5%    45.7%      65%\n\n"
        "the rows that the fit began with alone\n\ndecode      all   52    13.0%    30.9%      83%\n\n"
        "on the same rows\ndecode       120       11.2% 33.1%            56.4% 259.0%\n"
    )
    page = accuracy.replace_tables(
        "a\n<!-- accuracy -->\nold\n<!-- /accuracy -->\nb\n", printed, "2026-11-21"
    )
    assert "| one stream, local engine | all | 120 | 10.4 % | 27.2 % | 81 % |" in page
    assert "| one stream, local engine | others, fewer than 10 rows each | 26 | 17.5 %" in page
    assert "| one stream, local engine | 11 / 33 % | 56 / 259 % |" in page
    assert "13.0 %" not in page
    assert "old" not in page
    with pytest.raises(ValueError, match="no place"):
        accuracy.replace_tables("a page without a place", printed, "2026-11-21")


def test_accuracy_page_has_markers_for_the_table(repo_root):
    page = (repo_root / "docs/sizing.md").read_text()
    assert page.count("<!-- accuracy -->") == page.count("<!-- /accuracy -->") == 1
    assert "| one stream, local engine | all |" in page
