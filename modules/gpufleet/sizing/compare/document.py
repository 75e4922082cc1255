"""A comparison as JSON document; the schema is ``sizing/data/compare.schema.json``."""

from __future__ import annotations

from dataclasses import asdict

from gpufleet.boundary import Json, read_packaged_json
from gpufleet.catalog.purchase_price import PurchasePrice
from gpufleet.sizing.compare.comparison import (
    AcceleratorComparison,
    ComparedAccelerator,
    dense_tera_ops_by_format,
    peak_tflops_and_format,
    roofline_ridge_point,
)
from gpufleet.sizing.plans.result import SizingPlan
from gpufleet.sizing.workload import Workload

SCHEMA = "compare.schema.json"


def load_comparison_schema() -> Json:
    """Return the JSON Schema of a comparison."""
    schema: Json = read_packaged_json("gpufleet.sizing", f"data/{SCHEMA}")
    return schema


def build_comparison_document(comparison: AcceleratorComparison) -> Json:
    """Return the JSON document of a comparison."""
    work = comparison.workload
    precision = work.precision if work else "bf16"
    return {
        "workload": None if work is None else _workload_document(work),
        "accelerators": [_accelerator_document(compared, precision) for compared in comparison.accelerators],
    }


def _workload_document(work: Workload) -> Json:
    names = ("task", "precision", "input_tokens", "output_tokens", "batch", "kv_precision")
    return {"model": work.model.name} | {name: getattr(work, name) for name in names}


def _accelerator_document(compared: ComparedAccelerator, precision: str) -> Json:
    accelerator = compared.accelerator
    names = (
        "name", "vendor", "kind", "architecture", "form_factor", "launch_year", "memory_gib", "usable_gib",
        "bandwidth_gb_s", "link", "link_gb_s", "pcie_gen", "peer_access", "unified", "tdp_w", "source", "as_of",
    )  # fmt: skip
    _, computed_in = peak_tflops_and_format(accelerator, precision)
    return {name: getattr(accelerator, name) for name in names} | {
        "stacks": list(accelerator.stacks),
        "dense_tera_per_s": dense_tera_ops_by_format(accelerator),
        "ridge": {
            "operations_per_byte": _round_significant(roofline_ridge_point(accelerator, precision)),
            "computed_in": computed_in,
        },
        "prices": [asdict(price) for price in compared.prices],
        "purchase_price": None
        if compared.purchase_price is None
        else _purchase_document(compared.purchase_price),
        "result": None if compared.plan is None else _result_document(compared, compared.plan),
        "rejection_reason": compared.rejection_reason or None,
    }


def _purchase_document(price: PurchasePrice) -> Json:
    names = ("unit", "devices", "usd_low", "usd_high", "as_of", "source")
    return {name: getattr(price, name) for name in names}


def _result_document(compared: ComparedAccelerator, plan: SizingPlan) -> Json:
    usd = compared.tokens_per_usd
    return {
        "devices": plan.devices,
        "nodes": plan.nodes,
        "engine": plan.engine.name,
        "batch": plan.workload.batch,
        "fits": plan.is_feasible,
        "per_device_memory_gib": _round_significant(plan.memory.per_device_gib),
        "tokens_per_s": _round_significant(plan.tokens_per_s),
        "tokens_per_s_low": _round_significant(plan.tokens_per_s_low),
        "tokens_per_s_high": _round_significant(plan.tokens_per_s_high),
        "tokens_per_s_per_stream": _round_significant(plan.tokens_per_s_per_stream),
        "prompt_tokens_per_s": _round_significant(plan.prompt_tokens_per_s),
        "limit": plan.speed.limit if plan.speed else None,
        "watts": _round_significant(plan.total_watts),
        "tokens_per_joule": _round_significant(compared.tokens_per_joule),
        "usd_per_hour": _round_significant(compared.replica_usd_per_hour),
        "tokens_per_usd": _round_significant(usd),
        "usd_per_million_tokens": _round_significant(None if usd is None else 1e6 / usd),
        "notes": [*plan.memory.notes, *(plan.speed.notes if plan.speed else ())],
    }


def _round_significant(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
