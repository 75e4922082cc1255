"""Azure compute fleets: a target of regular and of spot machines, of any of several sizes."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import read_list, read_number, read_text, read_value
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers import azure_parts
from gpufleet.engine import Marker, Resource

PROFILE = ("computeProfile", "baseVirtualMachineProfile")
SHARES = (
    ("regularPriorityProfile", "machine:on_demand", "on_demand"),
    ("spotPriorityProfile", "machine:spot", "spot"),
)


def charges(resource: Resource, graph: Graph) -> Components:
    """Bill a fleet at the capacity of each of its priorities; spot may stay below, down to its least."""
    sizes = _sizes(resource)
    if isinstance(sizes, UnpricedComponent):
        return [sizes]
    where, found = azure_parts.region(resource, graph), list[CostComponent | UnpricedComponent]()
    for key, component, purchase in SHARES:
        share = read_value(resource.inputs, key)
        count = _count(share, spot=purchase == "spot")
        if count is None:
            found.append(UnpricedComponent("its capacity is not known until deployment", component))
        elif share is not None and count.high > 0:
            terms = replace(graph.terms_of(resource), purchase=purchase, max_price=_most(share))
            found.append(
                CostComponent(
                    component, sizes, "azure", where, count, terms=terms, hours_per_month=terms.billed_hours
                )
            )
    machines = [item for item in found if isinstance(item, CostComponent)]
    if not machines:
        return found
    whole = Range.total(item.count for item in machines)
    profile = read_value(resource.inputs, *PROFILE)
    around = PartContext("azure", where, machines[0].terms.pool, whole, machines[0].hours_per_month)
    disks = azure_parts.attached(read_value(profile, "storageProfile"), around)
    return [*found, *disks, *azure_parts.addresses(profile, around)]


def _sizes(resource: Resource) -> tuple[str, ...] | UnpricedComponent:
    if read_value(resource.inputs, "vmAttributes") is not None:
        return UnpricedComponent(
            "its sizes are chosen by attributes: any that fits may be launched", "machine"
        )
    listed = sorted(read_list(resource.inputs, "vmSizesProfile"), key=_rank)
    named = [read_text(entry, "name") for entry in listed]
    if not named or any(not isinstance(name, str) for name in named):
        return UnpricedComponent("machine size is not known until deployment", "machine")
    return tuple(str(name) for name in named)


def _rank(entry: Any) -> Decimal:
    found = read_number(entry, "rank")
    return found if isinstance(found, Decimal) else ZERO


def _count(share: Any, *, spot: bool) -> Range | None:
    wanted, least = read_number(share, "capacity"), read_number(share, "minCapacity")
    if isinstance(wanted, Marker):
        return None
    capacity = wanted or ZERO
    low = least if isinstance(least, Decimal) and spot else capacity
    return Range.spanning(low, capacity, capacity)


def _most(share: Any) -> Decimal | None:
    """Return the most that is paid for a spot machine; -1, up to on-demand, is none."""
    found = read_number(share, "maxPricePerVM")
    return found if isinstance(found, Decimal) else None
