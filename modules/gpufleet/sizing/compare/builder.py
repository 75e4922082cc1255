"""Build a comparison from accelerator names and a workload."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from gpufleet import catalog
from gpufleet.catalog import Accelerator, data_file
from gpufleet.catalog.purchase_price import find_purchase_price
from gpufleet.progress import report_step
from gpufleet.sizing.compare.comparison import AcceleratorComparison, ComparedAccelerator, DevicePrice
from gpufleet.sizing.compare.selection import select_accelerators
from gpufleet.sizing.hardware import Hardware, HardwareOffer
from gpufleet.sizing.node_hardware import build_accelerator_hardware
from gpufleet.sizing.placement_rules import PlacementCase, check_placement
from gpufleet.sizing.plans import options
from gpufleet.sizing.plans.candidate import list_candidate_plans as plans_on
from gpufleet.sizing.plans.dependability import is_dependable
from gpufleet.sizing.plans.placement import place_workload_on_devices
from gpufleet.sizing.plans.request import SizingRequest
from gpufleet.sizing.plans.result import SizingPlan


def compare_accelerators(
    names: Iterable[str] = (), request: SizingRequest | None = None
) -> AcceleratorComparison:
    """Compare those accelerators, or the default ones; with a request also their speed."""
    accelerators = select_accelerators(names)
    day = request.day if request else options.read_clock().date()
    prices = _cheapest_prices({accelerator.name for accelerator in accelerators}, day)
    compared = tuple(
        _compare_one(accelerator, tuple(prices.get(accelerator.name, ())), request)
        for accelerator in accelerators
    )
    return AcceleratorComparison(compared, request.workload if request else None)


def _compare_one(
    accelerator: Accelerator, prices: tuple[DevicePrice, ...], request: SizingRequest | None
) -> ComparedAccelerator:
    report_step(f"computing {accelerator.name}")
    to_buy = find_purchase_price(accelerator.name, accelerator.memory_gib)
    if request is None:
        return ComparedAccelerator(accelerator, prices, purchase_price=to_buy)
    hardware = build_accelerator_hardware(accelerator)
    reasons = "; ".join(
        warning.message
        for warning in check_placement(PlacementCase.on_one_device(request.workload, hardware))
        if warning.is_blocking
    )
    if reasons:
        return ComparedAccelerator(accelerator, prices, rejection_reason=reasons, purchase_price=to_buy)
    plan = next(iter(plans_on(request, hardware)), None)
    rejection_reason = _find_rejection_reason(request, hardware, plan)
    placed = None if rejection_reason else plan
    return ComparedAccelerator(accelerator, prices, placed, rejection_reason, to_buy)


def _find_rejection_reason(request: SizingRequest, hardware: Hardware, plan: SizingPlan | None) -> str:
    if plan is None:
        memory = place_workload_on_devices(request.workload, hardware, 1).memory
        return (
            f"does not fit on any number of devices that an engine can use: it needs {memory.total:.0f} GiB, each has "
            f"{max(memory.usable_gib, 0.0):.1f} GiB"
        )
    if plan.tokens_per_s is None:
        return "; ".join(plan.speed.notes if plan.speed else ()) or "its speed is not known"
    return ""


def _cheapest_prices(names: set[str], day: date) -> dict[str, list[DevicePrice]]:
    """Return the cheapest price of one full device by accelerator and purchase kind, cheapest first.

    Of a kind, a price of the last 180 days before ``day`` counts if there is one. Spot and older prices are last.
    """
    prices: dict[str, dict[str, tuple[bool, DevicePrice]]] = {}
    attachable = {model for machine in data_file.load_machines().values() for model in machine.attachable}
    has_attached = not names.isdisjoint(attachable)
    for offer in catalog.search_offers(compare_by="accelerator", has_attached=has_attached):
        for accelerator in offer.machine.accelerators[:1]:
            if accelerator.model not in names or accelerator.share != 1.0:
                continue
            usd, price = offer.price.usd_per_hour / accelerator.count, offer.price
            terms = HardwareOffer(
                offer.machine.cloud, offer.region, offer.purchase, usd, price.as_of, price.source
            )
            dependable = is_dependable(terms, day)
            kinds = prices.setdefault(accelerator.model, {})
            if offer.purchase in kinds and (kinds[offer.purchase][0] or not dependable):
                continue
            kinds[offer.purchase] = (
                dependable,
                DevicePrice(
                    usd, offer.purchase, offer.machine.cloud, offer.region, offer.machine.name,
                    price.as_of, price.source,
                ),
            )  # fmt: skip
    return {name: _sort_prices(kinds.values()) for name, kinds in prices.items()}


def _sort_prices(prices: Iterable[tuple[bool, DevicePrice]]) -> list[DevicePrice]:
    ordered = sorted(prices, key=lambda pair: (not pair[0], pair[1].usd_per_hour))
    return [price for _, price in ordered]
