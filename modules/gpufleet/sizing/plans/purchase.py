"""Buying the hardware of plans instead of renting it: prices with their dates, and when a purchase has paid off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import ceil

from gpufleet.catalog import HOURS_PER_MONTH
from gpufleet.catalog.purchase_price import (
    PowerPrice,
    find_purchase_price,
    load_default_power_price,
)
from gpufleet.sizing.plans.request import SizingRequest
from gpufleet.sizing.plans.result import PurchaseOption, SizingPlan

MAX_OPTIONS = 4
OWNED_ORIGINS = ("rack", "workstation")


def list_purchase_options(request: SizingRequest, plans: Iterable[SizingPlan]) -> tuple[PurchaseOption, ...]:
    """Return what the first kinds of hardware of the plans cost to buy, in the order of the plans."""
    options: dict[tuple[str, int], PurchaseOption] = {}
    for plan in plans:
        if plan.hardware.origin in OWNED_ORIGINS or not plan.is_feasible or plan.hardware.share != 1.0:
            continue
        option = _build_option(plan, _choose_power_price(request))
        options.setdefault((option.name, option.units), option)
    ordered = sorted(options.values(), key=lambda option: option.price is None)
    return tuple(ordered[:MAX_OPTIONS])


def is_price_known(plan: SizingPlan) -> bool:
    """Return whether a price is known to buy the hardware of the plan."""
    accelerator = plan.hardware.accelerator
    return find_purchase_price(accelerator.name, accelerator.memory_gib) is not None


def _choose_power_price(request: SizingRequest) -> PowerPrice:
    default = load_default_power_price()
    if request.usd_per_kwh is None:
        return default
    return replace(
        default, place="as given", usd_per_kwh=request.usd_per_kwh, as_of="", source="--usd-per-kwh"
    )


def _build_option(plan: SizingPlan, power: PowerPrice) -> PurchaseOption:
    accelerator = plan.hardware.accelerator
    price = find_purchase_price(accelerator.name, accelerator.memory_gib)
    devices = (
        plan.devices if price is None or price.devices == 1 else plan.nodes * plan.hardware.devices_per_node
    )
    units = devices if price is None else ceil(devices / price.devices)
    low, high = (price.usd_low * units, price.usd_high * units) if price else (None, None)
    watts, rent = plan.total_watts, plan.usd_per_month
    power_usd = None if watts is None else watts / 1000 * HOURS_PER_MONTH * power.usd_per_kwh
    months = None
    if low and high and rent is not None and power_usd is not None and rent > power_usd:
        months = (low / (rent - power_usd), high / (rent - power_usd))
    return PurchaseOption(accelerator.name, units, price, low, high, rent, power_usd, months, power)
