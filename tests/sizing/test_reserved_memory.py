"""Memory limits of engines with default settings, and the largest batch that fits."""

from __future__ import annotations

import pytest

from gpufleet.sizing.plans.document import build_sizing_document
from gpufleet.sizing.plans.report import format_sizing_report

FULL = {"on": "H200 SXM 141GB", "devices": 1, "precision": "fp8", "context": "1000/500"}


@pytest.mark.parametrize(
    ("model", "on", "precision"),
    [
        ("llama-3.1-70b", "H200 SXM 141GB", "fp8"),
        ("llama-3.1-8b", "L40S", "bf16"),
        ("qwen2.5-7b", "GeForce RTX 4090", "fp8"),
        ("mixtral-8x7b", "H100 SXM5 80GB", "int4"),
    ],
)
def test_max_batch_is_the_largest_that_fits(model, on, precision, answer_size):
    options = {"on": on, "devices": 1, "precision": precision, "context": "1000/500"}
    most = answer_size(model, batch="max", **options).plans[0]
    streams = most.workload.batch
    assert most.is_feasible
    assert (
        not answer_size(model, batch=str(max(streams + 1, round(streams * 1.011) + 1)), **options)
        .plans[0]
        .is_feasible
    )


def test_max_batch_meets_the_target_within_one_per_cent(answer_size):
    options = {"on": "H100 SXM5 80GB", "devices": 1, "context": "500/500", "tpot_ms": 12.0}
    most = answer_size("llama-3.1-8b", batch="max", **options).plans[0]
    assert 1 / most.tokens_per_s_per_stream <= 0.012
    more = answer_size("llama-3.1-8b", batch=str(round(most.workload.batch * 1.02) + 1), **options).plans[0]
    assert 1 / more.tokens_per_s_per_stream > 0.012


def test_gpu_memory_utilization_limits_what_fits(answer_size):
    """A newcomer's complaint: 79.1 of 79.5 GiB was said to fit."""
    served = answer_size("llama-3.1-70b", batch="max", engine="vllm", **FULL).plans[0]
    local = answer_size(
        "llama-3.1-70b", batch="max", engine="llama.cpp", **(FULL | {"precision": "q8_0"})
    ).plans[0]
    assert served.memory.per_device_gib <= 0.9 * 141 + 1.0
    assert served.memory.available_gib < served.memory.usable_gib
    assert local.memory.available_gib == pytest.approx(local.memory.usable_gib)


def test_engine_limit_is_named_in_the_warning(answer_size):
    most = answer_size("llama-3.1-70b", batch="max", **FULL).plans[0].workload.batch
    answer = answer_size("llama-3.1-70b", batch=str(round(most * 1.05)), **FULL)
    assert not answer.plans[0].is_feasible
    message = next(warning.message for warning in answer.warnings if warning.code == "does-not-fit")
    assert "with its default settings" in message


def test_chip_without_memory_for_a_runtime_is_not_applicable(answer_size):
    answer = answer_size("qwen2-0.5b", on="Groq LPU", devices=1)
    text = format_sizing_report(answer)
    assert "not applicable" in text
    assert " -0" not in text
    assert build_sizing_document(answer)["plans"][0]["usable_device_memory_gib"] >= 0
