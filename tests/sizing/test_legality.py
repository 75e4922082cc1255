"""Each placement rule with an illegal and a legal case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet.sizing.hardware import ParallelLayout
from gpufleet.sizing.model_engine import choose_model_engine, find_model_engine
from gpufleet.sizing.parallelism import (
    count_nodes_for_devices,
    list_inference_layouts,
    list_training_layouts,
)
from gpufleet.sizing.placement_rules import RULES, PlacementCase, check_placement
from gpufleet.sizing.workload import TrainingSettings

# rule: (speaks, keeps silent), each as hardware, devices and changes of the workload
CASES = {
    "heads-divide": (
        ("H100 SXM5 80GB", 8, {"model": "qwen2.5-7b", "engine": "vllm"}),  # 28 heads
        ("H100 SXM5 80GB", 4, {"model": "qwen2.5-7b", "engine": "vllm"}),
    ),
    "kv-heads-replicated": (
        ("H100 SXM5 80GB", 8, {"model": "qwen2-1.5b", "engine": "vllm", "devices": 4}),  # 2 KV heads
        ("H100 SXM5 80GB", 2, {"model": "qwen2-1.5b", "engine": "vllm"}),
    ),
    "nodes-power-of-two": (
        ("blades-1", 20, {"model": "llama-3.1-70b", "precision": "q4_0"}),
        ("blades-1", 8, {"model": "llama-3.1-70b", "precision": "q4_0"}),
    ),
    "partly-used-nodes": (("p4d.24xlarge", 3, {}), ("p4d.24xlarge", 8, {})),
    "too-many-devices": (("blades-1", 21, {}), ("blades-1", 20, {})),
    "no-peer-access": (("GeForce RTX 4090", 2, {}), ("RTX A6000", 2, {})),
    "no-nvlink": (("RTX 6000 Ada", 2, {}), ("RTX 6000 Ada", 1, {})),
    "slow-link-tensor": (
        ("blades-1", 4, {"precision": "q4_0"}),
        ("H100 SXM5 80GB", 8, {"engine": "vllm"}),
    ),
    "slow-link-training": (
        ("GeForce RTX 4090", 16, {"task": "full_finetune"}),
        ("H100 SXM5 80GB", 16, {"task": "full_finetune"}),
    ),
    "summed-memory": (("Compute Module 5 / Pi 5", 8, {"precision": "q4_0"}), ("M3 Ultra (80)", 1, {})),
    "memory-not-merged": (
        ("GeForce RTX 4090", 4, {"task": "lora", "training": TrainingSettings(sharding="none")}),
        ("GeForce RTX 4090", 4, {"task": "lora", "training": TrainingSettings(sharding="zero3")}),
    ),
    "no-rocm": (("Radeon RX 460", 1, {}), ("Radeon RX 7900 XTX", 1, {})),
    "board-without-gpu": (
        ("Compute Module 5 / Pi 5", 1, {"task": "lora"}),
        ("Compute Module 5 / Pi 5", 1, {}),
    ),
    "context-beyond-model": (
        ("H100 SXM5 80GB", 1, {"model": "llama-2-7b", "input_tokens": 8000}),
        ("H100 SXM5 80GB", 1, {"input_tokens": 8000}),
    ),
    "sparse-headline": (
        ("RTX 6000 Ada", 1, {"precision": "fp8"}),
        ("RTX 6000 Ada", 1, {"precision": "bf16"}),
    ),
    "mps-fp16-trainer": (
        ("M2 (10)", 1, {"task": "full_finetune", "precision": "f16"}),
        ("M2 (10)", 1, {"task": "inference", "precision": "f16"}),
    ),
    "mps-bitsandbytes": (
        ("M2 (10)", 1, {"task": "qlora", "precision": "nf4"}),
        ("M2 (10)", 1, {"task": "lora"}),
    ),
    "mps-one-device": (("M2 (10)", 2, {"task": "lora"}), ("M2 (10)", 1, {"task": "lora"})),
    "no-bf16": (("T4", 1, {"precision": "bf16"}), ("T4", 1, {"precision": "f16"})),
    "fp8-weights-only": (
        ("A100 SXM4 80GB", 1, {"precision": "fp8"}),
        ("H100 SXM5 80GB", 1, {"precision": "fp8"}),
    ),
    "no-fp8": (("M2 (10)", 1, {"precision": "fp8"}), ("Instinct MI300X", 1, {"precision": "fp8"})),
    "no-fp4": (("H100 SXM5 80GB", 1, {"precision": "nvfp4"}), ("B200", 1, {"precision": "nvfp4"})),
    "engine-backend": (("M2 (10)", 1, {"engine": "tensorrt-llm"}), ("M2 (10)", 1, {"engine": "llama.cpp"})),
    "engine-task": (
        ("H100 SXM5 80GB", 1, {"task": "lora", "engine": "vllm"}),
        ("H100 SXM5 80GB", 1, {"engine": "vllm"}),
    ),
    "engine-format": (
        ("H100 SXM5 80GB", 1, {"engine": "tensorrt-llm", "precision": "q4_k_m"}),
        ("H100 SXM5 80GB", 1, {"engine": "llama.cpp", "precision": "q4_k_m"}),
    ),
    "not-modelled": (("Groq LPU", 1, {}), ("Gaudi3", 1, {})),
    "unknown-rate": (
        ("Data Center GPU Max 1550", 1, {"task": "lora"}),  # its matrix rates are not published
        ("Data Center GPU Max 1550", 1, {}),
    ),
    "unmeasured-class": (("Ascend 910C", 1, {}), ("TPU v7x (Ironwood)", 1, {})),
    "global-batch-large": (
        ("H100 SXM5 80GB", 6352, {"task": "pretrain", "input_tokens": 2048, "output_tokens": 0, "batch": 4}),
        ("H100 SXM5 80GB", 64, {"task": "pretrain", "input_tokens": 2048, "output_tokens": 0, "batch": 4}),
    ),
}
ELSEWHERE = {"devices-idle"}  # speaks of a layout that is chosen by its speed: test_trained.py


@pytest.fixture
def codes_for(workload, hardware):
    """Return the codes that the rules give for a case."""

    def judged(name, devices, changes):
        changes = dict(changes)
        kind = hardware(name)
        requested = workload(
            changes.pop("model", "llama-3.1-8b"), **{k: v for k, v in changes.items() if k != "devices"}
        )
        devices = changes.get("devices", devices)
        engine = choose_model_engine(kind, requested, count_nodes_for_devices(kind, devices))
        layouts = (
            list_training_layouts(requested, kind, devices)
            if requested.is_training
            else list_inference_layouts(requested, kind, devices, engine)
        )
        case = PlacementCase(requested, kind, devices, next(layouts), engine)
        return {warning.code for warning in check_placement(case)}

    return judged


def test_every_rule_has_a_legal_and_an_illegal_case():
    assert set(CASES) | ELSEWHERE == set(RULES)


@pytest.mark.parametrize("code", list(CASES))
def test_rule_warns_about_illegal_placements(code, codes_for):
    assert code in codes_for(*CASES[code][0])


@pytest.mark.parametrize("code", list(CASES))
def test_rule_does_not_warn_about_legal_placements(code, codes_for):
    assert code not in codes_for(*CASES[code][1])


@pytest.mark.parametrize("code", list(RULES))
def test_every_rule_has_its_reason_and_source(code):
    rule = RULES[code]
    assert len(rule.reason) > 20
    assert len(rule.source) > 10


def test_rule_message_is_one_line(workload, hardware):
    layout, engine = ParallelLayout(1, 8, pipeline=8), find_model_engine("vllm")
    case = PlacementCase(workload("qwen2.5-7b"), hardware("GeForce RTX 4090"), 8, layout, engine)
    warnings = check_placement(case)
    assert warnings
    assert all("\n" not in warning.message for warning in warnings)


@pytest.mark.parametrize("machine", ["a2-megagpu-16g", "p4d.24xlarge", "Standard_ND96amsr_A100_v4"])
def test_real_machines_violate_no_rule(machine, workload, hardware):
    kind = hardware(machine)
    requested, devices = workload("llama-3.1-70b", precision="bf16"), kind.devices_per_node
    layout, engine = ParallelLayout(1, devices, tensor=devices), find_model_engine("vllm")
    warnings = check_placement(PlacementCase(requested, kind, devices, layout, engine))
    assert {warning.code for warning in warnings} <= {"kv-heads-replicated"}


@pytest.mark.parametrize(
    ("engine", "part", "runs"),
    [
        ("vllm", "M2 (10)", False),
        ("vllm", "Radeon RX 460", False),
        ("vllm", "GeForce RTX 4090", True),
        ("vllm", "Instinct MI300X", True),
        ("tensorrt-llm", "Instinct MI300X", False),
        ("mlx", "H100 SXM5 80GB", False),
        ("mlx", "M3 Max (40)", True),
        ("llama.cpp", "Radeon RX 460", True),
        ("tensorrt-llm", "Trainium1", False),
        ("neuron", "Trainium1", True),
        ("distributed-llama", "Compute Module 5 / Pi 5", True),
        ("exllamav2", "M2 (10)", False),
        ("rknn", "RK3588", True),
    ],
)
def test_engines_support_their_backends(engine, part, runs, answer_size, codes):
    answer = answer_size("llama-3.2-1b", on=part, devices=1, engine=engine, precision="f16")
    assert ("engine-backend" not in codes(answer)) is runs
    assert runs or not answer.plans[0].is_feasible


def test_blocked_plan_has_a_reason(answer_size):
    plan = answer_size(on="M2 (10)", devices=1, engine="tensorrt-llm").plans[0]
    assert not plan.is_feasible
    assert "tensorrt-llm runs on cuda" in plan.rejection_reason


def test_too_few_devices_are_reported_separately(workload, hardware):
    limited = replace(hardware("p4d.24xlarge"), node_limit=2)
    layout, engine = ParallelLayout(3, 24, tensor=8, pipeline=3), find_model_engine("vllm")
    warnings = check_placement(PlacementCase(workload(), limited, 24, layout, engine))
    assert "too-many-devices" in {warning.code for warning in warnings if warning.is_blocking}
