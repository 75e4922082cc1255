"""The capacity of each kind of commitment, and what a machine needs of it.

Only components that bill at list price by the hour are eligible: on demand, capacity of a reservation, and
what the fleet declares as bought under a term. Spot never is. A group that may launch several types is covered
only if each of them would be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpufleet import catalog
from gpufleet.catalog.attachable_card import CARD_PREFIX
from gpufleet.cost.money import ONE, ZERO, to_decimal
from gpufleet.cost.pricing.commitments.sizes import share_of_reserved_machine
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from gpufleet.catalog import Machine
    from gpufleet.cost.pricing.component import CostComponent


@dataclass(frozen=True)
class CommitmentRequirement:
    """What one machine needs of a commitment, by unit, and its place in the order of allocation."""

    units: dict[str, Decimal]
    order: tuple[Decimal, ...] = ()


def _find_machine(cloud: str, name: str) -> Machine | None:
    try:
        return catalog.get_machine(name, cloud)
    except InputError:
        return catalog.find_ordinary_machine(name, cloud)


@dataclass(frozen=True)
class AllocationLookups:
    """The look-ups that allocation needs: on-demand prices, and the size of machines."""

    on_demand: Callable[[str, str, str], Decimal | None]  # cloud, region, machine
    machine: Callable[[str, str], Machine | None] = _find_machine


def commitment_hourly_capacity(commitment: Any) -> dict[str, Decimal]:
    """Return the capacity of a commitment per hour, by unit; the most expensive unit comes first."""
    if commitment.kind == "resource_cud":
        amounts = {
            "cards": commitment.accelerators,
            "vcpus": commitment.vcpus,
            "gib": commitment.memory_gib,
        }
        return {unit: to_decimal(amount) for unit, amount in amounts.items() if amount is not None}
    if hasattr(commitment, "count"):
        return {"machines": Decimal(commitment.count)}
    return {"usd": to_decimal(commitment.usd_per_hour)}


def required_commitment_units(
    commitment: Any, component: CostComponent, context: AllocationLookups
) -> CommitmentRequirement | None:
    """Return what one of a component needs of a commitment, None if it is not in the commitment's scope."""
    if component.cloud != commitment.cloud or not _is_eligible(component):
        return None
    per_item = [_SCOPES[commitment.kind](commitment, component, item, context) for item in component.items]
    if any(requirement is None for requirement in per_item):
        return None
    requirements = (requirement for requirement in per_item if requirement is not None)
    return max(requirements, key=lambda requirement: max(requirement.units.values()))


def _is_eligible(component: CostComponent) -> bool:
    if component.declared_price is not None or component.terms.purchase == "spot":
        return False
    return component.component.startswith("machine") or component.items[0].startswith(CARD_PREFIX)


def _zone(component: CostComponent) -> str | None:
    placement = component.claim or component.reserved_capacity
    return placement.zone if placement else None


def _block_requirement(
    commitment: Any,
    component: CostComponent,
    item: str,
    context: AllocationLookups,  # noqa: ARG001 - the signature of every scope
) -> CommitmentRequirement | None:
    """Return the requirement of a machine that targets the block by id; nothing else uses it."""
    target_id = component.claim.reservation_id if component.claim else ""
    is_same_kind = (item, component.region) == (commitment.machine, commitment.region)
    if not is_same_kind or target_id != commitment.reservation:
        return None
    return CommitmentRequirement({"machines": Decimal(1)})


def _reserved_instance_requirement(
    commitment: Any,
    component: CostComponent,
    item: str,
    context: AllocationLookups,  # noqa: ARG001 - the signature of every scope
) -> CommitmentRequirement | None:
    is_of_platform = commitment.platform != "linux" or not component.system
    if component.region != commitment.region or not is_of_platform:
        return None
    if commitment.zone is not None:
        matches = item == commitment.machine and _zone(component) == commitment.zone
        return CommitmentRequirement({"machines": Decimal(1)}) if matches else None
    is_flexible = commitment.platform == "linux" or item == commitment.machine
    share = share_of_reserved_machine(commitment.machine, item) if is_flexible else None
    return None if share is None else CommitmentRequirement({"machines": share}, (share,))


def _azure_reservation_requirement(
    commitment: Any,
    component: CostComponent,
    item: str,
    context: AllocationLookups,  # noqa: ARG001 - the signature of every scope
) -> CommitmentRequirement | None:
    if component.region != commitment.region:
        return None
    if item == commitment.machine:
        return CommitmentRequirement({"machines": Decimal(1)}, (Decimal(1),))
    if item not in commitment.ratios:
        return None
    share = to_decimal(commitment.ratios[item]) / to_decimal(commitment.ratios[commitment.machine])
    return CommitmentRequirement({"machines": share}, (share,))


def _resource_requirement(
    commitment: Any, component: CostComponent, item: str, context: AllocationLookups
) -> CommitmentRequirement | None:
    """Return vCPUs, memory and cards together: the scarcest limits how many machines are covered."""
    if component.region != commitment.region:
        return None
    if item.startswith(CARD_PREFIX):  # a card attached to a machine, which is a component of its own
        is_same_model = commitment.accelerator == item.removeprefix(CARD_PREFIX)
        return CommitmentRequirement({"cards": component.size}) if is_same_model else None
    if commitment.series is None or not item.startswith(f"{commitment.series}-"):
        return None
    machine = context.machine("gcp", item)
    if machine is None:
        return None
    return _machine_requirement(commitment, machine)


def _machine_requirement(commitment: Any, machine: Machine) -> CommitmentRequirement | None:
    """Return what a machine needs, None if the commitment omits a part that the machine's price includes."""
    cards = sum(installed.count for installed in machine.accelerators)
    if commitment.vcpus is None or (cards and commitment.accelerators is None):
        return None  # its price is one figure: what a part of it costs is not known here
    units = {"vcpus": to_decimal(machine.vcpus), "gib": to_decimal(machine.memory_gib)}
    return CommitmentRequirement({"cards": Decimal(cards), **units} if cards else units)


def _spend_requirement(
    commitment: Any, component: CostComponent, item: str, context: AllocationLookups
) -> CommitmentRequirement | None:
    if item.startswith(CARD_PREFIX) or not commitment.covers_machine(item, component.region):
        return None
    on_demand = context.on_demand(component.cloud, component.region, item)
    rate = commitment.discounted_usd_per_hour(item, on_demand)
    if not rate:
        return None
    saving = ONE.expected - rate / on_demand if on_demand else ZERO
    return CommitmentRequirement({"usd": rate}, (-saving, rate))


_SCOPES: dict[str, Callable[[Any, CostComponent, str, AllocationLookups], CommitmentRequirement | None]] = {
    "capacity_block": _block_requirement,
    "reserved_instance": _reserved_instance_requirement,
    "azure_reservation": _azure_reservation_requirement,
    "resource_cud": _resource_requirement,
    "ec2_instance_savings_plan": _spend_requirement,
    "compute_savings_plan": _spend_requirement,
    "spend_cud": _spend_requirement,
    "azure_savings_plan": _spend_requirement,
}
