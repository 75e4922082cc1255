"""The search itself: hardware in turn, plans of each, the best of them first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpufleet.errors import InputError
from gpufleet.sizing.hardware import Hardware, Layout, Offer
from gpufleet.sizing.hardware_resolver import ResolvedHardware, resolve_alternatives
from gpufleet.sizing.legality import check_placement, is_blocked
from gpufleet.sizing.memory import quick_estimate
from gpufleet.sizing.memory.quantization import is_gguf
from gpufleet.sizing.plan_warning import PlanWarning
from gpufleet.sizing.plans import market
from gpufleet.sizing.plans.candidate import candidate_plans, plan_on_devices
from gpufleet.sizing.plans.consistency import check_request_fits_hardware
from gpufleet.sizing.plans.ranking import sort_key
from gpufleet.sizing.plans.request import SizingRequest
from gpufleet.sizing.plans.reserved_memory import reserved_memory_warnings, subtract_reserved_memory
from gpufleet.sizing.plans.result import Plan, SizingResult
from gpufleet.sizing.plans.target import missed_target_warnings, worst_target_ratio

PLANS_WITH_WARNINGS = 5
TERM_HOURS = {"reserved_1y": 8760, "reserved_3y": 3 * 8760}  # hours
MAX_CLOSEST_NODES = 64  # nodes of a plan that can't be
PURCHASE_PREFERENCE = ("owned", "on_demand", "spot", "reserved_1y", "reserved_3y")


def find_plans(question: SizingRequest) -> SizingResult:
    """Answer a question: one plan where hardware and number are given, else the best of all that may be had."""
    if not question.on:
        everything = [subtract_reserved_memory(each, question) for each in market.list_hardware(question)]
        return _rank_plans(question, everything, tuple(reserved_memory_warnings(question)))
    first: SizingResult | None = None
    for named in resolve_alternatives(question.on, question.root):
        found = _plan_named_hardware(question, named)
        if any(plan.fits for plan in found.plans):
            return found
        first = first or found
    if first is None:
        raise ValueError(f"nothing stands for {question.on}")
    return first


def _plan_named_hardware(question: SizingRequest, named: ResolvedHardware) -> SizingResult:
    check_request_fits_hardware(question, named.hardware)
    hardware = subtract_reserved_memory(market.add_offers(question, named.hardware), question)
    said = (*named.warnings, *reserved_memory_warnings(question))
    if question.devices is not None:
        return _plan_exact_devices(question, hardware, question.devices, said)
    return _rank_plans(question, [hardware], said)


def _plan_exact_devices(
    question: SizingRequest, hardware: Hardware, devices: int, said: tuple[PlanWarning, ...]
) -> SizingResult:
    found = plan_on_devices(question, hardware, devices)
    cautions = (*said, *check_placement(found.workload, hardware, devices, found.layout, asked=question.on))
    stops = "; ".join(caution.message for caution in cautions if caution.is_blocking)
    offers = market.list_plan_offers(question, found)
    found = replace(found, why_not=stops).with_offer(_default_offer(offers))
    told = (
        *cautions,
        *_memory_warnings(found),
        *missed_target_warnings(question, found),
        *_missing_price_warnings(question, (found,)),
    )
    return _build_result(question, (found,), told, 1)


def _rank_plans(
    question: SizingRequest, hardware: Iterable[Hardware], said: tuple[PlanWarning, ...]
) -> SizingResult:
    kinds = list(hardware)
    possible = [each for each in kinds if not _is_hardware_blocked(question, each)]
    found = [plan for each in possible for plan in _best_plan_per_purchase(question, each)]
    within = [each for each in found if _is_within_deadline_and_budget(question, each)]
    order = sort_key(question.rank)
    best = sorted(within, key=order)
    shown = tuple(_drop_duplicates(best)[: question.limit or None])
    if shown:
        return _build_result(
            question,
            shown,
            (
                *said,
                *_placement_warnings(question, shown),
                *_commitment_warnings(shown),
                *_missing_price_warnings(question, shown),
            ),
            len(kinds),
        )
    return _build_empty_result(question, kinds, sorted(found, key=order), said)


def _best_plan_per_purchase(question: SizingRequest, hardware: Hardware) -> list[Plan]:
    """Return the best plan on that hardware, once for each way to buy it."""
    order = sort_key(question.rank)
    best: dict[str, Plan] = {}
    for plan in candidate_plans(question, hardware):
        offers: tuple[Offer | None, ...] = market.list_plan_offers(question, plan) or (None,)
        for bought in (plan.with_offer(offer) for offer in offers):
            kind = bought.offer.purchase if bought.offer else ""
            if kind not in best or order(bought) < order(best[kind]):
                best[kind] = bought
    return list(best.values())


def _drop_duplicates(plans: list[Plan]) -> list[Plan]:
    seen: set[tuple[object, ...]] = set()
    kept = []
    for each in plans:
        bought = (each.offer.purchase, each.offer.cloud) if each.offer else ()
        mark = (each.hardware.name, each.devices, *bought)
        if mark not in seen:
            seen.add(mark)
            kept.append(each)
    return kept


def _is_within_deadline_and_budget(question: SizingRequest, plan: Plan) -> bool:
    late = question.deadline_h is not None and (plan.hours is None or plan.hours > question.deadline_h)
    if question.budget_usd is None:
        return not late
    usd = plan.usd if plan.tokens else plan.usd_per_month
    return not late and usd is not None and usd <= question.budget_usd


def _is_hardware_blocked(question: SizingRequest, hardware: Hardware) -> bool:
    return is_blocked(question.workload, hardware, 1, Layout())


def _build_empty_result(
    question: SizingRequest, kinds: list[Hardware], found: list[Plan], said: tuple[PlanWarning, ...]
) -> SizingResult:
    """Answer that nothing meets what was asked, with what comes closest."""
    if not kinds:
        raise InputError(
            "nothing to choose from", where="size", remedy="widen --cloud, --region, --purchase or --owned"
        )
    if found and question.deadline_h and question.budget_usd:  # too late may be nearer than too dear
        slow = replace(question, deadline_h=None)
        found = [
            *found,
            *(
                plan
                for each in kinds
                if not _is_hardware_blocked(question, each)
                for plan in _best_plan_per_purchase(slow, each)
            ),
        ]
    closest, text = _find_nearest_miss(question, found) if found else _find_closest_plan(question, kinds)
    cautions = (*said, PlanWarning("nothing-suits", text, "", is_blocking=True))
    stopped = [each for each in kinds if _is_hardware_blocked(question, each)]
    if stopped and len(stopped) == len(kinds):
        cautions += tuple(check_placement(question.workload, stopped[0], 1, Layout(), asked=question.on))
    answer = _build_result(question, (closest,), cautions, len(kinds))
    return replace(answer, plans=(), closest=closest)


def _find_closest_plan(question: SizingRequest, kinds: list[Hardware]) -> tuple[Plan, str]:
    """Return what comes closest where targets are missed everywhere, or memory does not suffice; and which it is."""
    relaxed = replace(question, ttft_s=None, tpot_s=None, latency_s=None, requests_per_s=None)
    possible = [each for each in kinds if not _is_hardware_blocked(question, each)]
    found = [
        plan.with_offer(_default_offer(market.list_plan_offers(relaxed, plan)))
        for each in possible
        for plan in candidate_plans(relaxed, each)  # not the cheapest of each: the one that comes closest
        if plan.per_stream
    ]
    if found:
        best, text = _find_nearest_miss(question, found)
        return (
            best,
            f"none of {len(kinds)} kinds of hardware reaches what is asked; {text}{_gguf_advice(question)}",
        )
    largest = max(possible or kinds, key=lambda each: each.accelerator.memory_gib * each.devices_per_node)
    devices = largest.devices_per_node * min(largest.node_limit or 1, MAX_CLOSEST_NODES)
    best = plan_on_devices(relaxed, largest, devices).with_offer(_default_offer(largest.offers))
    return best, f"it fits on none of {len(kinds)} kinds of hardware"


def _find_nearest_miss(question: SizingRequest, found: list[Plan]) -> tuple[Plan, str]:
    """Return the plan that misses its worst target by least, and by how much it misses which."""
    best = min(found, key=lambda plan: worst_target_ratio(question, plan))
    by = "; ".join(caution.message for caution in missed_target_warnings(question, best))
    bounds = {"the deadline": question.deadline_h, "the budget": question.budget_usd}
    given = [name for name, bound in bounds.items() if bound is not None]
    what = f"nothing is within {' and '.join(given)}: " if given else ""
    return best, f"{what}closest is {best.hardware.name} with {best.devices} devices: {by}"


def _gguf_advice(question: SizingRequest) -> str:
    gguf = is_gguf(question.workload.precision) and question.workload.engine is None
    return (
        "; GGUF files are split by layers, which adds memory, not speed: try --precision int4" if gguf else ""
    )


def _build_result(
    question: SizingRequest, plans: tuple[Plan, ...], cautions: Iterable[PlanWarning], considered: int
) -> SizingResult:
    best = plans[0]
    quick = quick_estimate(question.workload, best.hardware)
    return SizingResult(best.workload, best.memory, quick, plans, tuple(dict.fromkeys(cautions)), considered)


def _placement_warnings(question: SizingRequest, plans: tuple[Plan, ...]) -> list[PlanWarning]:
    """Return what is to be said of the first plans."""
    return [
        caution
        for each in plans[:PLANS_WITH_WARNINGS]
        for caution in check_placement(
            each.workload,
            each.hardware,
            each.layout.devices,
            each.layout,
            asked=question.on,
            used=each.devices,
        )
    ]


def _commitment_warnings(plans: tuple[Plan, ...]) -> Iterator[PlanWarning]:
    """Yield what a commitment really bills where the work is shorter than it."""
    for each in plans:
        term = TERM_HOURS.get(each.offer.purchase) if each.offer else None
        if term and each.hours is not None and each.hours < term:
            text = (
                f"{each.hardware.name}: a commitment bills {term:,} hours, used or not; "
                f"the dollars here are those of the work's {each.hours:,.0f} hours"
            )
            yield PlanWarning(
                "commitment-outlasts-work", text, "reserved capacity bills around the clock (docs/cost.md)"
            )


def _missing_price_warnings(question: SizingRequest, plans: tuple[Plan, ...]) -> Iterator[PlanWarning]:
    """Yield that nothing is known to be sold in the way that was asked for."""
    if question.is_constrained and any(each.offer is None for each in plans):
        asked = (*question.clouds, *question.regions, *question.purchases)
        name = next(each.hardware.name for each in plans if each.offer is None)
        yield PlanWarning(
            "no-price", f"no price of {name} is known for {', '.join(asked)}", "gpufleet prices"
        )


def _memory_warnings(plan: Plan) -> list[PlanWarning]:
    if plan.memory.fits:
        return []
    held, usable, room = plan.memory.per_device_gib, plan.memory.usable_gib, plan.memory.available_gib
    if usable <= 0:
        chip = plan.hardware.accelerator.memory_gib
        text = f"not applicable to {plan.hardware.name}: {chip:g} GB on a chip hold less than a runtime takes"
    else:
        text = f"{held:.1f} GiB on the fullest device of {plan.hardware.name}, {usable:.1f} GiB are usable"
    if 0 < room < held <= usable:
        text += f", of which {plan.engine} fills {room:.1f} as it is set by default"
    return [PlanWarning("does-not-fit", text, "gpufleet's own memory estimate", is_blocking=True)]


def _default_offer(offers: tuple[Offer, ...]) -> Offer | None:
    """Return the offer to plan with where no kind of purchase was asked for."""
    return min(offers, key=lambda offer: PURCHASE_PREFERENCE.index(offer.purchase), default=None)
