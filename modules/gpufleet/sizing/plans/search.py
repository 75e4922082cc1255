"""Search: candidate plans of every permitted hardware, ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from gpufleet.errors import InputError
from gpufleet.progress import report_step
from gpufleet.sizing.hardware import Hardware, HardwareOffer
from gpufleet.sizing.memory.quantization import is_gguf_precision
from gpufleet.sizing.memory.rule_of_thumb import estimate_device_count
from gpufleet.sizing.owned_hardware import list_unusable_hardware
from gpufleet.sizing.placement_rules import PlacementCase, check_placement, is_placement_blocked
from gpufleet.sizing.plan_warning import PlanWarning
from gpufleet.sizing.plans import available_hardware
from gpufleet.sizing.plans.candidate import build_plan_on_devices, list_candidate_plans
from gpufleet.sizing.plans.consistency import check_request_allows_hardware
from gpufleet.sizing.plans.dependability import is_stale, serving_rank, stale_price_warnings
from gpufleet.sizing.plans.model_warning import list_model_warnings
from gpufleet.sizing.plans.placement import find_smallest_placement
from gpufleet.sizing.plans.purchase import list_purchase_options
from gpufleet.sizing.plans.ranking import Key, build_plan_sort_key
from gpufleet.sizing.plans.recommendation import recommend_exact_plan, recommend_ranked_plan
from gpufleet.sizing.plans.request import SizingRequest
from gpufleet.sizing.plans.reserved_memory import reserved_memory_warnings, subtract_reserved_memory
from gpufleet.sizing.plans.result import SizingPlan, SizingResult
from gpufleet.sizing.plans.target import missed_target_warnings, worst_target_ratio
from gpufleet.sizing.workload import Workload

if TYPE_CHECKING:
    from gpufleet.sizing.hardware_resolver import ResolvedHardware

PLANS_WITH_WARNINGS = 5
UNRANKED = "not-ranked"
WITHOUT_SPEED = ("not-modelled", "unknown-rate")  # what an estimate says of it means nothing
TERM_HOURS = {"reserved_1y": 8760, "reserved_3y": 3 * 8760}  # hours
MAX_CLOSEST_NODES = 64  # nodes of a plan that cannot run
PURCHASE_PREFERENCE = ("owned", "on_demand", "spot", "reserved_1y", "reserved_3y")


def find_plans(request: SizingRequest) -> SizingResult:
    """Return one plan if hardware and device count are given, else the best plans of all permitted hardware."""
    if not request.hardware_names:
        hardware = [
            subtract_reserved_memory(hardware, request)
            for hardware in available_hardware.list_offered_hardware(request)
        ]
        bare = available_hardware.BareAccelerators(request)
        report_step(f"placing {request.workload.model.name} on {len(hardware) + len(bare)} kinds of hardware")
        warnings = (*reserved_memory_warnings(request), *_unusable_hardware_warnings(request))
        return _rank_plans(request, hardware, warnings, bare)
    from gpufleet.sizing.hardware_resolver import resolve_hardware_alternatives  # only for named hardware

    if len(request.hardware_names) > 1:
        return _compare_named_hardware(request)
    alternatives = resolve_hardware_alternatives(request.hardware_names[0], request.project_root)
    is_open = request.devices is None and not request.sizes.is_given
    if is_open and not alternatives[0].warnings:  # several are the kinds of nodes of one rack
        kinds = [_find_permitted(request, each.hardware) for each in alternatives]
        return _rank_plans(request, kinds, tuple(reserved_memory_warnings(request)))
    first: SizingResult | None = None
    for resolved in alternatives:
        result = _plan_named_hardware(request, resolved)
        if any(plan.is_feasible for plan in result.plans):
            return result
        first = first or result
    if first is None:
        raise ValueError(f"no hardware found for {request.hardware_names[0]}")
    return first


def _compare_named_hardware(request: SizingRequest) -> SizingResult:
    """Return the plans of several named kinds of hardware in one ranking; with a device count one plan of each."""
    kinds: list[Hardware] = []
    from gpufleet.sizing.hardware_resolver import resolve_hardware_alternatives

    warnings: list[PlanWarning] = [*reserved_memory_warnings(request)]
    for name in request.hardware_names:
        alternatives = resolve_hardware_alternatives(name, request.project_root)
        if alternatives[0].warnings:  # a retired machine: its first substitute
            alternatives = alternatives[:1]
        kinds += [_find_permitted(request, each.hardware) for each in alternatives]
        warnings += [warning for each in alternatives for warning in each.warnings]
    if request.devices is None:
        return _rank_plans(request, kinds, tuple(warnings))
    results = [_plan_exact_devices(request, hardware, request.devices, ()) for hardware in kinds]
    plans = tuple(sorted((result.plans[0] for result in results), key=_sort_key(request)))
    warnings += [warning for result in results for warning in result.warnings]
    result = _build_result(request, plans, warnings, len(kinds))
    return replace(result, recommendation=recommend_ranked_plan(request, plans, len(kinds)))


def _sort_key(request: SizingRequest) -> Callable[[SizingPlan], tuple[float, ...]]:
    return build_plan_sort_key(request.rank, partial(serving_rank, request))


def _find_permitted(request: SizingRequest, hardware: Hardware) -> Hardware:
    """Return named hardware with its permitted offers, less reserved memory; InputError if options exclude it."""
    check_request_allows_hardware(request, hardware)
    if request.host_name or request.slot_name:
        from gpufleet.sizing.card_host import attach_card  # few ask for it

        hardware = attach_card(hardware, request.host_name, request.slot_name)
    return subtract_reserved_memory(available_hardware.with_permitted_offers(request, hardware), request)


def _plan_named_hardware(request: SizingRequest, resolved: ResolvedHardware) -> SizingResult:
    hardware = _find_permitted(request, resolved.hardware)
    warnings = (*resolved.warnings, *reserved_memory_warnings(request))
    devices = request.devices or (request.sizes.devices if request.sizes.is_given else None)
    if devices is not None:
        return _plan_exact_devices(request, hardware, devices, warnings)
    return _rank_plans(request, [hardware], warnings)


def _plan_exact_devices(
    request: SizingRequest, hardware: Hardware, devices: int, warnings: tuple[PlanWarning, ...]
) -> SizingResult:
    plan = build_plan_on_devices(request, hardware, devices)
    case = PlacementCase(plan.workload, hardware, devices, plan.layout, plan.engine, request.typed_name)
    placement_warnings = (*warnings, *check_placement(case))
    reasons = "; ".join(warning.message for warning in placement_warnings if warning.is_blocking)
    if any(warning.code in WITHOUT_SPEED for warning in placement_warnings):
        plan = replace(plan, speed=None, requests_per_s=None)
    offers = available_hardware.list_plan_offers(request, plan)
    plan = replace(plan, rejection_reason=reasons).with_offer(_default_offer(request, offers))
    all_warnings = (
        *placement_warnings,
        *_memory_warnings(plan),
        *missed_target_warnings(request, plan),
        *_missing_price_warnings(request, (plan,)),
        *stale_price_warnings(request, (plan,)),
    )
    result = _build_result(request, (plan,), all_warnings, 1)
    return replace(result, recommendation=recommend_exact_plan(request, plan))


def _rank_plans(
    request: SizingRequest,
    hardware: Sequence[Hardware],
    warnings: tuple[PlanWarning, ...],
    unpriced: Sequence[Hardware] = (),
) -> SizingResult:
    """Return the best plans on the hardware, and on ``unpriced`` if a plan on it can be among them."""
    order = _compute_once(_sort_key(request))
    plans = _plan_kinds(request, hardware)
    if not _has_enough_plans(request, plans, order):
        plans += _plan_kinds(request, unpriced)
    affordable = [plan for plan in plans if _is_within_deadline_and_budget(request, plan)]
    best = sorted(affordable, key=order)
    top_plans = tuple(_drop_duplicates(best)[: request.max_plans or None])
    if top_plans:
        result = _build_result(
            request,
            top_plans,
            (
                *warnings,
                *_placement_warnings(request, top_plans),
                *_commitment_warnings(top_plans),
                *_missing_price_warnings(request, top_plans),
                *_unranked_hardware_warnings(request, hardware, affordable, top_plans),
                *stale_price_warnings(request, top_plans),
            ),
            len(hardware) + len(unpriced),
        )
        recommendation = recommend_ranked_plan(request, best, len(hardware) + len(unpriced))
        return replace(result, recommendation=recommendation)
    kinds = [*hardware, *unpriced]
    return _build_empty_result(request, kinds, sorted(plans, key=order), warnings)


def _compute_once(order: Callable[[SizingPlan], Key]) -> Callable[[SizingPlan], Key]:
    """Return the sort key that computes the key of each plan once, while the plans are kept."""
    keys: dict[int, tuple[SizingPlan, Key]] = {}

    def find_key(plan: SizingPlan) -> Key:
        if id(plan) not in keys:
            keys[id(plan)] = (plan, order(plan))
        return keys[id(plan)][1]

    return find_key


def _plan_kinds(request: SizingRequest, kinds: Iterable[Hardware]) -> list[SizingPlan]:
    """Return the best plan of each kind of hardware and purchase kind."""
    return [
        plan
        for hardware in kinds
        if not _is_hardware_blocked(request, hardware)
        for plan in _best_plan_per_purchase(request, hardware)
    ]


def _has_enough_plans(
    request: SizingRequest, plans: list[SizingPlan], order: Callable[[SizingPlan], Key]
) -> bool:
    """Return whether the plans to show all rank before any plan without a price, so that those need no estimate.

    Two of three kinds are accelerators that no cloud rents: placing a model on them takes most of the time.
    """
    if not (plans and request.rank == "cost" and request.max_plans):
        return False
    unpriced_key = order(plans[0].with_offer(None))
    if inf not in unpriced_key or not plans[0].tokens_per_s:
        return False
    bound = unpriced_key[
        : unpriced_key.index(inf) + 1
    ]  # every plan without a price has this key, or a larger one
    better = [plan for plan in plans if order(plan) < bound and _is_within_deadline_and_budget(request, plan)]
    return len(_drop_duplicates(better)) >= request.max_plans


def _best_plan_per_purchase(request: SizingRequest, hardware: Hardware) -> list[SizingPlan]:
    """Return the best plan on that hardware for each purchase kind."""
    order = _sort_key(request)
    best: dict[str, SizingPlan] = {}
    for plan in list_candidate_plans(request, hardware):
        offers: tuple[HardwareOffer | None, ...] = available_hardware.list_plan_offers(request, plan) or (
            None,
        )
        for priced in (plan.with_offer(offer) for offer in offers):
            kind = priced.offer.purchase if priced.offer else ""
            if kind not in best or order(priced) < order(best[kind]):
                best[kind] = priced
    return list(best.values())


def _drop_duplicates(plans: list[SizingPlan]) -> list[SizingPlan]:
    seen: set[tuple[object, ...]] = set()
    unique = []
    for plan in plans:
        purchase_key = (plan.offer.purchase, plan.offer.cloud) if plan.offer else ()
        identity = (plan.hardware.name, plan.devices, *purchase_key)
        if identity not in seen:
            seen.add(identity)
            unique.append(plan)
    return unique


def _is_within_deadline_and_budget(request: SizingRequest, plan: SizingPlan) -> bool:
    late = request.deadline_h is not None and (
        plan.work_hours is None or plan.work_hours > request.deadline_h
    )
    if request.budget_usd is None:
        return not late
    usd = plan.total_usd if plan.tokens else plan.usd_per_month
    return not late and usd is not None and usd <= request.budget_usd


def _is_hardware_blocked(request: SizingRequest, hardware: Hardware) -> bool:
    return is_placement_blocked(PlacementCase.on_one_device(request.workload, hardware))


def _build_empty_result(
    request: SizingRequest, kinds: list[Hardware], plans: list[SizingPlan], warnings: tuple[PlanWarning, ...]
) -> SizingResult:
    """Return a result without plans, with the closest plan."""
    if not kinds:
        unusable = "; ".join(warning.message for warning in warnings if warning.code == UNRANKED)
        raise InputError(
            unusable or "no hardware matches the options",
            where="size",
            remedy="allow more with --cloud, --region, --purchase or --owned",
        )
    if (
        plans and request.deadline_h and request.budget_usd
    ):  # a plan that is late may be closer than one that is too expensive
        without_deadline = replace(request, deadline_h=None)
        plans = [
            *plans,
            *(
                plan
                for hardware in kinds
                if not _is_hardware_blocked(request, hardware)
                for plan in _best_plan_per_purchase(without_deadline, hardware)
            ),
        ]
    closest, text = _find_nearest_miss(request, plans) if plans else _find_closest_plan(request, kinds)
    all_warnings = (*warnings, PlanWarning("no-plan", text, "", is_blocking=True))
    blocked = [hardware for hardware in kinds if _is_hardware_blocked(request, hardware)]
    if blocked and len(blocked) == len(kinds):
        all_warnings += tuple(_list_placement_warnings(request, blocked[0]))
    result = _build_result(request, (closest,), all_warnings, len(kinds))
    return replace(result, plans=(), closest_plan=closest)


def _find_closest_plan(request: SizingRequest, kinds: list[Hardware]) -> tuple[SizingPlan, str]:
    """Return the closest plan if all miss the targets or memory does not suffice, and a text that says which."""
    relaxed = _without_targets(request)
    possible = [hardware for hardware in kinds if not _is_hardware_blocked(request, hardware)]
    plans = [
        plan.with_offer(_default_offer(request, available_hardware.list_plan_offers(relaxed, plan)))
        for hardware in possible
        for plan in list_candidate_plans(
            relaxed, hardware
        )  # the closest plan of each hardware, not the cheapest
        if plan.tokens_per_s_per_stream
    ]
    if plans:
        best, text = _find_nearest_miss(request, plans)
        return (
            best,
            f"none of {len(kinds)} kinds of hardware reaches the targets; {text}{_gguf_advice(request)}",
        )
    largest = max(
        possible or kinds, key=lambda hardware: hardware.accelerator.memory_gib * hardware.devices_per_node
    )
    devices = largest.devices_per_node * min(largest.node_limit or 1, MAX_CLOSEST_NODES)
    best = build_plan_on_devices(relaxed, largest, devices).with_offer(
        _default_offer(request, largest.offers)
    )
    return best, f"it does not fit on any of {len(kinds)} kinds of hardware"


def _find_nearest_miss(request: SizingRequest, plans: list[SizingPlan]) -> tuple[SizingPlan, str]:
    """Return the plan whose worst target is missed by the least, and a text with the missed targets."""
    best = min(plans, key=lambda plan: worst_target_ratio(request, plan))
    misses = "; ".join(warning.message for warning in missed_target_warnings(request, best))
    misses = misses or "it has too few nodes for these users"
    bounds = {"the deadline": request.deadline_h, "the budget": request.budget_usd}
    names = [name for name, bound in bounds.items() if bound is not None]
    what = f"no plan is within {' and '.join(names)}: " if names else ""
    return best, f"{what}closest is {best.hardware.name} with {best.devices} devices: {misses}"


def _gguf_advice(request: SizingRequest) -> str:
    gguf = is_gguf_precision(request.workload.precision) and request.workload.engine is None
    return (
        "; GGUF files are split by layers, which adds memory, not speed: try --precision int4" if gguf else ""
    )


def _build_result(
    request: SizingRequest, plans: tuple[SizingPlan, ...], warnings: Iterable[PlanWarning], considered: int
) -> SizingResult:
    best = plans[0]
    quick = estimate_device_count(request.workload, best.hardware)
    all_warnings = dict.fromkeys(
        (
            *list_model_warnings(request.workload.model),
            *_published_format_warnings(request.workload),
            *warnings,
        )
    )
    return SizingResult(
        best.workload,
        best.memory,
        quick,
        plans,
        tuple(all_warnings),
        considered,
        purchases=list_purchase_options(request, plans),
    )


def _placement_warnings(request: SizingRequest, plans: tuple[SizingPlan, ...]) -> list[PlanWarning]:
    """Return the placement warnings of the first plans."""
    return [
        warning
        for plan in plans[:PLANS_WITH_WARNINGS]
        for warning in check_placement(
            PlacementCase(
                plan.workload,
                plan.hardware,
                plan.layout.devices,
                plan.layout,
                plan.engine,
                request.typed_name,
                plan.devices,
            )
        )
    ]


def _published_format_warnings(workload: Workload) -> Iterator[PlanWarning]:
    """Yield a warning if the weights are counted in the quantisation in which the model is published."""
    published = workload.model.quantization
    if (
        workload.is_training
        or not published
        or published.method == "gguf"
        or workload.precision != published.precision
    ):
        return
    text = (
        f"{workload.model.name} is published in {published.precision} and counted so: "
        "--precision bf16 sizes a 16-bit copy"
    )
    yield PlanWarning("published-format", text, published.source)


def _unusable_hardware_warnings(request: SizingRequest) -> Iterator[PlanWarning]:
    """Yield a warning for each server of one's own that cannot be sized, if only those were asked for."""
    if request.owned_only:
        yield from (PlanWarning(UNRANKED, text) for text in list_unusable_hardware(request.project_root))


