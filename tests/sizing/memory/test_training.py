from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet import catalog, sizing
from gpufleet.sizing import Hardware, ParallelLayout, TrainingSettings, Workload
from gpufleet.sizing.memory.model_state import count_adapter_parameters, estimate_model_state_memory

GIB = 2**30
SEVEN = catalog.get_model("Qwen2.5-7B")
CARD = Hardware("eight cards", catalog.get_accelerator("H100 SXM5 80GB"), devices_per_node=8)
SMALL = sorted(name for name, model in catalog.load_models().items() if model.parameters < 2e10)


def training_workload(model=SEVEN, task="full_finetune", *, precision="bf16", tokens=512, batch=1, **knobs):
    return Workload(model, task, precision, tokens, 0, batch, training=TrainingSettings(**knobs))


def sharded_layout(devices, **split):
    parts = split.get("tensor", 1) * split.get("pipeline", 1)
    return ParallelLayout(devices=devices, data=devices // parts, **split)


def peak(workload, layout=None):
    return sizing.estimate_memory(workload, layout or ParallelLayout(), CARD).per_device_gib


def bytes_per_parameter(workload, layout=None):
    share = estimate_model_state_memory(workload, layout or ParallelLayout())
    return (share.weights + share.gradients + share.optimizer) / workload.model.parameters


@pytest.mark.parametrize(
    ("knobs", "expected_bytes"),
    [
        ({}, 16),  # 2 weights, 2 gradients, 4 master copy, 8 moments
        ({"master_copy": False}, 8),  # pure bf16: 2 + 2 + 4
        ({"optimizer": "adamw_8bit"}, 10.03),
        ({"optimizer": "adamw_8bit", "master_copy": False}, 6.03),
        ({"optimizer": "sgd", "master_copy": False}, 4),
        ({"optimizer": "paged_adamw_8bit", "master_copy": False}, 4),  # the moments wait in host memory
        ({"offload": "optimizer"}, 4),
        ({"offload": "all"}, 0),
    ],
)
def test_model_states_match_a_manual_count(knobs, expected_bytes):
    assert bytes_per_parameter(training_workload(**knobs)) == pytest.approx(expected_bytes, rel=1e-3)


def test_dpo_memory_includes_a_reference_model():
    assert bytes_per_parameter(training_workload(task="dpo")) == pytest.approx(18)
    adapted = training_workload(task="dpo", adapter="lora")
    assert bytes_per_parameter(adapted) < 2.2  # the reference is the model with its adapter switched off


def test_megatron_training_needs_18_bytes_per_parameter():
    share = estimate_model_state_memory(training_workload(sharding="none"), sharded_layout(8, pipeline=8))
    assert (share.weights + share.gradients + share.optimizer) * 8 == pytest.approx(18 * SEVEN.parameters)


@pytest.mark.parametrize(
    ("sharding", "expected_bytes"),
    [("none", 16), ("zero1", 4 + 12 / 8), ("zero2", 2 + 14 / 8), ("zero3", 16 / 8)],
)
def test_each_zero_stage_shards_its_states(sharding, expected_bytes):
    assert bytes_per_parameter(training_workload(sharding=sharding), sharded_layout(8)) == pytest.approx(
        expected_bytes
    )


def test_offloaded_states_are_reported_separately():
    estimate = sizing.estimate_memory(training_workload(offload="all"), sharded_layout(8), CARD)
    assert (estimate.weights, estimate.gradients, estimate.optimizer) == (0, 0, 0)
    assert estimate.host_gib == pytest.approx(16 * SEVEN.parameters / GIB)
    assert any("host memory" in note for note in estimate.notes)


def test_adapter_parameters_match_a_manual_count():
    """Llama 2 7B, rank 8 on Q and V: 32 layers x 2 matrices x 8 x (4096 + 4096)."""
    model = catalog.get_model("Llama-2-7B")
    assert (
        count_adapter_parameters(training_workload(model, "lora", lora_rank=8, lora_targets="attention"))
        == 4_194_304
    )


def test_qlora_stores_4_bit_and_lora_16_bit_weights():
    weights = [
        sizing.estimate_memory(training_workload(task=task), ParallelLayout(), CARD).weights
        for task in ("lora", "qlora")
    ]
    adapters = 4 * count_adapter_parameters(training_workload(task="lora"))  # PEFT casts them to 32 bits
    assert weights[0] == pytest.approx((2 * SEVEN.parameters + adapters) / GIB, rel=0.001)
    assert weights[1] < 0.4 * weights[0]


def test_adapters_take_sixteen_bytes_a_parameter():
    """PEFT casts adapters to 32 bits: weight, gradient and two moments; torchtune's have 16 bits."""
    lora = training_workload(task="lora", sharding="none")
    share = estimate_model_state_memory(lora, ParallelLayout())
    adapters = share.weights - 2 * SEVEN.parameters + share.gradients + share.optimizer
    assert adapters == pytest.approx(16 * count_adapter_parameters(lora), rel=1e-6)
    assert sizing.find_training_recipe("torchtune").adapter_bytes == 2


def test_qlora_of_a_mixture_keeps_its_experts_in_sixteen_bits():
    """bitsandbytes 0.50 with transformers 5.24 quantises Mixtral's four attention matrices: over 84 GiB, not 25."""
    mixtral = catalog.get_model("Mixtral-8x7B")
    experts = 32 * 8 * 3 * 4096 * 14336
    fused = estimate_model_state_memory(training_workload(mixtral, "qlora"), ParallelLayout())
    linear = estimate_model_state_memory(
        training_workload(mixtral, "qlora", experts="linear"), ParallelLayout()
    )
    assert fused.weights / GIB > 84
    adapters = [
        4 * count_adapter_parameters(training_workload(mixtral, "qlora", experts=kind))
        for kind in ("fused", "linear")
    ]
    assert (fused.weights - adapters[0]) - (linear.weights - adapters[1]) == pytest.approx(
        experts * (2 - 4.126953125 / 8), rel=1e-6
    )
    assert adapters[1] > 8 * adapters[0]  # each expert has adapters of its own


@pytest.mark.parametrize(
    ("name", "linear"),
    [
        ("Mixtral-8x7B", 1_342_177_280),  # q, k, v and o of 32 layers
        ("DeepSeek-V3", 15_156_838_400),  # latent attention, three dense layers and the shared experts
    ],
)
def test_bitsandbytes_quantises_the_linear_layers_of_a_mixture(name, linear):
    """``linear``: parameters in torch.nn.Linear but lm_head of transformers 5.24.0's classes (meta device, 2026-11-29).

    bitsandbytes replaces modules of exactly that type (transformers integrations/bitsandbytes.py).
    """
    model = catalog.get_model(name)
    qlora = training_workload(model, "qlora", precision="nf4")
    share = estimate_model_state_memory(qlora, ParallelLayout())
    base = share.weights - 4 * count_adapter_parameters(qlora)
    assert base == pytest.approx(2 * (model.parameters - linear) + linear * 4.126953125 / 8, rel=1e-4)


@pytest.mark.parametrize("master_copy", [True, False])
def test_paged_and_unpaged_adamw_keep_the_same_copy_on_the_device(master_copy):
    """Only the moments are paged: both recipes have the 32-bit copy of the weights, or neither."""
    unpaged, paged = (
        bytes_per_parameter(training_workload(optimizer=name, master_copy=master_copy))
        for name in ("adamw_8bit", "paged_adamw_8bit")
    )
    assert unpaged - paged == pytest.approx(2.03)


def test_logits_of_a_large_vocabulary_are_the_peak():
    """Two sequences of 8,192 tokens, 128,256 entries, 18 bytes each: 35.2 GiB beside everything else."""
    model = catalog.get_model("Llama-3.1-8B")
    unsharded = training_workload(model, tokens=8192, batch=2, recompute="full")
    fused = replace(unsharded, training=replace(unsharded.training, fused_loss=True))
    assert peak(unsharded) - peak(fused) > 20  # less than the logits: the other peak has all gradients
    assert pytest.approx(35.2, abs=0.05) == 16384 * 128256 * 18 / GIB


def test_gradients_exist_at_the_loss_only_if_micro_batches_accumulate():
    """PEFT's full fine-tuning of Llama 3.2 3B in pure bf16: 36.2 GiB at batch 4 of up to 768 tokens, not 41.8."""
    model = catalog.get_model("Llama-3.2-3B")
    once = training_workload(model, tokens=768, batch=4, recompute="none", master_copy=False)
    several = replace(once, training=replace(once.training, accumulation=2))
    assert peak(once) == pytest.approx(36.2, rel=0.03)
    assert peak(several) - peak(once) == pytest.approx(2 * model.parameters / GIB, rel=0.01)


def test_foreach_step_of_the_optimizer_copies_a_moment():
    """fms-acceleration: 67.46 GiB for Mistral 7B in pure bf16 on one card, whatever the batch."""
    model = catalog.get_model("Mistral-7B-v0.1")
    run = training_workload(model, tokens=4096, batch=4, master_copy=False, logits_bytes=14.0)
    foreach = replace(run, training=replace(run.training, foreach_optimizer=True))
    assert peak(foreach) == pytest.approx(67.46, rel=0.03)
    assert peak(foreach) > peak(run)


def test_attention_without_flash_attention_grows_quadratically():
    without = [
        peak(training_workload(tokens=t, flash_attention=False, recompute="none")) for t in (2048, 4096, 8192)
    ]
    fused = [peak(training_workload(tokens=t, recompute="none")) for t in (2048, 4096, 8192)]
    assert (without[2] - without[1]) / (without[1] - without[0]) > 3
    assert (fused[2] - fused[1]) / (fused[1] - fused[0]) == pytest.approx(2, rel=0.01)


def test_more_recomputation_needs_less_activation_memory():
    peaks = [
        peak(training_workload(tokens=4096, batch=4, recompute=kind))
        for kind in ("none", "selective", "full")
    ]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] > peaks[2] + 20


