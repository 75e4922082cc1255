"""Plans: a single one for given hardware, ranked ones, traffic, work, constraints, costs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial

import pytest

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.sizing.plans.dependability import serving_rank
from gpufleet.sizing.plans.document import build_sizing_document
from gpufleet.sizing.plans.options import PlanOptions, parse_plan_options
from gpufleet.sizing.plans.ranking import build_plan_sort_key
from gpufleet.sizing.plans.result import MILLION, SECONDS_PER_HOUR
from gpufleet.sizing.plans.search import find_plans as answer_to


@pytest.mark.parametrize(
    ("on", "devices"),
    [
        ("p4d.24xlarge", 8),
        ("p4d.24xlarge", 3),
        ("H100 SXM5 80GB", 16),
        ("blades-1", 20),
        ("m2", 1),
        ("GeForce RTX 4090", 7),
    ],
)
@pytest.mark.parametrize("task", ["inference", "lora", "full_finetune"])
def test_named_hardware_and_number_give_exactly_one_plan(on, devices, task, answer_size):
    answer = answer_size(on=on, devices=devices, task=task)
    assert len(answer.plans) == 1
    assert answer.plans[0].devices == devices


def test_plan_that_does_not_fit_is_still_returned(answer_size, codes):
    answer = answer_size("llama-3.1-70b", on="GeForce RTX 4090", devices=1)
    assert not answer.plans[0].is_feasible
    assert "does-not-fit" in codes(answer)
    assert answer.memory.per_device_gib > 24


def test_plan_speed_is_replicas_times_replica_speed(answer_size):
    answer = answer_size("llama-3.1-8b", on="H100 SXM5 80GB", devices=16, engine="vllm", batch="8")
    plan = answer.plans[0]
    assert (plan.replicas, plan.layout.devices, plan.nodes) == (2, 8, 2)
    assert plan.tokens_per_s == pytest.approx(2 * plan.speed.tokens_per_s)


def test_model_that_needs_two_nodes_gets_one_replica_on_two_nodes(answer_size):
    plan = answer_size("llama-3.1-405b", on="H100 SXM5 80GB", devices=16, engine="vllm").plans[0]
    assert plan.is_feasible
    assert (plan.replicas, plan.layout.tensor, plan.layout.pipeline) == (1, 8, 2)


def test_largest_batch_is_faster_than_one_stream(answer_size):
    single_stream = answer_size(
        "llama-2-70b", on="H100 SXM5 80GB", devices=8, precision="fp8", context="128/300", batch="1"
    ).plans[0]
    most = answer_size(
        "llama-2-70b", on="H100 SXM5 80GB", devices=8, precision="fp8", context="128/300", batch="max"
    ).plans[0]
    assert most.is_feasible
    assert most.workload.batch > 64
    assert most.tokens_per_s > 10 * single_stream.tokens_per_s


def test_hourly_monthly_and_total_costs_of_a_plan_are_consistent(answer_size):
    plan = answer_size(on="p4d.24xlarge", devices=8).plans[0]
    price = catalog.find_machine_price("aws", plan.offer.region, "p4d.24xlarge", "on_demand")
    assert plan.usd_per_hour == price.usd_per_hour
    tokens = plan.tokens_per_s * SECONDS_PER_HOUR
    assert plan.usd_per_million_tokens == pytest.approx(price.usd_per_hour / tokens * MILLION)


def test_partly_used_nodes_are_paid_in_full(answer_size):
    one_device, eight_devices = (
        answer_size("qwen2-0.5b", on="p4d.24xlarge", devices=number).plans[0] for number in (1, 8)
    )
    assert one_device.usd_per_hour == eight_devices.usd_per_hour


def test_training_has_duration_and_cost(answer_size):
    plan = answer_size(on="p4d.24xlarge", devices=8, task="full_finetune", tokens="1B").plans[0]
    assert plan.work_hours == pytest.approx(1e9 / plan.tokens_per_s / 3600)
    assert plan.total_usd == pytest.approx(plan.work_hours * plan.usd_per_hour)


def test_data_set_size_is_counted_in_sequences_and_epochs(answer_size):
    tokens = (
        answer_size(on="p4d.24xlarge", devices=8, task="lora", dataset=1000, epochs=3.0, context="512")
        .plans[0]
        .tokens
    )
    pairs = (
        answer_size("qwen2-0.5b", on="p4d.24xlarge", devices=8, task="dpo", dataset=1000, context="512")
        .plans[0]
        .tokens
    )
    assert (tokens, pairs) == (1000 * 3 * 512, 1000 * 2 * 512)


@pytest.mark.parametrize("rank", ["cost", "time", "speed", "power"])
def test_plans_are_sorted_by_the_requested_rank(rank, answer_size):
    request = parse_plan_options(PlanOptions("qwen2.5-7b", rank=rank))
    plans = answer_size("qwen2.5-7b", rank=rank, top=40).plans
    keys = [build_plan_sort_key(rank, partial(serving_rank, request))(plan) for plan in plans]
    assert len(plans) == 40
    assert keys == sorted(keys)


def test_only_fitting_plans_are_ranked(answer_size):
    assert all(plan.is_feasible for plan in answer_size("llama-3.1-70b", top=0).plans)


def test_owned_hardware_is_ranked(answer_size):
    names = {plan.hardware.name for plan in answer_size("qwen2-0.5b", precision="q4_0", top=0).plans}
    assert {"m2", "blades-1", "blades-poc", "p4d.24xlarge", "GeForce RTX 4090"} <= names


def test_owned_option_excludes_rented_hardware(answer_size):
    answer = answer_size("qwen2-0.5b", precision="q4_0", owned=True)
    assert {plan.hardware.name for plan in answer.plans} <= {"m2", "blades-1", "blades-poc", "bench-1"}
    assert all(plan.offer.purchase == "owned" for plan in answer.plans)


@pytest.mark.parametrize(
    ("options", "has"),
    [
        ({"clouds": ("azure",)}, lambda plan: plan.offer.cloud == "azure"),
        ({"regions": ("us-east-1",)}, lambda plan: plan.offer.region == "us-east-1"),
        ({"purchases": ("spot",)}, lambda plan: plan.offer.purchase == "spot"),
        ({"budget": 2000.0}, lambda plan: plan.usd_per_month <= 2000),
        ({"tpot_ms": 20.0}, lambda plan: plan.tokens_per_s_per_stream >= 50),
        ({"latency_s": 5.0}, lambda plan: plan.request_duration_s <= 5),
    ],
)
def test_every_plan_meets_the_constraints(options, has, answer_size):
    plans = answer_size("llama-3.1-8b", top=0, **options).plans
    assert plans
    assert all(has(plan) for plan in plans)


def test_constraint_only_removes_plans(answer_size):
    free = {(plan.hardware.name, plan.devices) for plan in answer_size("llama-3.1-8b", top=0).plans}
    bound = {
        (plan.hardware.name, plan.devices) for plan in answer_size("llama-3.1-8b", top=0, budget=1500.0).plans
    }
    assert bound <= free


def test_traffic_determines_the_number_of_replicas(answer_size):
    for plan in answer_size(
        "llama-3.1-8b", requests_per_s=30.0, context="800/200", tpot_ms=50.0, top=0
    ).plans:
        assert plan.replicas * plan.requests_per_s >= 30 * (1 - 1e-6)
        assert (plan.replicas - 1) * plan.requests_per_s < 30
        assert 1 / plan.tokens_per_s_per_stream <= 0.05
        assert plan.nodes * plan.hardware.devices_per_node >= plan.devices


def test_twice_the_traffic_never_needs_fewer_devices(answer_size):
    devices = [
        answer_size(
            "llama-3.1-8b", requests_per_s=rate, context="800/200", clouds=("aws",), purchases=("on_demand",)
        ).plans[0]
        for rate in (20.0, 40.0)
    ]
    assert devices[1].usd_per_hour >= devices[0].usd_per_hour


def test_stricter_target_is_never_cheaper(answer_size):
    loose, tight = (
        answer_size("llama-3.1-70b", requests_per_s=5.0, context="800/200", tpot_ms=target, clouds=("aws",))
        .plans[0]
        .usd_per_hour
        for target in (400.0, 100.0)
    )
    assert tight >= loose


def test_deadline_determines_the_number_of_nodes(answer_size):
    slow = answer_size("llama-3.1-8b", task="pretrain", tokens="100B", on="p4d.24xlarge").plans[0]
    fast = answer_size(
        "llama-3.1-8b", task="pretrain", tokens="100B", on="p4d.24xlarge", deadline="7d"
    ).plans[0]
    assert slow.work_hours > 168 >= fast.work_hours
    assert fast.nodes > slow.nodes


def test_deadline_may_be_a_date(repo_root):
    now = datetime(2026, 11, 21, tzinfo=UTC)
    options = PlanOptions("llama-3.1-8b", task="pretrain", tokens="1T", deadline="2026-12-01")
    assert parse_plan_options(options, now=now, root=repo_root).deadline_h == 240


def test_empty_result_has_the_closest_plan(answer_size, codes):
    answer = answer_size("llama-3.1-405b", budget=1.0)
    assert answer.plans == ()
    assert "no-plan" in codes(answer)
    assert answer.closest_plan is not None


def test_unsupported_engine_leaves_no_plan(answer_size, codes):
    answer = answer_size("llama-3.1-8b", on="M2 (10)", engine="tensorrt-llm")
    assert answer.plans == ()
    assert {"no-plan", "engine-backend"} <= codes(answer)


def test_rack_plans_stay_within_its_nodes(answer_size):
    answer = answer_size("llama-3.1-405b", on="blades-1", precision="q4_0")
    assert answer.plans == ()


def test_bare_accelerator_is_priced_as_one_cloud_device(answer_size):
    plan = answer_size(on="H100 SXM5 80GB", devices=8).plans[0]
    assert re.match(r"as \d+ x \S+ \(", plan.offer.source)


def test_owned_only_without_owned_hardware_is_refused(tmp_path):
    options = parse_plan_options(PlanOptions("llama-3.1-8b", owned=True), root=tmp_path)
    with pytest.raises(InputError, match="no hardware matches the options"):
        answer_to(options)


def test_prompt_rate_of_a_total_context_uses_a_full_prompt(answer_size):
    total = answer_size(on="A100 SXM4 80GB", devices=1, context="2048").plans[0]
    exact = answer_size(on="A100 SXM4 80GB", devices=1, context="2048/1").plans[0]
    assert (total.workload.input_tokens, total.workload.output_tokens) == (1024, 1024)
    assert total.prompt_tokens_per_s == pytest.approx(exact.prompt_tokens_per_s)


def test_commitment_longer_than_the_work_is_a_warning(answer_size, codes):
    options = {"task": "lora", "dataset": 1000, "on": "g5.48xlarge"}
    assert "commitment-outlasts-work" in codes(answer_size(purchases=("reserved_3y",), **options))
    assert "commitment-outlasts-work" not in codes(answer_size(purchases=("on_demand",), **options))


def test_missing_offer_is_a_warning(answer_size, codes):
    answer = answer_size(on="p5.48xlarge", devices=8, regions=("eu-west-3",))
    assert "no-price" in codes(answer)
    assert answer.plans[0].usd_per_hour is None


@pytest.mark.parametrize(
    ("part", "devices", "machines"),
    [("L4", 1, 1), ("A100 SXM4 40GB", 1, 1), ("A100 SXM4 40GB", 4, 1), ("H100 SXM5 80GB", 16, 2)],
)
def test_part_is_priced_as_the_cheapest_machines_that_have_it(answer_size, part, devices, machines):
    """One L4 is not an eighth of a host of eight, nor the whole of it: clouds rent it alone."""
    plan = answer_size("llama-3.1-8b", on=part, devices=devices, task="lora").plans[0]
    cheapest = min(
        offer.price.usd_per_hour * -(-devices // offer.machine.accelerators[0].count)
        for offer in catalog.search_offers(accelerator=part, purchase="on_demand")
        if offer.machine.accelerators[0].model == part
        and offer.machine.accelerators[0].share == 1.0
        and offer.machine.accelerators[0].count >= min(devices, 8)
    )
    assert plan.usd_per_hour == pytest.approx(cheapest)
    assert plan.offer.source.startswith(f"as {machines} x ")


def test_ranking_prices_bare_accelerators_by_plan(answer_size):
    plans = answer_size("llama-3.1-8b", on="L4").plans
    assert {plan.offer.purchase for plan in plans} >= {"on_demand", "spot"}
    assert all(plan.usd_per_hour < 1 for plan in plans)


def test_document_of_a_plan_has_the_notes_of_memory_and_speed(answer_size):
    result = answer_size("llama-3-8b", on="Instinct MI300X", devices=1, precision="f16")
    plan = result.plans[0]
    assert any("few measurements" in note for note in plan.speed.notes)
    document = build_sizing_document(result)["plans"][0]
    assert document["notes"] == [*plan.memory.notes, *plan.speed.notes]


def test_answer_of_an_encoder_is_in_documents(answer_size):
    """A card that reads so many prompt tokens a second reads that many documents of 512 tokens, less launches."""
    plan = answer_size("bge-large-en", on="L4", devices=1, batch="64", context="512").plans[0]
    assert plan.memory.kv_cache == 0
    assert plan.tokens_per_s == pytest.approx(plan.speed.prompt_tokens_per_s / 512, rel=0.5)


def test_note_of_the_model_and_its_vision_tower_are_printed(answer_size):
    warnings = answer_size("kimi-k2.5", on="p6-b200.48xlarge", devices=8).warnings
    tower = next(each for each in warnings if each.code == "vision-tower")
    assert "0.47 B parameters" in tower.message
    warnings = answer_size("glm-5", on="p6-b200.48xlarge", devices=8).warnings
    note = next(each for each in warnings if each.code == "model-note")
    assert "indexer" in note.message
    assert note.source


def test_state_of_linear_layers_is_split_by_its_own_heads(answer_size):
    """Nemotron 3 Super has two heads for keys and values, and 128 of Mamba: eight cards keep an eighth of the state."""
    from gpufleet.sizing import kv_cache_bytes

    plan = answer_size("nemotron-3-super", on="p6-b200.48xlarge", devices=8, batch="16").plans[0]
    model, tokens = plan.workload.model, plan.workload.context_tokens
    state = kv_cache_bytes(model, 0)
    on_all_devices = 16 * (8 / 2 * (kv_cache_bytes(model, tokens) - state) + state)
    assert plan.memory.kv_cache == pytest.approx(on_all_devices / 2**30)