def _unranked_hardware_warnings(
    request: SizingRequest,
    kinds: Iterable[Hardware],
    affordable: list[SizingPlan],
    top_plans: tuple[SizingPlan, ...],
) -> Iterator[PlanWarning]:
    """Yield a warning with the reason for each kind of hardware of one's own without a plan among those shown."""
    if not (request.owned_only or request.hardware_names):
        return  # of a hundred kinds most have none
    shown, ranked = ({plan.hardware.name for plan in plans} for plans in (top_plans, affordable))
    for hardware in (each for each in kinds if each.name not in shown):
        if hardware.name in ranked:
            reason = f"is ranked after the first {len(top_plans)} plans: --top 0 shows all"
        elif blocking := [
            warning.message for warning in _list_placement_warnings(request, hardware) if warning.is_blocking
        ]:
            reason = f"cannot run it: {'; '.join(blocking)}"
        elif find_smallest_placement(request.workload, hardware) is None:
            reason = "has too little memory for it"
        else:
            reason = f"misses {_describe_misses(request, hardware)}"
        yield PlanWarning(UNRANKED, f"{hardware.name} {reason}")


def _describe_misses(request: SizingRequest, hardware: Hardware) -> str:
    """Return which targets the hardware misses, and what it reaches."""
    plans = [*_best_plan_per_purchase(_without_targets(request), hardware)]
    misses = [
        "; ".join(warning.message for warning in missed_target_warnings(request, plan)) for plan in plans
    ]
    known = next((text for text in misses if text), "")
    return f"a target: {known}" if known else "a target, the deadline or the budget"