def test_automatic_recomputation_is_the_least_that_fits():
    card = Hardware("one card", catalog.get_accelerator("GeForce RTX 4090"))
    roomy = training_workload(catalog.get_model("TinyLlama-1.1B"), "lora", recompute="auto")
    tight = training_workload(
        catalog.get_model("Llama-3.1-8B"), "lora", tokens=2048, batch=2, recompute="auto"
    )
    assert sizing.choose_recompute(roomy, ParallelLayout(), card).training.recompute == "none"
    chosen = sizing.choose_recompute(tight, ParallelLayout(), card).training
    assert (chosen.recompute, chosen.fused_loss) == ("full", True)
    assert sizing.estimate_memory(tight, ParallelLayout(), card).fits


def test_optimizer_step_in_the_backward_pass_frees_gradients():
    usual, stepping = (
        sizing.estimate_memory(training_workload(step_in_backward=on_), ParallelLayout(), CARD)
        for on_ in (False, True)
    )
    assert usual.gradients - stepping.gradients > 12


def test_accumulation_without_synchronisation_keeps_unsharded_gradients():
    estimate = sizing.estimate_memory(training_workload(accumulation=4), sharded_layout(8), CARD)
    unsharded = sizing.estimate_memory(
        training_workload(accumulation=4, sync_each=False), sharded_layout(8), CARD
    )
    assert unsharded.gradients == pytest.approx(8 * estimate.gradients)


