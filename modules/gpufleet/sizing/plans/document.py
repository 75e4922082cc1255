"""A sizing result as JSON document; the schema is ``sizing/data/size.schema.json``."""

from __future__ import annotations

from gpufleet.boundary import Json, read_packaged_json
from gpufleet.sizing.hardware import HardwareOffer, ParallelLayout
from gpufleet.sizing.memory.result import MemoryEstimate
from gpufleet.sizing.plan_warning import PlanWarning
from gpufleet.sizing.plans.result import PurchaseOption, SizingPlan, SizingResult
from gpufleet.sizing.workload import Workload

PARTS = ("weights", "gradients", "optimizer", "activations", "kv_cache", "overhead", "total")
SCHEMA = "size.schema.json"
DIGITS = 6  # significant digits of estimates


def load_sizing_schema() -> Json:
    """Return the JSON Schema of a sizing result."""
    schema: Json = read_packaged_json("gpufleet.sizing", f"data/{SCHEMA}")
    return schema


def build_sizing_document(result: SizingResult) -> Json:
    """Return the JSON document of a sizing result."""
    quick_estimate = result.quick_estimate
    return {
        "workload": _workload_document(result.workload),
        "memory_gib": _memory_document(result.memory),
        "quick_estimate": {
            "accelerators": _round_significant(quick_estimate.accelerators),
            "formula": quick_estimate.formula,
            "leaves_out": quick_estimate.leaves_out,
        },
        "plans": [_plan_document(plan) for plan in result.plans],
        "closest": None if result.closest_plan is None else _plan_document(result.closest_plan),
        "considered": result.considered_count,
        "purchases": [_purchase_document(option) for option in result.purchases],
        "recommendation": result.recommendation or None,
        "warnings": [_warning_document(warning) for warning in result.warnings],
    }


def _workload_document(workload: Workload) -> Json:
    model = workload.model
    document: Json = {
        "model": model.name,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "task": workload.task,
        "precision": workload.precision,
        "input_tokens": workload.input_tokens,
        "output_tokens": workload.output_tokens,
        "batch": workload.batch,
        "kv_precision": workload.kv_precision,
        "engine": workload.engine,
    }
    if workload.is_training:
        training = workload.training
        names = ("optimizer", "sharding", "recompute", "offload", "lora_rank")
        document["training"] = {name: getattr(training, name) for name in names} | {
            "adapter": workload.adapter_kind
        }
    return document


def _memory_document(memory: MemoryEstimate) -> Json:
    return {name: _round_significant(getattr(memory, name)) for name in PARTS}


def _plan_document(plan: SizingPlan) -> Json:
    return {
        "hardware": plan.hardware.name,
        "accelerator": plan.hardware.accelerator.name,
        "nodes": plan.nodes,
        "devices": plan.devices,
        "replicas": plan.replicas,
        "parallelism": _parallelism_document(plan.layout),
        "engine": plan.engine.name,
        "batch": plan.workload.batch,
        "memory_gib": _memory_document(plan.memory),
        "per_device_memory_gib": _round_significant(plan.memory.per_device_gib),
        "usable_device_memory_gib": _round_significant(max(0.0, plan.memory.usable_gib)),
        "fits": plan.is_feasible,
        "rejection_reason": plan.rejection_reason or None,
        "tokens_per_s": _round_significant(plan.tokens_per_s),
        "tokens_per_s_low": _round_significant(plan.tokens_per_s_low),
        "tokens_per_s_high": _round_significant(plan.tokens_per_s_high),
        "tokens_per_s_per_stream": _round_significant(plan.tokens_per_s_per_stream),
        "users": plan.users,
        "tokens_per_s_per_user": _round_significant(plan.tokens_per_s_per_user if plan.users else None),
        "prompt_tokens_per_s": _round_significant(plan.prompt_tokens_per_s),
        "time_to_first_token_s": _round_significant(plan.time_to_first_token_s),
        "requests_per_s": _round_significant(
            None if plan.requests_per_s is None else plan.requests_per_s * plan.replicas
        ),
        "limit": plan.speed.limit if plan.speed else None,
        "hours": _round_significant(plan.work_hours),
        "usd": _round_price(plan.total_usd),
        "usd_per_hour": _round_price(plan.usd_per_hour),
        "usd_per_month": _round_price(plan.usd_per_month),
        "usd_per_million_tokens": _round_significant(plan.usd_per_million_tokens),
        "watts": _round_significant(plan.total_watts),
        "offer": None if plan.offer is None else _offer_document(plan.offer),
        "notes": [*plan.memory.notes, *(plan.speed.notes if plan.speed else ())],
    }


def _parallelism_document(layout: ParallelLayout) -> Json:
    names = ("tensor", "pipeline", "data", "expert")
    document = {name: getattr(layout, name) for name in names} | {"split": layout.split}
    return document | ({"shards": layout.shards} if layout.shards else {})


def _offer_document(offer: HardwareOffer) -> Json:
    return {
        "cloud": offer.cloud,
        "region": offer.region,
        "purchase": offer.purchase,
        "usd_per_node_hour": _round_price(offer.usd_per_hour),
        "as_of": offer.as_of,
        "source": offer.source,
    }


def _purchase_document(option: PurchaseOption) -> Json:
    months, price = option.break_even_months, option.price
    return {
        "accelerator": option.name,
        "units": option.units,
        "unit": price.unit if price else None,
        "usd_low": option.usd_low,
        "usd_high": option.usd_high,
        "rent_usd_per_month": _round_price(option.rent_usd_per_month),
        "power_usd_per_month": _round_significant(option.power_usd_per_month),
        "usd_per_kwh": option.power_price.usd_per_kwh,
        "break_even_months_low": _round_significant(months[0]) if months else None,
        "break_even_months_high": _round_significant(months[1]) if months else None,
        "as_of": price.as_of if price else None,
        "source": price.source if price else None,
    }


def _warning_document(warning: PlanWarning) -> Json:
    return {"code": warning.code, "message": warning.message, "source": warning.source}


def _round_significant(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


def _round_price(value: float | None) -> float | None:
    """Round prices to the digits in which they are published, not as estimates."""
    return None if value is None else round(value, 6)
