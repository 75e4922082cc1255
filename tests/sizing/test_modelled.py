"""Each accelerator of the catalogue is estimated, or refused with the reason; none fits with an unknown speed."""

from __future__ import annotations

import pytest

from gpufleet import catalog
from gpufleet.catalog import data_file, load_models
from gpufleet.sizing.data_file import load_sizing_rows
from gpufleet.sizing.plans.options import PlanOptions, parse_plan_options
from gpufleet.sizing.plans.search import find_plans


@pytest.mark.parametrize("task", ["inference", "full_finetune"])
@pytest.mark.parametrize("name", catalog.load_accelerators())
def test_no_plan_is_feasible_with_an_unknown_speed(name, task, answer_size):
    (plan,) = answer_size("qwen2-0.5b", on=name, devices=1, task=task).plans
    assert plan.tokens_per_s or not plan.is_feasible


@pytest.mark.parametrize("row", load_sizing_rows("unmodelled.csv"), ids=lambda row: row["accelerator"])
def test_unmodelled_accelerator_is_refused_with_reason_and_published_speed(row, answer_size):
    answer = answer_size("llama-3.1-70b", on=row["accelerator"], devices=8)
    assert not answer.plans[0].is_feasible
    (message,) = [warning.message for warning in answer.warnings if warning.code == "not-modelled"]
    assert row["reason"] in message
    published = [
        speed
        for speed in load_sizing_rows("published_speeds.csv")
        if speed["accelerator"] == row["accelerator"]
    ]
    assert ("tokens/s" in message) == bool(published)


def test_published_speed_is_the_one_of_the_model(answer_size):
    answer = answer_size("llama-3.1-405b", on="Cerebras CS-3", devices=1)
    (message,) = [warning.message for warning in answer.warnings if warning.code == "not-modelled"]
    assert "969 tokens/s a stream for Llama-3.1-405B" in message
    assert "Llama-3.1-8B" not in message


def test_unmodelled_accelerators_are_not_ranked(tmp_path):
    names = {row["accelerator"] for row in load_sizing_rows("unmodelled.csv")}
    answer = find_plans(parse_plan_options(PlanOptions("qwen2-0.5b", top=0, rank="speed"), root=tmp_path))
    assert names.isdisjoint(plan.hardware.accelerator.name for plan in answer.plans)
    assert all(plan.tokens_per_s for plan in answer.plans)


def test_hardware_without_a_measured_kind_says_so(answer_size, codes):
    assert "unmeasured-class" in codes(answer_size("llama-3.1-8b", on="Ascend 910C", devices=1))
    assert "unmeasured-class" not in codes(answer_size("llama-3.1-8b", on="TPU v7x", devices=1))


def test_tables_name_accelerators_and_models_of_the_catalogue():
    for file in ("unmodelled.csv", "published_speeds.csv"):
        for row in load_sizing_rows(file):
            assert row["accelerator"] in catalog.load_accelerators(), row.where
            assert row["source"], row.where
            assert row["as_of"], row.where
            assert row.get("model", "") in {"", *load_models()}, row.where
    assert not {row["accelerator"] for row in load_sizing_rows("unmodelled.csv")} & {
        card.model for machine in data_file.load_machines().values() for card in machine.accelerators
    }
