"""Errors in planning documents and complaints about other tools (2026-11) that no other file tests.

Numbers are those of the project's notes. The others are in test_claims_legality.py (1, 9, 10, 13 to 17),
test_claims_memory.py (2 to 5, 7, 10 to 12 and the complaints about memory), speed/test_known_facts.py (8, 15, 17 and
the complaints about speed) and test_questions.py (2, 8, 10, 11, 15).
"""

from __future__ import annotations

import pytest

from gpufleet import catalog
from gpufleet.boundary import read_packaged_rows
from gpufleet.errors import InputError
from gpufleet.sizing.hardware_resolver import resolve_hardware
from gpufleet.sizing.plans.document import build_sizing_document


@pytest.mark.parametrize("model", ["llama-3.1-405b", "deepseek-v3"])
def test_claim_2_precision_narrows_the_range_of_150_to_800_gb(model, answer_size):
    four, sixteen = (
        answer_size(model, precision=p, top=1).memory.weights * 2**30 / 1e9 for p in ("q4_k_m", "bf16")
    )
    assert four > 150
    assert sixteen > 800


def test_claim_3_quick_estimate_lists_what_it_omits(answer_size):
    answer = answer_size("llama-3.1-8b", task="full_finetune", on="A100 SXM4 80GB", devices=8)
    document = build_sizing_document(answer)["quick_estimate"]
    assert document["accelerators"] * 80 * 2**30 / 1e9 == pytest.approx(
        96, rel=0.02
    )  # GB, as the document says
    assert "16 to 18 bytes per parameter" in document["leaves_out"]
    assert "activations, which grow with tokens" in document["leaves_out"]
    assert answer.memory.optimizer > answer.memory.weights


def test_claim_4_405b_in_16_bits_needs_two_nodes_of_eight_not_ten_cards(answer_size):
    answer = answer_size("llama-3.1-405b", precision="bf16", on="p5.48xlarge")
    assert answer.plans[0].nodes == 2
    assert answer.plans[0].devices == 16
    assert answer.quick_estimate.accelerators == pytest.approx(9.5, abs=0.2)


@pytest.mark.parametrize(
    ("name", "tb_s"),
    [
        ("H100 SXM5 80GB", 3.35),
        ("H200 SXM 141GB", 4.8),
        ("B200", 8.0),
        ("A100 SXM4 80GB", 2.04),
        ("RTX 4090", 1.01),
    ],
)
def test_claim_6_bandwidth_is_not_1_to_2_tb_s_for_all_cards(name, tb_s):
    assert catalog.get_accelerator(name).bandwidth_gb_s == pytest.approx(1000 * tb_s, rel=0.005)


def test_claim_6_decoding_speed_follows_bandwidth_if_memory_is_the_limit(answer_size):
    slow, fast = (answer_size("llama-3.1-8b", on=card, devices=1).plans[0] for card in ("L4", "L40S"))
    assert slow.speed.limit == fast.speed.limit == "memory bandwidth"
    assert fast.tokens_per_s / slow.tokens_per_s == pytest.approx(864 / 300, rel=0.15)


def test_claim_8_laptop_is_faster_than_2_to_5_tokens_per_second(answer_size):
    plan = answer_size("qwen2-0.5b", precision="f16", on="M2 (10)", devices=1).plans[0]
    assert plan.tokens_per_s_low > 5


def test_claim_12_mixed_precision_does_not_reduce_model_states(answer_size):
    half, full = (
        answer_size("qwen2.5-7b", task="full_finetune", precision=p, on="A100 SXM4 80GB", devices=8).memory
        for p in ("bf16", "f32")
    )
    states = [
        memory_by_task.weights + memory_by_task.gradients + memory_by_task.optimizer
        for memory_by_task in (half, full)
    ]
    assert states[0] == pytest.approx(states[1], rel=0.15)


def test_claim_13_retired_machine_is_not_ranked(answer_size):
    from gpufleet.catalog import data_file

    retired = {retirement.machine for retirement in data_file.load_retirements().values()}
    offered = {plan.hardware.name for plan in answer_size("qwen2-0.5b", top=0, clouds=("azure",)).plans}
    assert "Standard_NC6s_v3" in retired
    assert offered
    assert not offered & retired


@pytest.mark.parametrize(("name", "sizes"), [("RX 460 8GB", "2, 4"), ("Compute Module 4 16GB", "8")])
def test_claim_14_16_unsold_memory_size_is_refused(name, sizes):
    with pytest.raises(InputError) as excinfo:
        resolve_hardware(name)
    assert sizes in str(excinfo.value)


def test_claim_17_server_network_is_faster_than_fast_ethernet(hardware):
    """Fast Ethernet is 0.1 Gbit/s; blades have 1, cages of QSFP modules hundreds."""
    gbit = {
        name: 8 * hardware(name).network_gb_s * hardware(name).devices_per_node
        for name in ("blades-1", "p5.48xlarge")
    }
    assert gbit["blades-1"] == pytest.approx(1)
    assert gbit["p5.48xlarge"] >= 1000


def test_complaint_2_training_stages_and_their_multipliers_are_reported(answer_size):
    """DeepSpeed issue 5102: which stage divides what was unclear."""
    memory_by_task = {}
    for stage in ("none", "zero1", "zero2", "zero3"):
        answer = answer_size(
            "llama-3.2-1b", task="full_finetune", on="A100 SXM4 80GB", devices=8, batch="1", sharding=stage
        )
        document = build_sizing_document(answer)
        assert document["workload"]["training"]["sharding"] == stage
        memory_by_task[stage] = document["plans"][0]["memory_gib"]
    assert memory_by_task["none"]["optimizer"] == pytest.approx(
        8 * memory_by_task["zero1"]["optimizer"], rel=1e-3
    )
    assert memory_by_task["zero1"]["gradients"] == pytest.approx(
        8 * memory_by_task["zero2"]["gradients"], rel=0.5
    )
    assert memory_by_task["zero2"]["weights"] == pytest.approx(
        8 * memory_by_task["zero3"]["weights"], rel=1e-3
    )


def test_complaint_10_no_l4_has_179_gib():
    """aws-cli issue 8970: EC2's API reports an L4 with 183,105 MiB."""
    from gpufleet.catalog import data_file

    cards = [
        card
        for machine in data_file.load_machines().values()
        for card in machine.accelerators
        if card.model == "L4"
    ]
    assert cards
    assert all(card.memory_gib <= 24 for card in cards)


def test_published_estimates_are_not_used_in_the_fit():
    """Hugging Face's own table is estimated and inconsistent: 7.5, 4.3 and 8.0 bytes a parameter."""
    learned = [
        row
        for kind in ("speed", "memory")
        for row in read_packaged_rows(f"tools.{kind}_calibration", "measured.csv")
    ]
    assert learned
    assert not [row for row in learned if "huggingface.co/blog/llama31" in row["source"]]