def _without_targets(request: SizingRequest) -> SizingRequest:
    """Return the request without the targets that leave hardware out."""
    return replace(
        request,
        ttft_s=None,
        tpot_s=None,
        latency_s=None,
        requests_per_s=None,
        users=None,
        tokens_per_user=None,
    )


def _list_placement_warnings(request: SizingRequest, hardware: Hardware) -> Iterable[PlanWarning]:
    return check_placement(PlacementCase.on_one_device(request.workload, hardware, request.typed_name))


def _commitment_warnings(plans: tuple[SizingPlan, ...]) -> Iterator[PlanWarning]:
    """Yield a warning for each commitment that is longer than the work."""
    for plan in plans:
        term = TERM_HOURS.get(plan.offer.purchase) if plan.offer else None
        if term and plan.work_hours is not None and plan.work_hours < term:
            text = (
                f"{plan.hardware.name}: a commitment bills {term:,} hours, used or not; "
                f"USD here covers only the work's {plan.work_hours:,.0f} hours"
            )
            yield PlanWarning(
                "commitment-outlasts-work", text, "reserved capacity bills around the clock (docs/cost.md)"
            )


def _missing_price_warnings(request: SizingRequest, plans: tuple[SizingPlan, ...]) -> Iterator[PlanWarning]:
    """Yield a warning if no price is known for the requested cloud, region or purchase."""
    if request.has_offer_constraints and any(plan.offer is None for plan in plans):
        filters = (*request.clouds, *request.regions, *request.purchases)
        name = next(plan.hardware.name for plan in plans if plan.offer is None)
        yield PlanWarning(
            "no-price", f"no price of {name} is known for {', '.join(filters)}", "gpufleet prices"
        )


def _memory_warnings(plan: SizingPlan) -> list[PlanWarning]:
    if plan.memory.fits:
        return []
    needed, usable, available = plan.memory.per_device_gib, plan.memory.usable_gib, plan.memory.available_gib
    if usable <= 0:
        chip = plan.hardware.accelerator.memory_gib
        text = f"not applicable to {plan.hardware.name}: {chip:g} GB of on-chip memory are less than a runtime needs"
    else:
        text = f"{needed:.1f} GiB on the fullest device of {plan.hardware.name}, {usable:.1f} GiB are usable"
    if 0 < available < needed <= usable:
        text += f", of which {plan.engine.name} fills {available:.1f} with its default settings"
    return [PlanWarning("does-not-fit", text, "gpufleet's own memory estimate", is_blocking=True)]


def _default_offer(request: SizingRequest, offers: tuple[HardwareOffer, ...]) -> HardwareOffer | None:
    """Return the default offer if no purchase kind was requested; of a kind, one whose price is not stale."""
    return min(
        offers,
        key=lambda offer: (PURCHASE_PREFERENCE.index(offer.purchase), is_stale(offer, request.day)),
        default=None,
    )
