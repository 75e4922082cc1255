"""Published measurements as questions that aiconfigurator's single-point estimate understands."""

from __future__ import annotations

import re
from typing import Any

from gpufleet.boundary import read_packaged_rows
from tools.speed_calibration.measurement import SpeedMeasurement

PACKAGE = "tools.peer_comparison"
BACKENDS = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
# What a published checkpoint of that precision has: products, experts and attention in aiconfigurator's names.
QUANTIZATION: dict[str, dict[str, str]] = {
    "bf16": {"gemm_quant_mode": "bfloat16", "moe_quant_mode": "bfloat16"},
    "fp8": {"gemm_quant_mode": "fp8", "moe_quant_mode": "fp8"},
    "fp4": {"gemm_quant_mode": "nvfp4", "moe_quant_mode": "nvfp4"},
    "mxfp4": {},  # gpt-oss: as its config.json says
}
BLOCK_FP8 = {"gemm_quant_mode": "fp8_block", "moe_quant_mode": "fp8_block"}
BLOCK_FP8_MODELS = ("deepseek", "kimi", "qwen3")


def build_question(row: SpeedMeasurement) -> dict[str, Any] | None:
    """Return the question, None if the package knows neither model, device nor engine, or the task is another."""
    model, system = _names("models.csv", "model", "name"), _names("systems.csv", "accelerator", "system")
    record, work = row.row, row.workload
    backend = BACKENDS.get(record["engine"])
    known = record["model"] in model and record["accelerator"] in system and backend
    if work.is_training or not known or record["share"] not in ("", "1") or record["disaggregation"]:
        return None
    if work.precision not in QUANTIZATION or not work.input_tokens:
        return None
    sizes = {name: int(size) for name, size in re.findall(r"(tp|pp|dp|ep)(\d+)", record["parallelism"])}
    tensor, ranks, expert = sizes.get("tp", 1), sizes.get("dp", 1), sizes.get("ep", 1)
    copies = ranks if expert == 1 else 1
    options: dict[str, Any] = {
        "backend_name": backend,
        "isl": max(work.input_tokens, 1),
        "osl": max(work.output_tokens, 2),
        "tp_size": tensor,
        "pp_size": sizes.get("pp", 1),
    }
    options |= _quantization(row)
    if work.model.experts:
        attention_ranks = ranks // copies
        options |= {"attention_dp_size": attention_ranks, "moe_ep_size": expert}
        options["moe_tp_size"] = tensor * attention_ranks // expert
    batch = 0 if record["batch"] == "max" else work.batch
    return {
        "id": row.measurement_id,
        "model": model[record["model"]],
        "system": system[record["accelerator"]],
        "metric": row.metric_kind,
        "batch": max(1, batch // max(1, ranks)) if batch else 0,
        "copies": copies,
        "options": options,
    }


def _quantization(row: SpeedMeasurement) -> dict[str, str]:
    work = row.workload
    is_block = work.precision == "fp8" and work.model.name.lower().startswith(BLOCK_FP8_MODELS)
    options = dict(BLOCK_FP8 if is_block else QUANTIZATION[work.precision])
    if row.row["kv_precision"] == "fp8":
        options["kvcache_quant_mode"] = "fp8"
    if not work.model.experts:
        options.pop("moe_quant_mode", None)
    return options


def _names(file: str, key: str, value: str) -> dict[str, str]:
    return {row[key]: row[value] for row in read_packaged_rows(PACKAGE, file)}
