"""A comparison as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.catalog import HOURS_PER_MONTH
from gpufleet.sizing.compare.comparison import (
    AcceleratorComparison,
    ComparedAccelerator,
    dense_tera_ops_by_format,
)
from gpufleet.sizing.plans.formatting import (
    format_three_digits,
    format_usd,
    format_usd_range,
)
from gpufleet.sizing.plans.report import Row, format_table_lines
from gpufleet.sizing.workload import Workload

FACT_COLUMNS = (
    "ACCELERATOR", "GIB", "USABLE", "GB/S", "FP32", "FP16", "BF16", "FP8", "FP4", "INT8", "LINK", "LINK GB/S",
    "WATTS", "YEAR", "STACKS", "USD/HOUR", "USD/MONTH", "PURCHASE", "AS OF", "BUY USD", "BUY AS OF",
)  # fmt: skip
WORKLOAD_COLUMNS = (
    "ACCELERATOR", "DEVICES", "ENGINE", "BATCH", "TOKENS/S", "80 % RANGE", "LIMIT", "WATTS", "TOKENS/JOULE",
    "USD/HOUR", "USD/M TOKENS",
)  # fmt: skip
FACT_NOTE = (
    "Rates are dense, in 10^12 operations per second. USABLE: GiB that software can use. Prices: the cheapest",
    "known of one device in a cloud's machine, neither spot nor older than 180 days if there is one; a month has 730",
    "hours. BUY: one device without its server. '-' is unknown, never zero.",
)
LEFT_ALIGNED = {"ACCELERATOR", "LINK", "STACKS", "PURCHASE", "ENGINE", "LIMIT", "AS OF", "BUY AS OF"}
NARROW_ORDER = (
    "STACKS", "YEAR", "FP32", "INT8", "FP16", "FP4", "LINK GB/S", "LINK", "BUY AS OF", "WATTS", "USABLE", "AS OF",
    "USD/HOUR", "ENGINE", "LIMIT", "BATCH", "TOKENS/JOULE", "FP8", "BUY USD", "PURCHASE",
)  # fmt: skip


def format_comparison_report(comparison: AcceleratorComparison) -> str:
    """Return facts and speeds as text tables."""
    sections = [
        list(_fact_lines(comparison)),
        list(_workload_lines(comparison)),
        list(_unplaced_lines(comparison)),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def list_fact_rows(comparison: AcceleratorComparison) -> list[Row]:
    """Return a row of ``FACT_COLUMNS`` for each accelerator."""
    return [_fact_row(compared) for compared in comparison.accelerators]


def list_workload_rows(comparison: AcceleratorComparison) -> list[Row]:
    """Return a row of ``WORKLOAD_COLUMNS`` for each accelerator with a plan."""
    return [_workload_row(compared) for compared in comparison.accelerators if compared.plan]


def _fact_lines(comparison: AcceleratorComparison) -> Iterator[str]:
    yield from format_table_lines(FACT_COLUMNS, list_fact_rows(comparison), LEFT_ALIGNED, NARROW_ORDER)
    yield from ("", *FACT_NOTE)


def _fact_row(compared: ComparedAccelerator) -> tuple[str, ...]:
    accelerator, price = compared.accelerator, compared.cheapest_device_price
    to_buy = compared.purchase_price
    return (
        accelerator.name,
        f"{accelerator.memory_gib:g}",
        format_three_digits(accelerator.usable_gib),
        format_three_digits(accelerator.bandwidth_gb_s),
        *(format_three_digits(rate) for rate in dense_tera_ops_by_format(accelerator).values()),
        accelerator.link or (f"PCIe {accelerator.pcie_gen}" if accelerator.pcie_gen else "-"),
        format_three_digits(accelerator.link_gb_s),
        format_three_digits(accelerator.tdp_w),
        str(accelerator.launch_year or "-"),
        " ".join(accelerator.stacks) or "-",
        format_three_digits(price.usd_per_hour if price else None),
        format_usd(price.usd_per_hour * HOURS_PER_MONTH if price else None),
        f"{price.purchase} {price.cloud} {price.region}" if price else "-",
        (price.as_of or "undated") if price else "-",
        format_usd_range(to_buy.usd_low, to_buy.usd_high) if to_buy else "-",
        to_buy.as_of if to_buy else "-",
    )


def _workload_lines(comparison: AcceleratorComparison) -> Iterator[str]:
    if comparison.workload is None:
        return
    yield format_workload(comparison.workload)
    header: tuple[str, ...] = WORKLOAD_COLUMNS
    if comparison.workload.model.is_encoder and not comparison.workload.is_training:
        header = tuple(name.replace("TOKEN", "DOCUMENT") for name in header)
    yield from format_table_lines(header, list_workload_rows(comparison), LEFT_ALIGNED, NARROW_ORDER)


def format_workload(work: Workload) -> str:
    """Return what the accelerators are given to do."""
    length = f"{work.context_tokens:,}" if work.is_training else f"{work.input_tokens}/{work.output_tokens}"
    return (
        f"{work.model.name}: {work.task}, {work.precision}, {length} tokens, "
        "on the smallest number of devices that fits the model"
    )


def _workload_row(compared: ComparedAccelerator) -> tuple[str, ...]:
    plan, usd = compared.plan, compared.tokens_per_usd
    if plan is None:
        raise ValueError(f"{compared.accelerator.name} has no plan")
    return (
        compared.accelerator.name,
        str(plan.devices),
        plan.engine.name,
        str(plan.workload.batch),
        format_three_digits(plan.tokens_per_s),
        f"{format_three_digits(plan.tokens_per_s_low)}-{format_three_digits(plan.tokens_per_s_high)}",
        (plan.speed.limit if plan.speed else None) or "-",
        format_three_digits(plan.total_watts),
        format_three_digits(compared.tokens_per_joule),
        format_three_digits(compared.replica_usd_per_hour),
        format_three_digits(None if usd is None else 1e6 / usd),
    )


def list_unplaced(comparison: AcceleratorComparison) -> list[str]:
    """Return the accelerators that cannot hold the model, each with the reason."""
    return [
        f"{compared.accelerator.name}: {compared.rejection_reason}"
        for compared in comparison.accelerators
        if compared.rejection_reason
    ]


def _unplaced_lines(comparison: AcceleratorComparison) -> Iterator[str]:
    if unplaced := list_unplaced(comparison):
        yield "Not placed"
        yield from (f"  {line}" for line in unplaced)
