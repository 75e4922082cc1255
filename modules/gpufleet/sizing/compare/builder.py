"""From names and a workload to a comparison."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet import catalog
from gpufleet.catalog import Accelerator
from gpufleet.errors import InputError
from gpufleet.sizing.compare.comparison import Comparison, DevicePrice, Subject
from gpufleet.sizing.compare.selection import chosen
from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.legality import judge
from gpufleet.sizing.node_hardware import of_part
from gpufleet.sizing.plans import Plan, Question
from gpufleet.sizing.plans.candidate import chosen as plans_on
from gpufleet.sizing.plans.placement import place


def compare(names: Iterable[str] = (), question: Question | None = None) -> Comparison:
    """Compare those accelerators, or the usual ones; with a question, by what they do for its workload."""
    parts = chosen(names)
    prices = _cheapest({part.name for part in parts})
    subjects = tuple(_subject(part, tuple(prices.get(part.name, ())), question) for part in parts)
    return Comparison(subjects, question.workload if question else None)


def _subject(part: Accelerator, prices: tuple[DevicePrice, ...], question: Question | None) -> Subject:
    if question is None:
        return Subject(part, prices)
    hardware = of_part(part)
    stops = "; ".join(c.message for c in judge(question.workload, hardware, 1, Layout()) if c.blocks)
    if stops:
        return Subject(part, prices, why_not=stops)
    plan = next(iter(plans_on(question, hardware)), None)
    why_not = _why_not(question, hardware, plan)
    return Subject(part, prices, None if why_not else plan, why_not)


def _why_not(question: Question, hardware: Hardware, plan: Plan | None) -> str:
    if plan is None:
        one = place(question.workload, hardware, 1).memory
        return (
            f"fits on no number of them that an engine can use: {one.total:.0f} GiB against "
            f"{max(one.usable_gib, 0.0):.1f} GiB of each"
        )
    if plan.tokens_per_s is None:
        return "; ".join(plan.speed.notes if plan.speed else ()) or "its speed is not known"
    return ""


def _cheapest(names: set[str]) -> dict[str, list[DevicePrice]]:
    """Return the cheapest price of one whole device, for each accelerator and purchase kind; cheapest first."""
    found: dict[str, dict[str, DevicePrice]] = {}
    for offer in catalog.offers(by="accelerator"):
        for carried in offer.machine.accelerators[:1]:
            if carried.model not in names or carried.share != 1.0:
                continue
            usd, price = offer.price.usd_per_hour / carried.count, offer.price
            found.setdefault(carried.model, {}).setdefault(
                offer.purchase,
                DevicePrice(
                    usd, offer.purchase, offer.machine.cloud, offer.region, offer.machine.name,
                    price.as_of, price.source,
                ),
            )  # fmt: skip
    return {name: list(kinds.values()) for name, kinds in found.items()}


def require_work(comparison: Comparison, what: str) -> None:
    """Refuse what can only be said of a workload."""
    if comparison.workload is None:
        raise InputError(f"{what} needs a workload", where="--plot", remedy="give --model")
