"""Other tools' memory formulas, from their documentation, to compare on the same rows.

None of them knows every row: where a formula has no term for something (adapters, recomputation, a runtime),
it is left out here as it is there. All are given the benefit of even sharding over the devices.
"""

from __future__ import annotations

from gpufleet.sizing.memory.kv_cache import kv_cache_bytes_per_token
from gpufleet.sizing.memory.result import GIB
from gpufleet.sizing.memory.weights import bits_per_weight
from tools.memory_calibration.measurement import MemoryMeasurement

ADAM_IN_ACCELERATE = 4.0
STATES_IN_LLM_ANALYSIS = 12.0  # master copy and two moments in 32 bits
GRADIENT_BYTES = 4.0  # "upcasted to the same data type as the optimizer master weights"
WIDTHS_KEPT = {
    "none": 34.0,
    "auto": 34.0,
    "selective": 34.0,
    "full": 2.0,
}  # bytes per token and unit of width


def accelerate(row: MemoryMeasurement) -> float:
    """Restate accelerate estimate-memory (usage_guides/model_size_estimator): total size, times four with Adam."""
    size = _weights(row)
    return (ADAM_IN_ACCELERATE * size if row.workload.is_training else size) / row.layout.devices / GIB


def llm_analysis(row: MemoryMeasurement) -> float | None:
    """Restate llm-analysis 0.2.2: weights, states, and activations after Korthikanti et al. (arXiv 2205.05198).

    It knows no adapters: such rows have no answer.
    """
    workload, layout = row.workload, row.layout
    if workload.adapter_kind != "none":
        return None
    model, split = workload.model, layout.tensor * layout.pipeline
    if not workload.is_training:
        cache = kv_cache_bytes_per_token(model) * workload.context_tokens * workload.batch
        return (_weights(row) + cache) / layout.devices / GIB
    shards = max(1, layout.devices // split)
    states = model.parameters * (2.0 + GRADIENT_BYTES + STATES_IN_LLM_ANALYSIS) / split / shards
    tokens = workload.batch * workload.context_tokens
    layers = model.layers / layout.pipeline
    stored = WIDTHS_KEPT[workload.training.recompute] * tokens * model.hidden * layers / layout.tensor
    return (states + stored) / GIB


def quick(row: MemoryMeasurement) -> float:
    """Restate the quick formulas: parameters times bytes, and six times that for training."""
    return (6.0 if row.workload.is_training else 1.0) * _weights(row) / row.layout.devices / GIB


def _weights(row: MemoryMeasurement) -> float:
    return row.workload.model.parameters * bits_per_weight(row.workload.precision) / 8


FORMULAS = {
    "accelerate's formula": accelerate,
    "llm-analysis' formula": llm_analysis,
    "quick formulas": quick,
}
