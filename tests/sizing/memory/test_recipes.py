from __future__ import annotations

import pytest

from gpufleet import catalog, sizing
from gpufleet.sizing import Hardware, ParallelLayout, TrainingSettings, Workload
from gpufleet.sizing.memory.training_recipe import DEFAULT_TRAINING


@pytest.mark.parametrize(
    ("engine", "pure"), [("torchtune", True), ("lit-gpt", True), ("litgpt", True), (None, False)]
)
def test_bf16_recipes_have_no_master_weights(engine, pure):
    assert sizing.find_training_recipe(engine).master_copy is not pure


@pytest.mark.parametrize("engine", [None, "", "deepspeed", "of-tomorrow"])
def test_unknown_library_has_the_default_recipe(engine):
    assert sizing.find_training_recipe(engine) == DEFAULT_TRAINING


@pytest.mark.parametrize(
    ("task", "tokens", "batch", "recompute", "fused"),
    [
        ("lora", 512, 1, "none", False),
        ("lora", 8192, 8, "full", True),
        ("pretrain", 512, 1, "selective", False),
        ("pretrain", 8192, 2, "full", False),
        ("pretrain", 65536, 4, "full", True),
    ],
)
def test_each_recomputation_level_saves_memory(task, tokens, batch, recompute, fused):
    card = Hardware("cards", catalog.get_accelerator("H100 SXM5 80GB"), devices_per_node=8)
    workload = Workload(
        catalog.get_model("Llama-3.1-8B"),
        task,
        "bf16",
        tokens,
        0,
        batch,
        training=TrainingSettings(recompute="auto"),
    )
    chosen = sizing.choose_recompute(workload, ParallelLayout(devices=8, data=8), card).training
    assert (chosen.recompute, chosen.fused_loss) == (recompute, fused)


def test_requested_recomputation_is_not_changed():
    card = Hardware("a card", catalog.get_accelerator("A10G"))
    workload = Workload(
        catalog.get_model("Llama-3.1-8B"), "lora", training=TrainingSettings(recompute="none")
    )
    assert sizing.choose_recompute(workload, ParallelLayout(), card) == workload
    assert (
        sizing.choose_recompute(
            Workload(catalog.get_model("Llama-3.1-8B")), ParallelLayout(), card
        ).is_training
        is False
    )


def test_training_that_does_not_fit_gets_a_hint_for_less_memory():
    card = Hardware("a card", catalog.get_accelerator("GeForce RTX 4090"))
    workload = Workload(
        catalog.get_model("Llama-3.1-8B"),
        "full_finetune",
        "bf16",
        2048,
        0,
        2,
        training=TrainingSettings(recompute="auto"),
    )
    estimate = sizing.estimate_memory(workload, ParallelLayout(), card)
    assert not estimate.fits
    assert any("paged 8-bit AdamW" in note for note in estimate.notes)


@pytest.mark.parametrize("precision", ["nf4", "int4", "int4-g32", "nf4-single"])
def test_dpo_with_four_bit_weights_trains_an_adapter(precision):
    assert Workload(catalog.get_model("Qwen2.5-7B"), "dpo", precision).adapter_kind == "qlora"
    assert Workload(catalog.get_model("Qwen2.5-7B"), "dpo", "bf16").adapter_kind == "none"
