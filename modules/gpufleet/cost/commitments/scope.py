"""What a commitment holds, and what a machine would take of it: one function per kind.

Only what pays list price by the hour is eligible: on demand, capacity held by a reservation, and what the
fleet says is bought under a term. Spot never is. A group that may launch several types is covered only where
each of them would be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpufleet import catalog
from gpufleet.cost.commitments.sizes import footprint
from gpufleet.cost.money import ONE, ZERO, exact
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from gpufleet.catalog import Machine
    from gpufleet.cost.demand import Demand

CARD = "accelerator:"


@dataclass(frozen=True)
class Need:
    """What one machine takes of a commitment, per unit, and its place in the queue."""

    units: dict[str, Decimal]
    order: tuple[Decimal, ...] = ()


def _machine(cloud: str, name: str) -> Machine | None:
    try:
        return catalog.machine(name, cloud)
    except InputError:
        return None


@dataclass(frozen=True)
class Context:
    """What the allocation must know of the world: on-demand prices, and the size of machines."""

    on_demand: Callable[[str, str, str], Decimal | None]  # cloud, region, machine
    machine: Callable[[str, str], Machine | None] = _machine


def capacity(commitment: Any) -> dict[str, Decimal]:
    """Return what a commitment holds per hour, by unit; the unit that costs most comes first."""
    if commitment.kind == "resource_cud":
        held = {
            "cards": commitment.accelerators,
            "vcpus": commitment.vcpus,
            "gib": commitment.memory_gib,
        }
        return {unit: exact(amount) for unit, amount in held.items() if amount is not None}
    if hasattr(commitment, "count"):
        return {"machines": Decimal(commitment.count)}
    return {"usd": exact(commitment.usd_per_hour)}


def needs(commitment: Any, demand: Demand, context: Context) -> Need | None:
    """Return what one of a demand takes of a commitment, None where it is not in its scope."""
    if demand.cloud != commitment.cloud or not _eligible(demand):
        return None
    found = [_SCOPES[commitment.kind](commitment, demand, item, context) for item in demand.items]
    if any(need is None for need in found):
        return None
    return max((need for need in found if need is not None), key=lambda need: max(need.units.values()))


def _eligible(demand: Demand) -> bool:
    if demand.own_price is not None or demand.terms.purchase == "spot":
        return False
    return demand.component.startswith("machine") or demand.items[0].startswith(CARD)


def _zone(demand: Demand) -> str | None:
    holder = demand.claim or demand.offer
    return holder.zone if holder else None


def _block(commitment: Any, demand: Demand, item: str, context: Context) -> Need | None:  # noqa: ARG001 - one shape for all
    """Return the need of a machine that names the block; nothing else uses it."""
    wanted = demand.claim.reservation if demand.claim else ""
    here = (item, demand.region) == (commitment.machine, commitment.region)
    return Need({"machines": Decimal(1)}) if here and wanted == commitment.reservation else None


def _reserved_instance(commitment: Any, demand: Demand, item: str, context: Context) -> Need | None:  # noqa: ARG001
    if demand.region != commitment.region:
        return None
    if commitment.zone is not None:
        same = item == commitment.machine and _zone(demand) == commitment.zone
        return Need({"machines": Decimal(1)}) if same else None
    flexible = commitment.platform == "linux" or item == commitment.machine
    share = footprint(commitment.machine, item) if flexible else None
    return None if share is None else Need({"machines": share}, (share,))


def _azure_reservation(commitment: Any, demand: Demand, item: str, context: Context) -> Need | None:  # noqa: ARG001
    if demand.region != commitment.region:
        return None
    if item == commitment.machine:
        return Need({"machines": Decimal(1)}, (Decimal(1),))
    if item not in commitment.ratios:
        return None
    share = exact(commitment.ratios[item]) / exact(commitment.ratios[commitment.machine])
    return Need({"machines": share}, (share,))


def _resources(commitment: Any, demand: Demand, item: str, context: Context) -> Need | None:
    """Return vCPUs, memory and cards together: the scarcest decides for how many machines it reaches."""
    if demand.region != commitment.region:
        return None
    if item.startswith(CARD):  # a card attached to a machine, which is a demand of its own
        own = commitment.accelerator == item.removeprefix(CARD)
        return Need({"cards": demand.size}) if own else None
    if commitment.series is None or not item.startswith(f"{commitment.series}-"):
        return None
    machine = context.machine("gcp", item)
    if machine is None:
        return None
    return _whole(commitment, machine)


def _whole(commitment: Any, machine: Machine) -> Need | None:
    """Return what a machine takes, None where the commitment leaves a part out that its price holds."""
    cards = sum(carried.count for carried in machine.accelerators)
    if commitment.vcpus is None or (cards and commitment.accelerators is None):
        return None  # its price is one figure: what a part of it costs is not known here
    units = {"vcpus": exact(machine.vcpus), "gib": exact(machine.memory_gib)}
    return Need({"cards": Decimal(cards), **units} if cards else units)


def _dollars(commitment: Any, demand: Demand, item: str, context: Context) -> Need | None:
    if item.startswith(CARD) or not commitment.applies(item, demand.region):
        return None
    usual = context.on_demand(demand.cloud, demand.region, item)
    rate = commitment.rate(item, usual)
    if not rate:
        return None
    saving = ONE.expected - rate / usual if usual else ZERO
    return Need({"usd": rate}, (-saving, rate))


_SCOPES: dict[str, Callable[[Any, Demand, str, Context], Need | None]] = {
    "capacity_block": _block,
    "reserved_instance": _reserved_instance,
    "azure_reservation": _azure_reservation,
    "resource_cud": _resources,
    "ec2_instance_savings_plan": _dollars,
    "compute_savings_plan": _dollars,
    "spend_cud": _dollars,
    "azure_savings_plan": _dollars,
}
