"""A sizing result as text for a terminal, legible without colour and at any width."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gpufleet.sizing.memory.result import MemoryEstimate
from gpufleet.sizing.plans.result import SizingPlan, SizingResult
from gpufleet.sizing.workload import Workload
from gpufleet.text_table import align_columns

Row = Sequence[str]
PARTS = ("weights", "gradients", "optimizer", "activations", "kv_cache", "overhead")
NOTABLE_SHARE = 0.98  # of the usable memory: below this share the default limit is printed
LEFT_ALIGNED = {"HARDWARE", "PURCHASE", "LIMIT", "SPLIT"}


def format_sizing_report(result: SizingResult) -> str:
    """Return workload, memory, plans, warnings and prices as text."""
    sections = [
        [_headline(result.workload)],
        list(_memory_lines(result)),
        list(_quick_estimate_lines(result)),
        list(_plan_lines(result)),
        list(_warning_lines(result)),
        list(_price_lines(result)),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _headline(workload: Workload) -> str:
    model = workload.model
    size = f"{model.parameters / 1e9:.3g} B parameters"
    if model.active_parameters < model.parameters:
        size += f", {model.active_parameters / 1e9:.3g} B active"
    streams = (
        f"micro-batch {workload.batch} per device"
        if workload.is_training
        else _format_streams(workload.batch)
    )
    length = (
        f"{workload.context_tokens:,} tokens"
        if workload.is_training
        else f"{workload.input_tokens}/{workload.output_tokens} tokens"
    )
    return f"{model.name} ({size}): {workload.task}, {workload.precision}, {length}, {streams}"


def _format_streams(batch: int) -> str:
    return f"{batch} stream{'' if batch == 1 else 's'}"


def _memory_lines(result: SizingResult) -> Iterator[str]:
    memory: MemoryEstimate = result.memory
    best = result.plans[0] if result.plans else result.closest_plan
    where = f" on {best.hardware.name}" if best else ""
    yield f"Memory of one replica{where}: {memory.total:,.1f} GiB"
    parts = [(name.replace("_", " "), getattr(memory, name)) for name in PARTS]
    yield "  " + ", ".join(f"{name} {gib:,.2f}" for name, gib in parts if gib)
    state = "fits" if memory.fits else "does not fit"
    filled = (
        f", {memory.available_gib:,.1f} by default"
        if 0 < memory.available_gib < memory.usable_gib * NOTABLE_SHARE
        else ""
    )
    usable = (
        f"{memory.usable_gib:,.1f} GiB usable{filled}: {state}"
        if memory.usable_gib > 0
        else "a chip: not applicable"
    )
    yield f"  fullest device: {memory.per_device_gib:,.1f} of {usable}"
    for note in memory.notes:
        yield f"  {note}"


def _quick_estimate_lines(result: SizingResult) -> Iterator[str]:
    estimate = result.quick_estimate
    yield f"Quick estimate: {estimate.accelerators:.2g} accelerators ({estimate.formula})"
    yield f"  it leaves out: {estimate.leaves_out}"


def _plan_lines(result: SizingResult) -> Iterator[str]:
    if not result.plans:
        yield f"No plan among {result.considered_count} kinds of hardware."
        return
    yield from format_table_lines(_table_header(result.plans[0]), [_table_row(plan) for plan in result.plans])
    if len(result.plans) == 1:
        yield from _detail_lines(result.plans[0])


def _table_header(plan: SizingPlan) -> Row:
    money = ("HOURS", "USD") if plan.tokens else ("USD/HOUR", "USD/M TOKENS")
    return (
        "HARDWARE",
        "NODES",
        "DEVICES",
        "REPLICAS",
        "SPLIT",
        "FITS",
        "TOKENS/S",
        "80 % RANGE",
        "LIMIT",
        *money,
        "WATTS",
        "PURCHASE",
    )


def _table_row(plan: SizingPlan) -> Row:
    money = (
        (plan.work_hours, plan.total_usd) if plan.tokens else (plan.usd_per_hour, plan.usd_per_million_tokens)
    )
    speeds = f"{format_three_digits(plan.tokens_per_s_low)}-{format_three_digits(plan.tokens_per_s_high)}"
    offer = plan.offer
    purchase = (
        " ".join(text for text in (offer.purchase, offer.cloud, offer.region) if text)
        if offer
        else "no price known"
    )
    return (
        plan.hardware.name,
        str(plan.nodes),
        str(plan.devices),
        str(plan.replicas),
        _split_text(plan),
        "yes" if plan.is_feasible else "NO",
        format_three_digits(plan.tokens_per_s),
        speeds,
        (plan.speed.limit if plan.speed else None) or "-",
        *(format_three_digits(value) for value in money),
        format_three_digits(plan.total_watts),
        purchase,
    )


def _split_text(plan: SizingPlan) -> str:
    layout = plan.layout
    named_sizes = (
        ("tensor", layout.tensor),
        ("layers", layout.pipeline),
        ("data", layout.data),
        ("experts", layout.expert),
    )
    shard_text = (
        f" by {layout.shards}" if layout.shards else ""
    )  # hybrid sharding: each copy is sharded over so many devices
    return (" x ".join(f"{name} {size}" for name, size in named_sizes if size > 1) or "-") + shard_text


def _detail_lines(plan: SizingPlan) -> Iterator[str]:
    yield ""
    if not plan.workload.is_training:
        first, prompt = plan.time_to_first_token_s, plan.prompt_tokens_per_s
        yield (
            f"  one stream: {format_three_digits(plan.tokens_per_s_per_stream)} tokens/s; "
            f"prompts: {format_three_digits(prompt)} tokens/s; "
            f"first token after {format_three_digits(first)} s; engine {plan.engine.name}"
        )
    if plan.rejection_reason:
        yield f"  cannot run: {plan.rejection_reason}"
    for note in plan.speed.notes if plan.speed else ():
        yield f"  {note}"


def _warning_lines(result: SizingResult) -> Iterator[str]:
    if result.warnings:
        yield "Warnings"
    for warning in result.warnings:
        yield f"  {warning.code}: {warning.message}"
        if warning.source:
            yield f"    source: {warning.source}"


def _price_lines(result: SizingResult) -> Iterator[str]:
    offers = {
        plan.offer.source: plan.offer for plan in result.plans if plan.offer and plan.offer.usd_per_hour
    }
    if offers:
        yield "Prices"
    for offer in offers.values():
        yield f"  {offer.as_of or 'undated'}: {offer.source}"


def format_three_digits(value: float | None) -> str:
    """Return a figure with three significant digits, "-" for None."""
    if value is None:
        return "-"
    if value >= 100:  # noqa: PLR2004 - three digits before the point
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def format_table_lines(
    header: Row, rows: list[Row], left_aligned: Collection[str] = LEFT_ALIGNED
) -> Iterator[str]:
    """Yield lines of a table: text columns left-aligned, figures right-aligned."""
    yield from align_columns(header, rows, set(header).difference(left_aligned))
