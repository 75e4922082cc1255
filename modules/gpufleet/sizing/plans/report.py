"""A sizing result as text for a terminal, legible without colour and at any width."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence

from gpufleet import text_table
from gpufleet.sizing.memory.result import MemoryEstimate
from gpufleet.sizing.plans.formatting import (
    format_three_digits,
    format_two_digits,
    format_usd,
    format_usd_range,
)
from gpufleet.sizing.plans.purchase import is_price_known
from gpufleet.sizing.plans.result import PurchaseOption, SizingPlan, SizingResult
from gpufleet.sizing.workload import Workload
from gpufleet.text_table import align_columns

Row = Sequence[str]
PARTS = ("weights", "gradients", "optimizer", "activations", "kv_cache", "overhead")
NOTABLE_SHARE = 0.98  # of the usable memory: below this share the default limit is printed
LEFT_ALIGNED = {"HARDWARE", "PURCHASE", "LIMIT", "SPLIT"}
HIDDEN = {
    "REPLICAS": "1",
    "SPLIT": "-",
    "FITS": "yes",
}  # columns that are left out if each row says only this
NARROW_ORDER = (
    "WATTS",
    "SPLIT",
    "LIMIT",
    "USD/HOUR",
    "REPLICAS",
    "NODES",
    "USD/M TOKENS",
    "USD/M DOCUMENTS",
    "80 % RANGE",
    "DEVICES",
)


def format_sizing_report(result: SizingResult) -> str:
    """Return workload, memory, plans, warnings, prices and the recommendation as text."""
    sections = [
        [_headline(result.workload)],
        list(_memory_lines(result)),
        list(_quick_estimate_lines(result)),
        list(_plan_lines(result)),
        list(_warning_lines(result)),
        list(_price_lines(result)),
        list(_purchase_lines(result)),
        _wrap(f"Recommended: {result.recommendation}") if result.recommendation else [],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _wrap(text: str) -> list[str]:
    """Return a sentence as one line, or on a terminal as lines of its width."""
    width = text_table.line_width
    return textwrap.wrap(text, width, break_on_hyphens=False) if width else [text]


def _headline(workload: Workload) -> str:
    model = workload.model
    size = f"{format_three_digits(model.parameters / 1e9)} B parameters"
    if model.active_parameters < model.parameters:
        size += f", {format_three_digits(model.active_parameters / 1e9)} B active"
    streams = _format_streams(workload)
    length = (
        f"{workload.context_tokens:,} tokens"
        if workload.is_training
        else f"{workload.input_tokens}/{workload.output_tokens} tokens"
    )
    if model.is_encoder and not workload.is_training:
        length = f"documents of {workload.input_tokens:,} tokens"
    return f"{model.name} ({size}): {workload.task}, {workload.precision}, {length}, {streams}"


def _format_streams(workload: Workload) -> str:
    batch = workload.batch
    if workload.is_training:
        return f"micro-batch {batch} per device"
    if workload.model.is_encoder:
        return "one document at a time" if batch == 1 else f"{batch:,} documents at a time"
    return f"{batch:,} stream{'' if batch == 1 else 's'}"


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
    yield f"Quick estimate: {format_two_digits(estimate.accelerators)} accelerators ({estimate.formula})"
    yield f"  it leaves out: {estimate.leaves_out}"


def _plan_lines(result: SizingResult) -> Iterator[str]:
    if not result.plans:
        yield f"No plan among {result.considered_count} kinds of hardware."
        return
    yield from _table_lines(result.plans)
    for plan in result.plans:
        if plan.tokens_per_s is None:
            notes = "; ".join(plan.speed.notes if plan.speed else ()) or "no figure of it is published"
            yield f"  {plan.hardware.name}: its speed is unknown, because {notes}"
    if len(result.plans) == 1:
        yield from _detail_lines(result.plans[0])


def _table_lines(plans: Sequence[SizingPlan]) -> Iterator[str]:
    """Yield the table of plans, without the columns that say the same in each row."""
    columns = {name: values for name, values in _list_columns(plans) if set(values) != {HIDDEN.get(name)}}
    rows = list(zip(*columns.values(), strict=True))
    header = tuple(columns)
    yield from format_table_lines(header, rows, optional=NARROW_ORDER)


def _list_columns(plans: Sequence[SizingPlan]) -> Iterator[tuple[str, list[str]]]:
    """Yield each column: its heading, and what it says of each plan."""
    first = plans[0]
    figures = format_three_digits
    yield "HARDWARE", [plan.hardware.name for plan in plans]
    yield "NODES", [f"{plan.nodes:,}" for plan in plans]
    yield "DEVICES", [f"{plan.devices:,}" for plan in plans]
    yield "REPLICAS", [f"{plan.replicas:,}" for plan in plans]
    yield "SPLIT", [_split_text(plan) for plan in plans]
    yield "FITS", [_fits_text(plan) for plan in plans]
    unit = "DOCUMENTS" if first.workload.model.is_encoder and not first.workload.is_training else "TOKENS"
    yield f"{unit}/S", [figures(plan.tokens_per_s) if plan.tokens_per_s else "unknown" for plan in plans]
    yield "80 % RANGE", [_range_text(plan.tokens_per_s_low, plan.tokens_per_s_high) for plan in plans]
    if first.users:
        yield "PER USER", [figures(plan.tokens_per_s_per_user) for plan in plans]
    if first.latency_s:
        yield "REQUEST S", [figures(plan.request_duration_s) for plan in plans]
    yield "LIMIT", [(plan.speed.limit if plan.speed else None) or "-" for plan in plans]
    if first.tokens:
        yield "HOURS", [figures(plan.work_hours) for plan in plans]
        yield "USD", [format_usd(plan.total_usd) for plan in plans]
    else:
        yield "USD/HOUR", [figures(plan.usd_per_hour) for plan in plans]
        yield "USD/MONTH", [format_usd(plan.usd_per_month) for plan in plans]
        yield f"USD/M {unit}", [figures(plan.usd_per_million_tokens) for plan in plans]
    yield "WATTS", [figures(plan.total_watts) for plan in plans]
    yield "PURCHASE", [_purchase_text(plan) for plan in plans]
    yield "AS OF", [_price_date(plan) for plan in plans]


def _fits_text(plan: SizingPlan) -> str:
    return "yes" if plan.is_feasible else "NO"


def _range_text(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{format_three_digits(low)}-{format_three_digits(high)}"


def _purchase_text(plan: SizingPlan) -> str:
    offer = plan.offer
    if offer is None or offer.usd_per_hour is None:
        if offer and offer.purchase == "owned":
            return "owned, no cost known"
        return "to buy, see below" if is_price_known(plan) else "no price known"
    return " ".join(text for text in (offer.purchase, offer.cloud, offer.region) if text)


def _price_date(plan: SizingPlan) -> str:
    if plan.offer is None or plan.offer.usd_per_hour is None:
        return "-"
    return plan.offer.as_of or "undated"


def _format_milliseconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{format_three_digits(seconds * 1000)} ms"


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
    if plan.workload.model.is_encoder and not plan.workload.is_training:
        batch_text = (
            f"{_format_streams(plan.workload)}: {_format_milliseconds(plan.request_duration_s)}; "
            if plan.workload.batch > 1
            else ""
        )
        yield (
            f"  one document alone: {_format_milliseconds(plan.time_to_first_token_s)}; "
            f"{batch_text}"
            f"engine {plan.engine.name}"
        )
    elif not plan.workload.is_training:
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


def _purchase_lines(result: SizingResult) -> Iterator[str]:
    """Yield what the hardware costs to buy, and after how many months rent has cost more."""
    options = result.purchases
    if not any(option.price for option in options) and not any(
        option.rent_usd_per_month for option in options
    ):
        return
    power = options[0].power_price
    where = f"{power.place} of {power.as_of}" if power.as_of else power.place
    yield f"Buy instead of rent, with power at {power.usd_per_kwh:g} USD/kWh ({where})"
    rows = [
        (
            f"  {option.units:,} x {option.name}" if option.units > 1 else f"  {option.name}",
            format_usd_range(option.usd_low, option.usd_high),
            format_usd(option.rent_usd_per_month),
            format_usd(option.power_usd_per_month),
            _break_even_text(option),
            option.price.as_of if option.price else "-",
        )
        for option in options
    ]
    header = ("  HARDWARE", "BUY USD", "RENT USD/MONTH", "POWER USD/MONTH", "PAID OFF AFTER", "AS OF")
    yield from format_table_lines(header, rows, {"  HARDWARE"}, ("POWER USD/MONTH", "AS OF"))
    for source in dict.fromkeys(option.price.source for option in options if option.price):
        yield f"    source: {source}"
    if any(option.price and option.price.unit == "card" for option in options):
        yield "    a card's price leaves out its server, network, space and staff (gpufleet cost tco counts them)"


def _break_even_text(option: PurchaseOption) -> str:
    if option.break_even_months is None:
        return "unknown" if option.rent_usd_per_month is None or option.price is None else "never"
    low, high = (format_three_digits(months) for months in option.break_even_months)
    return f"{low} months" if low == high else f"{low}-{high} months"


def format_table_lines(
    header: Row,
    rows: Sequence[Row],
    left_aligned: Collection[str] = LEFT_ALIGNED,
    optional: Sequence[str] = (),
) -> Iterator[str]:
    """Yield lines of a table: text columns left-aligned, figures right-aligned.

    On a narrow terminal the ``optional`` columns are left out, the first one first, and a last line names them.
    """
    yield from align_columns(header, rows, set(header).difference(left_aligned), optional)
