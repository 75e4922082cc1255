"""Groups that buy a part of their machines on demand and the rest on spot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal

from gpufleet.cost.inputs.values import Number
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, CostComponent, UnpricedComponent
from gpufleet.engine import UnreadableValue

HUNDRED = Decimal(100)


@dataclass(frozen=True)
class PurchaseMix:
    """How a group splits its machines: ``base`` on demand, then a percentage of those above it."""

    base: Number
    percent_on_demand: Number


def split_on_demand_and_spot(count: Range, base: Decimal, percent_on_demand: Decimal) -> tuple[Range, Range]:
    """Split a group's count into on-demand and spot: a base, then a percentage above it, rounded up."""

    def on_demand_count(total: Decimal) -> Decimal:
        above = max(ZERO, total - base) * percent_on_demand / HUNDRED
        return min(total, base + above.to_integral_value(ROUND_CEILING))

    on_demand = Range(*(on_demand_count(total) for total in (count.low, count.expected, count.high)))
    spot = (count.low - on_demand.low, count.expected - on_demand.expected, count.high - on_demand.high)
    return on_demand, Range(min(spot), spot[1], max(spot))


def split_machine_by_purchase(machine: CostComponent, mix: PurchaseMix | None) -> Components:
    """Return a group's machines as one on-demand and one spot component, without an empty one."""
    if mix is None:
        return [machine]
    if isinstance(mix.base, UnreadableValue) or isinstance(mix.percent_on_demand, UnreadableValue):
        return [UnpricedComponent("the share of spot is not known until deployment", "machine")]
    percent = HUNDRED if mix.percent_on_demand is None else mix.percent_on_demand
    on_demand, spot = split_on_demand_and_spot(machine.count, mix.base or ZERO, percent)
    parts = [
        replace(
            machine,
            component="machine:on_demand",
            count=on_demand,
            terms=replace(machine.terms, purchase="on_demand"),
        ),
        replace(
            machine,
            component="machine:spot",
            count=spot,
            terms=replace(machine.terms, purchase="spot"),
            claim=None,
        ),
    ]
    return [part for part in parts if part.count.high > 0]
