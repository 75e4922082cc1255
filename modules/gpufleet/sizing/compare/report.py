"""A comparison for a terminal: plain text, legible without colour."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.sizing.compare.comparison import Comparison, Subject, rates
from gpufleet.sizing.plans.report import figure, grid

FACTS = (
    "ACCELERATOR", "GIB", "USABLE", "GB/S", "FP32", "FP16", "BF16", "FP8", "FP4", "INT8", "LINK", "LINK GB/S",
    "WATTS", "YEAR", "RUNS", "USD/HOUR", "BOUGHT", "AS OF",
)  # fmt: skip
WORK = (
    "ACCELERATOR", "DEVICES", "ENGINE", "BATCH", "TOKENS/S", "80 % RANGE", "LIMIT", "WATTS", "TOKENS/JOULE",
    "USD/HOUR", "USD/M TOKENS",
)  # fmt: skip
LEFT = {"ACCELERATOR", "LINK", "RUNS", "BOUGHT", "ENGINE", "LIMIT", "AS OF"}


def report(comparison: Comparison) -> str:
    """Write the facts, and what the parts do for the workload."""
    sections = [list(_facts(comparison)), list(_work(comparison)), list(_left_out(comparison))]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _facts(comparison: Comparison) -> Iterator[str]:
    yield from grid(FACTS, [_fact_row(subject) for subject in comparison.subjects], LEFT)
    yield ""
    yield "Rates are dense, in 10^12 operations per second. USABLE: GiB that software can take. Prices: the cheapest"
    yield "known of one device in a cloud's machine; '-' is unknown, never zero."


def _fact_row(subject: Subject) -> tuple[str, ...]:
    part, price = subject.part, subject.price
    return (
        part.name,
        f"{part.memory_gib:g}",
        figure(part.usable_gib),
        figure(part.bandwidth_gb_s),
        *(figure(rate) for rate in rates(part).values()),
        part.link or (f"PCIe {part.pcie_gen}" if part.pcie_gen else "-"),
        figure(part.link_gb_s),
        figure(part.tdp_w),
        str(part.launch_year or "-"),
        " ".join(part.stacks) or "-",
        figure(price.usd_per_hour if price else None),
        f"{price.purchase} {price.cloud} {price.region}" if price else "-",
        (price.as_of or "undated") if price else "-",
    )


def _work(comparison: Comparison) -> Iterator[str]:
    work = comparison.workload
    if work is None:
        return
    length = f"{work.context:,}" if work.trains else f"{work.input_tokens}/{work.output_tokens}"
    yield f"{work.model.name}: {work.task}, {work.precision}, {length} tokens, on the fewest devices that hold it"
    yield from grid(WORK, [_work_row(each) for each in comparison.subjects if each.plan], LEFT)


def _work_row(subject: Subject) -> tuple[str, ...]:
    plan, usd = subject.plan, subject.tokens_per_usd
    if plan is None:
        raise ValueError(f"{subject.part.name} has no plan")
    return (
        subject.part.name,
        str(plan.devices),
        plan.engine,
        str(plan.workload.batch),
        figure(plan.tokens_per_s),
        f"{figure(plan.tokens_per_s_low)}-{figure(plan.tokens_per_s_high)}",
        (plan.speed.limit if plan.speed else None) or "-",
        figure(plan.watts),
        figure(subject.tokens_per_joule),
        figure(subject.usd_per_hour),
        figure(None if usd is None else 1e6 / usd),
    )


def _left_out(comparison: Comparison) -> Iterator[str]:
    without = [each for each in comparison.subjects if each.why_not]
    if without:
        yield "Not placed"
    for each in without:
        yield f"  {each.part.name}: {each.why_not}"
