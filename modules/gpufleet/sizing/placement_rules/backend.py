"""Engines on accelerators whose software stack they do not support."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.sizing.model_engine import is_engine_supported_on
from gpufleet.sizing.placement_rules.rule import PLACEMENT_RULES, PlacementCase


@PLACEMENT_RULES.register_rule(
    "engine-backend",
    reason="an engine runs on the software stacks that it is written for",
    source="sizing/data/engines.csv and catalog/data/accelerators.csv, columns stacks",
)
def check_engine_backend(case: PlacementCase) -> Iterator[str]:
    accelerator = case.hardware.accelerator
    if is_engine_supported_on(case.engine, accelerator):
        return
    runs, has = ", ".join(sorted(case.engine.stacks)), ", ".join(accelerator.stacks)
    extra = (
        "; the vllm-metal plugin is an engine of its own"
        if (case.engine.name, accelerator.kind) == ("vllm", "apple")
        else ""
    )
    yield f"{case.engine.name} runs on {runs}; {accelerator.name} has {has}{extra} ({case.engine.source})"


@PLACEMENT_RULES.register_rule(
    "engine-task",
    reason="inference engines cannot train, and training frameworks do not serve",
    source="sizing/data/engines.csv, column tasks",
)
def check_engine_task(case: PlacementCase) -> Iterator[str]:
    kind = "training" if case.workload.is_training else "inference"
    if kind not in case.engine.tasks:
        yield f"{case.engine.name} is for {', '.join(sorted(case.engine.tasks))}, not for {kind}"


@PLACEMENT_RULES.register_rule(
    "engine-format",
    reason="GGUF is llama.cpp's format; few other engines read it",
    source="docs.vllm.ai supported hardware for quantization (v0.9.2): GGUF on NVIDIA and AMD only",
    is_blocking=False,
)
def check_engine_weight_format(case: PlacementCase) -> Iterator[str]:
    gguf = case.workload.precision.startswith(("q2_", "q3_", "q4_", "q5_", "q6_", "q8_", "iq"))
    readers = ("llama.cpp", "distributed-llama", "vllm", "mlx", "transformers")
    if gguf and case.engine.name not in readers:
        yield f"{case.engine.name} does not read GGUF weights ({case.workload.precision})"
