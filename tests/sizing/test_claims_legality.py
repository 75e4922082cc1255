"""Errors about placement in planning documents (2026-11), and the output of gpufleet for each.

The numbers are those of the list that the documents were read for; the others are in tests of memory and speed.
"""

from __future__ import annotations

import pytest

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.sizing.hardware_resolver import resolve_hardware


def test_claim_1_rtx_4090_has_no_nvlink_and_no_peer_access(answer_size, codes):
    answer = answer_size("llama-3.1-70b", on="GeForce RTX 4090", devices=2, precision="q4_k_m")
    assert {"no-nvlink", "no-peer-access"} <= codes(answer)
    assert answer.plans[0].hardware.link == "PCIe 4"


def test_claim_1_nvlink_never_merges_memory(answer_size):
    alone = answer_size("llama-3.1-8b", on="A100 SXM4 40GB", devices=1).plans[0].memory.usable_gib
    joined = answer_size("llama-3.1-8b", on="A100 SXM4 40GB", devices=8).plans[0].memory.usable_gib
    assert alone == joined < 40  # of one device, however many are joined


def test_claim_9_fp16_training_on_mps_depends_on_the_version(answer_size, codes):
    answer = answer_size("qwen2-0.5b", task="full_finetune", precision="f16", on="m2", devices=1)
    assert "mps-fp16-trainer" in codes(answer)
    text = next(c.message for c in answer.warnings if c.code == "mps-fp16-trainer")
    assert "ValueError" in text
    assert "bf16" in text


def test_claim_10_full_dpo_of_7b_does_not_fit_on_24_gb(answer_size, codes):
    full = answer_size("qwen2.5-7b", task="dpo", context="1024", on="GeForce RTX 4090", devices=1)
    assert not full.plans[0].is_feasible
    assert "does-not-fit" in codes(full)
    assert full.memory.total > 100


def test_claim_10_qlora_dpo_of_7b_fits_on_24_gb(answer_size):
    assert (
        answer_size("qwen2.5-7b", task="qlora", context="512", on="GeForce RTX 4090", devices=1)
        .plans[0]
        .is_feasible
    )


def test_claim_13_nc6s_v3_is_retired_and_its_substitutes_are_named(answer_size, codes):
    answer = answer_size("qwen2-0.5b", on="Standard_NC6s_v3")
    text = next(c.message for c in answer.warnings if c.code == "retired-machine")
    assert "2025-09-30" in text
    assert "Standard_NC24ads_A100_v4" in text


def test_claim_13_a2_megagpu_exists(answer_size, codes):
    answer = answer_size("llama-3.1-70b", on="a2-megagpu-16g")
    machine = catalog.get_machine("a2-megagpu-16g")
    assert (machine.vcpus, machine.memory_gib, machine.accelerators[0].count) == (96, 1360, 16)
    assert codes(answer) <= {"kv-heads-replicated"}
    assert answer.plans[0].is_feasible


@pytest.mark.parametrize(("machine", "gib"), [("p4d.24xlarge", 40), ("Standard_ND96amsr_A100_v4", 80)])
def test_claim_13_machines_have_the_documented_a100_models(machine, gib, hardware):
    assert hardware(machine).accelerator.memory_gib == gib


@pytest.mark.parametrize(("board", "max_gb"), [("CM4 512GB", 8), ("CM5 512GB", 16)])
def test_claim_14_no_blade_has_512_gb(board, max_gb):
    with pytest.raises(InputError, match=f"at most {max_gb} GB"):
        resolve_hardware(board)


def test_claim_15_160_gb_on_20_blades_is_not_one_memory(answer_size, codes):
    answer = answer_size("llama-3.1-70b", on="blades-1", devices=20, precision="q4_0")
    assert {"summed-memory", "nodes-power-of-two"} <= codes(answer)
    assert answer.plans[0].layout.devices == 8  # as many as the model has KV heads
    text = next(c.message for c in answer.warnings if c.code == "summed-memory")
    assert "not one memory" in text


def test_claim_15_one_mac_is_ten_times_faster_than_the_blades(answer_size):
    blades = answer_size("llama-3.1-70b", on="Compute Module 5 / Pi 5", devices=10, precision="q4_0").plans[0]
    mac = answer_size("llama-3.1-70b", on="M3 Ultra (80)", devices=1, precision="q4_0").plans[0]
    assert mac.tokens_per_s > 5 * blades.tokens_per_s


def test_claim_16_rtx_6000_is_the_name_of_several_cards():
    with pytest.raises(InputError, match="ambiguous") as excinfo:
        resolve_hardware("RTX 6000")
    assert "RTX 6000 Ada" in str(excinfo.value)
    assert "Turing" in str(excinfo.value)


def test_claim_16_1457_tops_are_sparse(answer_size, codes):
    answer = answer_size("llama-3.1-8b", on="RTX 6000 Ada", devices=1, precision="fp8")
    text = next(c.message for c in answer.warnings if c.code == "sparse-headline")
    assert "1457" in text
    assert "728.5" in text
    assert catalog.get_accelerator("RTX 6000 Ada").fp8_tflops_dense == 728.5


def test_claim_16_rx_460_runs_vulkan_only(answer_size, codes):
    part = catalog.get_accelerator("Radeon RX 460")
    assert (part.stacks, part.bandwidth_gb_s) == (("vulkan",), 112)
    assert "no-rocm" in codes(answer_size("qwen2-0.5b", on="bench-1", devices=1))
    assert "engine-backend" in codes(
        answer_size("qwen2-0.5b", on="bench-1", devices=1, engine="vllm", precision="f16")
    )


def test_claim_17_trainium_runs_neuron_and_not_cuda(answer_size, codes):
    assert catalog.get_accelerator("Trainium1").stacks == ("neuron",)
    assert "engine-backend" in codes(answer_size(on="Trainium1", devices=16, engine="tensorrt-llm"))
    assert "engine-backend" not in codes(answer_size(on="Trainium1", devices=16))


def test_claim_17_tensor_parallelism_scales_over_nvlink(answer_size):
    two, eight = (
        answer_size("llama-2-70b", on="A100 SXM4 80GB", devices=n, engine="gpt-fast").plans[0] for n in (2, 8)
    )
    assert eight.layout.tensor == 8
    assert eight.tokens_per_s > 2 * two.tokens_per_s
