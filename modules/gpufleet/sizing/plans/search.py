"""The search itself: hardware in turn, plans of each, the best of them first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpufleet.errors import InputError
from gpufleet.sizing.hardware import Hardware, Layout, Offer
from gpufleet.sizing.hardware_resolver import Resolved, alternatives
from gpufleet.sizing.legality import blocked, judge
from gpufleet.sizing.memory import quick_estimate
from gpufleet.sizing.memory.quantization import is_gguf
from gpufleet.sizing.plan_warning import Caution
from gpufleet.sizing.plans import market
from gpufleet.sizing.plans.candidate import chosen, exactly
from gpufleet.sizing.plans.consistency import agree
from gpufleet.sizing.plans.ranking import key
from gpufleet.sizing.plans.request import Question
from gpufleet.sizing.plans.reserved_memory import reserved, shared
from gpufleet.sizing.plans.result import Answer, Plan
from gpufleet.sizing.plans.target import distance, missed

SHOWN_WITH_CAUTIONS = 5
TERMS = {"reserved_1y": 8760, "reserved_3y": 3 * 8760}  # hours
MOST_SHOWN = 64  # nodes of a plan that can't be
PREFERRED = ("owned", "on_demand", "spot", "reserved_1y", "reserved_3y")


def plan(question: Question) -> Answer:
    """Answer a question: one plan where hardware and number are given, else the best of all that may be had."""
    if not question.on:
        everything = [shared(each, question) for each in market.everything(question)]
        return _ranked(question, everything, tuple(reserved(question)))
    first: Answer | None = None
    for named in alternatives(question.on, question.root):
        found = _on(question, named)
        if any(plan.fits for plan in found.plans):
            return found
        first = first or found
    if first is None:
        raise ValueError(f"nothing stands for {question.on}")
    return first


def _on(question: Question, named: Resolved) -> Answer:
    agree(question, named.hardware)
    hardware = shared(market.with_offers(question, named.hardware), question)
    said = (*named.cautions, *reserved(question))
    if question.devices is not None:
        return _single(question, hardware, question.devices, said)
    return _ranked(question, [hardware], said)


def _single(question: Question, hardware: Hardware, devices: int, said: tuple[Caution, ...]) -> Answer:
    found = exactly(question, hardware, devices)
    cautions = (*said, *judge(found.workload, hardware, devices, found.layout, asked=question.on))
    stops = "; ".join(caution.message for caution in cautions if caution.blocks)
    offers = market.offers_for(question, found)
    found = replace(found, why_not=stops).bought(_preferred(offers))
    told = (*cautions, *_too_small(found), *missed(question, found), *_unpriced(question, (found,)))
    return _answer(question, (found,), told, 1)


def _ranked(question: Question, hardware: Iterable[Hardware], said: tuple[Caution, ...]) -> Answer:
    kinds = list(hardware)
    possible = [each for each in kinds if not _stopped(question, each)]
    found = [plan for each in possible for plan in _bought(question, each)]
    within = [each for each in found if _affordable(question, each)]
    order = key(question.rank)
    best = sorted(within, key=order)
    shown = tuple(_distinct(best)[: question.limit or None])
    if shown:
        return _answer(
            question,
            shown,
            (*said, *_cautions(question, shown), *_committed(shown), *_unpriced(question, shown)),
            len(kinds),
        )
    return _nothing(question, kinds, sorted(found, key=order), said)


def _bought(question: Question, hardware: Hardware) -> list[Plan]:
    """Return the best plan on that hardware, once for each way to buy it."""
    order = key(question.rank)
    best: dict[str, Plan] = {}
    for plan in chosen(question, hardware):
        offers: tuple[Offer | None, ...] = market.offers_for(question, plan) or (None,)
        for bought in (plan.bought(offer) for offer in offers):
            kind = bought.offer.purchase if bought.offer else ""
            if kind not in best or order(bought) < order(best[kind]):
                best[kind] = bought
    return list(best.values())


def _distinct(plans: list[Plan]) -> list[Plan]:
    seen: set[tuple[object, ...]] = set()
    kept = []
    for each in plans:
        bought = (each.offer.purchase, each.offer.cloud) if each.offer else ()
        mark = (each.hardware.name, each.devices, *bought)
        if mark not in seen:
            seen.add(mark)
            kept.append(each)
    return kept


def _affordable(question: Question, plan: Plan) -> bool:
    late = question.deadline_h is not None and (plan.hours is None or plan.hours > question.deadline_h)
    if question.budget_usd is None:
        return not late
    usd = plan.usd if plan.tokens else plan.usd_per_month
    return not late and usd is not None and usd <= question.budget_usd


def _stopped(question: Question, hardware: Hardware) -> bool:
    return blocked(question.workload, hardware, 1, Layout())


def _nothing(
    question: Question, kinds: list[Hardware], found: list[Plan], said: tuple[Caution, ...]
) -> Answer:
    """Answer that nothing meets what was asked, with what comes closest."""
    if not kinds:
        raise InputError(
            "nothing to choose from", where="size", remedy="widen --cloud, --region, --purchase or --owned"
        )
    if found and question.deadline_h and question.budget_usd:  # too late may be nearer than too dear
        slow = replace(question, deadline_h=None)
        found = [
            *found,
            *(plan for each in kinds if not _stopped(question, each) for plan in _bought(slow, each)),
        ]
    closest, text = _nearest(question, found) if found else _closest(question, kinds)
    cautions = (*said, Caution("nothing-suits", text, "", blocks=True))
    stopped = [each for each in kinds if _stopped(question, each)]
    if stopped and len(stopped) == len(kinds):
        cautions += tuple(judge(question.workload, stopped[0], 1, Layout(), asked=question.on))
    answer = _answer(question, (closest,), cautions, len(kinds))
    return replace(answer, plans=(), closest=closest)


def _closest(question: Question, kinds: list[Hardware]) -> tuple[Plan, str]:
    """Return what comes closest where targets are missed everywhere, or memory does not suffice; and which it is."""
    relaxed = replace(question, ttft_s=None, tpot_s=None, latency_s=None, requests_per_s=None)
    possible = [each for each in kinds if not _stopped(question, each)]
    found = [
        plan.bought(_preferred(market.offers_for(relaxed, plan)))
        for each in possible
        for plan in chosen(relaxed, each)  # not the cheapest of each: the one that comes closest
        if plan.per_stream
    ]
    if found:
        best, text = _nearest(question, found)
        return (
            best,
            f"none of {len(kinds)} kinds of hardware reaches what is asked; {text}{_advice(question)}",
        )
    largest = max(possible or kinds, key=lambda each: each.accelerator.memory_gib * each.devices_per_node)
    devices = largest.devices_per_node * min(largest.node_limit or 1, MOST_SHOWN)
    best = exactly(relaxed, largest, devices).bought(_preferred(largest.offers))
    return best, f"it fits on none of {len(kinds)} kinds of hardware"


def _nearest(question: Question, found: list[Plan]) -> tuple[Plan, str]:
    """Return the plan that misses its worst target by least, and by how much it misses which."""
    best = min(found, key=lambda plan: distance(question, plan))
    by = "; ".join(caution.message for caution in missed(question, best))
    bounds = {"the deadline": question.deadline_h, "the budget": question.budget_usd}
    given = [name for name, bound in bounds.items() if bound is not None]
    what = f"nothing is within {' and '.join(given)}: " if given else ""
    return best, f"{what}closest is {best.hardware.name} with {best.devices} devices: {by}"


def _advice(question: Question) -> str:
    gguf = is_gguf(question.workload.precision) and question.workload.engine is None
    return (
        "; GGUF files are split by layers, which adds memory, not speed: try --precision int4" if gguf else ""
    )


def _answer(
    question: Question, plans: tuple[Plan, ...], cautions: Iterable[Caution], considered: int
) -> Answer:
    best = plans[0]
    quick = quick_estimate(question.workload, best.hardware)
    return Answer(best.workload, best.memory, quick, plans, tuple(dict.fromkeys(cautions)), considered)


def _cautions(question: Question, plans: tuple[Plan, ...]) -> list[Caution]:
    """Return what is to be said of the first plans."""
    return [
        caution
        for each in plans[:SHOWN_WITH_CAUTIONS]
        for caution in judge(
            each.workload,
            each.hardware,
            each.layout.devices,
            each.layout,
            asked=question.on,
            used=each.devices,
        )
    ]


def _committed(plans: tuple[Plan, ...]) -> Iterator[Caution]:
    """Yield what a commitment really bills where the work is shorter than it."""
    for each in plans:
        term = TERMS.get(each.offer.purchase) if each.offer else None
        if term and each.hours is not None and each.hours < term:
            text = (
                f"{each.hardware.name}: a commitment bills {term:,} hours, used or not; "
                f"the dollars here are those of the work's {each.hours:,.0f} hours"
            )
            yield Caution(
                "commitment-outlasts-work", text, "reserved capacity bills around the clock (docs/cost.md)"
            )


def _unpriced(question: Question, plans: tuple[Plan, ...]) -> Iterator[Caution]:
    """Yield that nothing is known to be sold in the way that was asked for."""
    if question.constrained and any(each.offer is None for each in plans):
        asked = (*question.clouds, *question.regions, *question.purchases)
        name = next(each.hardware.name for each in plans if each.offer is None)
        yield Caution("no-price", f"no price of {name} is known for {', '.join(asked)}", "gpufleet prices")


def _too_small(plan: Plan) -> list[Caution]:
    if plan.memory.fits:
        return []
    held, usable, room = plan.memory.per_device_gib, plan.memory.usable_gib, plan.memory.room_gib
    if usable <= 0:
        chip = plan.hardware.accelerator.memory_gib
        text = f"not applicable to {plan.hardware.name}: {chip:g} GB on a chip hold less than a runtime takes"
    else:
        text = f"{held:.1f} GiB on the fullest device of {plan.hardware.name}, {usable:.1f} GiB are usable"
    if 0 < room < held <= usable:
        text += f", of which {plan.engine} fills {room:.1f} as it is set by default"
    return [Caution("does-not-fit", text, "gpufleet's own memory estimate", blocks=True)]


def _preferred(offers: tuple[Offer, ...]) -> Offer | None:
    """Return the offer to plan with where no kind of purchase was asked for."""
    return min(offers, key=lambda offer: PREFERRED.index(offer.purchase), default=None)
