"""An answer for a terminal: plain text, legible without colour and at any width."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gpufleet.sizing.memory import Memory
from gpufleet.sizing.plans.result import Answer, Plan
from gpufleet.sizing.workload import Workload

Row = Sequence[str]
PARTS = ("weights", "gradients", "optimizer", "activations", "kv_cache", "overhead")
MUCH = 0.98  # of what is usable: less than that is worth a word
LEFT = {"HARDWARE", "BOUGHT", "LIMIT", "SPLIT"}


def report(answer: Answer) -> str:
    """Write what was asked, what it takes, the plans, and what is to be said of them."""
    sections = [
        [_headline(answer.workload)],
        list(_memory(answer)),
        list(_quick(answer)),
        list(_plans(answer)),
        list(_cautions(answer)),
        list(_prices(answer)),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _headline(workload: Workload) -> str:
    model = workload.model
    size = f"{model.parameters / 1e9:.3g} B parameters"
    if model.active_parameters < model.parameters:
        size += f", {model.active_parameters / 1e9:.3g} B active"
    streams = f"micro-batch {workload.batch} per device" if workload.trains else f"{workload.batch} streams"
    length = (
        f"{workload.context:,} tokens"
        if workload.trains
        else f"{workload.input_tokens}/{workload.output_tokens} tokens"
    )
    return f"{model.name} ({size}): {workload.task}, {workload.precision}, {length}, {streams}"


def _memory(answer: Answer) -> Iterator[str]:
    held: Memory = answer.memory
    best = answer.plans[0] if answer.plans else answer.closest
    where = f" on {best.hardware.name}" if best else ""
    yield f"Memory of one replica{where}: {held.total:,.1f} GiB"
    parts = [(name.replace("_", " "), getattr(held, name)) for name in PARTS]
    yield "  " + ", ".join(f"{name} {gib:,.2f}" for name, gib in parts if gib)
    state = "fits" if held.fits else "does not fit"
    filled = f", {held.room_gib:,.1f} by default" if 0 < held.room_gib < held.usable_gib * MUCH else ""
    usable = (
        f"{held.usable_gib:,.1f} GiB usable{filled}: {state}"
        if held.usable_gib > 0
        else "a chip: not applicable"
    )
    yield f"  fullest device: {held.per_device_gib:,.1f} of {usable}"
    for note in held.notes:
        yield f"  {note}"


def _quick(answer: Answer) -> Iterator[str]:
    quick = answer.quick
    yield f"Quick estimate: {quick.accelerators:.2g} accelerators ({quick.formula})"
    yield f"  it leaves out: {quick.leaves_out}"


def _plans(answer: Answer) -> Iterator[str]:
    if not answer.plans:
        yield f"No plan among {answer.considered} kinds of hardware."
        return
    yield from grid(_header(answer.plans[0]), [_row(plan) for plan in answer.plans])
    if len(answer.plans) == 1:
        yield from _details(answer.plans[0])


def _header(plan: Plan) -> Row:
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
        "BOUGHT",
    )


def _row(plan: Plan) -> Row:
    money = (plan.hours, plan.usd) if plan.tokens else (plan.usd_per_hour, plan.usd_per_million_tokens)
    speeds = f"{figure(plan.tokens_per_s_low)}-{figure(plan.tokens_per_s_high)}"
    offer = plan.offer
    bought = (
        " ".join(part for part in (offer.purchase, offer.cloud, offer.region) if part)
        if offer
        else "no price known"
    )
    return (
        plan.hardware.name,
        str(plan.nodes),
        str(plan.devices),
        str(plan.replicas),
        _split(plan),
        "yes" if plan.fits else "NO",
        figure(plan.tokens_per_s),
        speeds,
        (plan.speed.limit if plan.speed else None) or "-",
        *(figure(value) for value in money),
        figure(plan.watts),
        bought,
    )


def _split(plan: Plan) -> str:
    layout = plan.layout
    named = (("tensor", layout.tensor), ("layers", layout.pipeline), ("data", layout.data))
    shared = (
        f" by {layout.shards}" if layout.shards else ""
    )  # hybrid sharding: copies of so many devices each
    return (" x ".join(f"{name} {size}" for name, size in named if size > 1) or "-") + shared


def _details(plan: Plan) -> Iterator[str]:
    yield ""
    if not plan.workload.trains:
        first, prompt = plan.time_to_first_token_s, plan.prompt_tokens_per_s
        yield (
            f"  one stream: {figure(plan.per_stream)} tokens/s; prompts: {figure(prompt)} tokens/s; "
            f"first token after {figure(first)} s; engine {plan.engine}"
        )
    if plan.why_not:
        yield f"  can't run: {plan.why_not}"
    for note in plan.speed.notes if plan.speed else ():
        yield f"  {note}"


def _cautions(answer: Answer) -> Iterator[str]:
    if answer.cautions:
        yield "Warnings"
    for caution in answer.cautions:
        yield f"  {caution.code}: {caution.message}"
        if caution.source:
            yield f"    source: {caution.source}"


def _prices(answer: Answer) -> Iterator[str]:
    offers = {
        plan.offer.source: plan.offer for plan in answer.plans if plan.offer and plan.offer.usd_per_hour
    }
    if offers:
        yield "Prices"
    for offer in offers.values():
        yield f"  {offer.as_of or 'undated'}: {offer.source}"


def figure(value: float | None) -> str:
    """Write a figure with three digits that count."""
    if value is None:
        return "-"
    if value >= 100:  # noqa: PLR2004 - three digits before the point
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def grid(header: Row, rows: list[Row], left: Collection[str] = LEFT) -> Iterator[str]:
    """Line cells up in columns: words to the left, figures to the right."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(header))]
    for row in cells:
        shown = [
            text.ljust(width) if name in left else text.rjust(width)
            for text, width, name in zip(row, widths, header, strict=True)
        ]
        yield "  ".join(shown).rstrip()
