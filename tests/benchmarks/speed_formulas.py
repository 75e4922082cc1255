"""Other speed formulas, to compare on the same measurements.

Each is given the benefit of the doubt: the devices of a tensor split add up, those of a layer split do not.
None has an answer where it has no term.
"""

from __future__ import annotations

from gpufleet.sizing import active_weight_bytes, kv_cache_bytes, weight_bytes
from gpufleet.sizing.speed import device, operation_count
from tools.speed_calibration import SpeedMeasurement

CONSTANT = 0.65
FLOPS_EFFICIENCY = (
    0.5  # "achieved by Megatron-LM is ~0.5", llm_analysis/constant.py@980a812; 1 unless the user knows
)
MEMORY_EFFICIENCY = 1.0  # HBM_MEMORY_EFFICIENCY there
QUICK_OPERATIONS = 6.0  # per weight and token trained on


def roofline(row: SpeedMeasurement) -> float | None:
    """Restate the bare roofline: bytes over nominal bandwidth or operations over nominal rate, the slower."""
    return _predict_generation(row, 1.0, 1.0) if not row.workload.is_training else _predict_training(row, 1.0)


def constant(row: SpeedMeasurement) -> float | None:
    """Restate the roofline times one constant."""
    estimate = roofline(row)
    return None if estimate is None else estimate * CONSTANT


def llm_analysis(row: SpeedMeasurement) -> float | None:
    """Restate llm-analysis's latency: layers' compute or weight traffic, the slower, plus the cache's traffic."""
    if row.workload.is_training:
        return _predict_training(row, FLOPS_EFFICIENCY)
    return _predict_generation(row, MEMORY_EFFICIENCY, FLOPS_EFFICIENCY, reads_all_weights=True)


def quick(row: SpeedMeasurement) -> float | None:
    """Restate the quick formulas: bandwidth over file size; rate over six operations per weight."""
    work, part = row.workload, row.hardware.accelerator
    rate = device.find_peak_flops(part, work.precision, row.calibrated_engine)
    if work.is_training:
        return rate * _combine(row) / (QUICK_OPERATIONS * work.model.parameters) if rate else None
    if row.metric_kind == "prefill":
        return rate * row.layout.tensor / (2.0 * work.model.parameters) if rate else None
    if not part.bandwidth_gb_s:
        return None
    device_rate = part.bandwidth_gb_s * 1e9 * row.layout.tensor / weight_bytes(work.model, work.precision)
    return device_rate * work.batch * row.layout.data


def _predict_generation(
    row: SpeedMeasurement, memory: float, compute: float, *, reads_all_weights: bool = False
) -> float | None:
    work, part, tensor = row.workload, row.hardware.accelerator, row.layout.tensor
    rate = device.find_peak_flops(part, work.precision, row.calibrated_engine)
    if not part.bandwidth_gb_s or not rate:
        return None
    bandwidth = part.bandwidth_gb_s * 1e9 * memory * tensor
    operations = operation_count.forward_operations_per_token(work.model) / (rate * compute * tensor)
    prompt = work.batch * work.input_tokens * operations
    if row.metric_kind == "prefill":
        return work.batch * work.input_tokens / prompt
    context = work.input_tokens + work.output_tokens / 2
    read = weight_bytes if reads_all_weights else active_weight_bytes
    cache = work.batch * kv_cache_bytes(work.model, context) / bandwidth
    step = max(read(work.model, work.precision) / bandwidth, work.batch * operations) + cache
    if row.metric_kind == "decode":
        return 1.0 / step
    return work.batch * work.output_tokens * row.layout.data / (work.output_tokens * step + prompt)


def _predict_training(row: SpeedMeasurement, efficiency: float) -> float | None:
    rate = device.find_peak_flops(row.hardware.accelerator, row.workload.precision, row.calibrated_engine)
    if not rate:
        return None
    model, frozen = row.workload.model, row.workload.adapter_kind != "none"
    per_token = operation_count.forward_operations_per_token(
        model
    ) + operation_count.attention_operations_per_token(model, row.workload.context_tokens)
    passes = (2.0 if frozen else 3.0) + (1.0 if row.workload.training.recompute == "full" else 0.0)
    return rate * efficiency * _combine(row) / (per_token * passes)


def _combine(row: SpeedMeasurement) -> int:
    return row.layout.tensor * row.layout.pipeline * row.layout.data


FORMULAS = {
    "bare roofline": roofline,
    "times 0.65": constant,
    "llm-analysis' formula": llm_analysis,
    "quick formulas": quick,
}