def test_expert_parallelism_spreads_the_experts():
    model = catalog.get_model("Mixtral-8x7B")
    together = estimate_model_state_memory(
        training_workload(model, sharding="none"), sharded_layout(8)
    ).weights
    spread = estimate_model_state_memory(
        training_workload(model, sharding="none"), replace(sharded_layout(8), expert=8)
    ).weights
    routed = 32 * 8 * 3 * 4096 * 14336 * 2
    assert together - spread == pytest.approx(routed * 7 / 8)


def test_total_is_the_sum_of_its_parts():
    estimate = sizing.estimate_memory(training_workload(), sharded_layout(8), CARD)
    parts = (
        estimate.weights
        + estimate.gradients
        + estimate.optimizer
        + estimate.activations
        + estimate.kv_cache
        + estimate.overhead
    )
    assert estimate.total == pytest.approx(parts) == pytest.approx(8 * estimate.per_device_gib)


@settings(max_examples=60)
@given(
    st.sampled_from(SMALL),
    st.sampled_from(["full_finetune", "lora", "qlora", "dpo", "pretrain"]),
    st.sampled_from(["none", "selective", "full"]),
    st.integers(1, 16),
    st.integers(64, 8192),
)
def test_more_sharding_and_smaller_batches_never_need_more_memory(name, task, recompute, batch, tokens):
    model = catalog.get_model(name)
    workload = training_workload(model, task, tokens=tokens, batch=batch, recompute=recompute)
    staged = [
        estimate_model_state_memory(
            replace(workload, training=replace(workload.training, sharding=stage)), sharded_layout(8)
        )
        for stage in ("none", "zero1", "zero2", "zero3")
    ]
    totals = [share.total_bytes for share in staged]
    assert all(more >= less for more, less in pairwise(totals))
    peak_bytes = peak(workload, sharded_layout(8))
    assert peak_bytes <= peak(replace(workload, batch=batch + 1), sharded_layout(8))
    assert peak_bytes <= peak(replace(workload, input_tokens=tokens + 512), sharded_layout(8))
    assert peak(workload, sharded_layout(16)) <= peak_bytes
    assert peak_bytes > 0


@settings(max_examples=40)
@given(st.sampled_from(SMALL), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]))
def test_splitting_a_model_never_needs_more_memory_per_device(name, tensor, pipeline):
    model = catalog.get_model(name)
    workload = training_workload(model, sharding="none", recompute="full", tokens=1024)
    devices = tensor * pipeline
    unsharded = estimate_model_state_memory(workload, ParallelLayout()).total_bytes
    assert estimate_model_state_memory(
        workload, sharded_layout(devices, tensor=tensor, pipeline=pipeline)
    ).total_bytes <= unsharded * (1 + 2 / 16)  # 32-bit gradients
