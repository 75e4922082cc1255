"""Which commitment pays for which cost component. Pure: the order of the input lists changes nothing.

Order of the commitments: the most specific first, so that the broad ones remain for what nothing else covers:

0. capacity blocks, for machines that target them
1. reservations of one machine: zonal before regional; Azure's
2. GCP resource commitments
3. EC2 Instance Savings Plans
4. Compute Savings Plans, flexible committed use, Azure savings plans

then the one that ends first, then by id. Reservations before Savings Plans, instance plans before compute
plans: docs.aws.amazon.com/savingsplans/latest/userguide/sp-applying.html (read 2026-11-21); resource before
flexible commitments: docs.archera.ai on Compute Engine (March 2026).

Order of the machines within one commitment: a reservation covers the smallest size first (the EC2 User
Guide's rule), a plan in dollars the highest saving first, then the lowest rate (sp-applying), then by URN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import ROUND_DOWN, Decimal
from typing import TYPE_CHECKING

from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.bill import CommitmentUse
from gpufleet.cost.pricing.commitments.scope import (
    AllocationLookups,
    CommitmentRequirement,
    commitment_hourly_capacity,
    required_commitment_units,
)

if TYPE_CHECKING:
    from gpufleet.cost.pricing.commitments.model import Commitment
    from gpufleet.cost.pricing.component import CostComponent

Key = tuple[str, str]  # the URN of a resource and the name of one of its components
COUNT_STEP = Decimal("0.000001")  # of a machine, rounded down: nothing is covered that was not bought
SCENARIOS = ("low", "expected", "high")


@dataclass(frozen=True)
class CommitmentShare:
    """The part of a component's count that one commitment pays for."""

    commitment: str
    label: str
    until: date
    count: Range


@dataclass(frozen=True)
class CommittedComponent:
    """What all commitments pay of one component, and the count that remains to be paid."""

    shares: tuple[CommitmentShare, ...]
    remaining: Range


@dataclass
class _Balance:
    """What remains of one commitment during allocation, by unit, and the unit hours used."""

    commitment: Commitment
    remaining: dict[str, Decimal]
    used_hours: dict[str, Decimal] = field(default_factory=dict)

    def allocate_machines(
        self, count: Decimal, requirement: CommitmentRequirement, hours: Decimal
    ) -> Decimal:
        """Use capacity for ``count`` machines as far as it suffices; return how many are covered."""
        affordable = min(self.remaining[unit] / each for unit, each in requirement.units.items() if each)
        covered = max(ZERO, min(count, affordable.quantize(COUNT_STEP, ROUND_DOWN)))
        for unit, each in requirement.units.items():
            self.remaining[unit] = max(ZERO, self.remaining[unit] - covered * each)
            self.used_hours[unit] = self.used_hours.get(unit, ZERO) + covered * each * hours
        return covered


Allocation = dict[tuple[Key, str], Decimal]  # how many of a component each commitment covers, by its id
Queue = list[tuple[Key, "CostComponent", CommitmentRequirement]]


def allocate_commitments(
    components: Iterable[tuple[Key, CostComponent]],
    commitments: Iterable[Commitment],
    on_date: date,
    context: AllocationLookups,
) -> tuple[dict[Key, CommittedComponent], tuple[CommitmentUse, ...]]:
    """Allocate the commitments in force on a day; return what each component gets, and each commitment's use."""
    ordered_components = sorted(components, key=lambda keyed: keyed[0])
    in_force = sorted((each for each in commitments if each.is_in_force(on_date)), key=_allocation_order)
    queues = [_queue_components(commitment, ordered_components, context) for commitment in in_force]
    allocations: dict[str, Allocation] = {}
    expected_balances: list[_Balance] = []
    for scenario in SCENARIOS:
        allocations[scenario], balances = _allocate_scenario(ordered_components, in_force, queues, scenario)
        expected_balances = balances if scenario == "expected" else expected_balances
    committed = dict(_committed_components(ordered_components, in_force, allocations))
    return committed, tuple(_commitment_use(balance) for balance in expected_balances)


def _allocation_order(commitment: Commitment) -> tuple[int, bool, date, str]:
    is_regional = getattr(commitment, "zone", None) is None
    return (commitment.rank, is_regional, commitment.end, commitment.id)


def _queue_components(
    commitment: Commitment, components: list[tuple[Key, CostComponent]], context: AllocationLookups
) -> Queue:
    """Return the components that a commitment may cover, in the order in which it covers them."""
    requirements = (
        (key, component, required_commitment_units(commitment, component, context))
        for key, component in components
    )
    eligible = [(key, component, needed) for key, component, needed in requirements if needed is not None]
    return sorted(eligible, key=lambda entry: (entry[2].order, entry[0]))


def _allocate_scenario(
    components: list[tuple[Key, CostComponent]],
    commitments: list[Commitment],
    queues: list[Queue],
    scenario: str,
) -> tuple[Allocation, list[_Balance]]:
    """Allocate in one scenario: every group at its least, expected or greatest size."""
    uncovered = {key: Decimal(getattr(component.count, scenario)) for key, component in components}
    balances = [_Balance(commitment, commitment_hourly_capacity(commitment)) for commitment in commitments]
    allocation: Allocation = {}
    for balance, queue in zip(balances, queues, strict=True):
        for key, component, requirement in queue:
            if not uncovered[key]:
                continue
            hours = min(component.hours_per_month, balance.commitment.billed_hours_per_month)
            covered = balance.allocate_machines(uncovered[key], requirement, hours)
            uncovered[key] -= covered
            allocation[(key, balance.commitment.id)] = covered
    return allocation, balances


def _committed_components(
    components: list[tuple[Key, CostComponent]],
    commitments: list[Commitment],
    allocations: dict[str, Allocation],
) -> Iterator[tuple[Key, CommittedComponent]]:
    totals = {scenario: _total_by_component(allocation) for scenario, allocation in allocations.items()}
    for key, component in components:
        shares = []
        for commitment in commitments:
            low, expected, high = (
                allocations[scenario].get((key, commitment.id), ZERO) for scenario in SCENARIOS
            )
            if max(low, expected, high) > 0:
                count = Range(min(low, expected, high), expected, max(low, expected, high))
                shares.append(CommitmentShare(commitment.id, commitment.label, commitment.end, count))
        if shares:
            yield key, CommittedComponent(tuple(shares), _remaining_count(key, component, totals))


def _total_by_component(allocation: Allocation) -> dict[Key, Decimal]:
    """Sum what all commitments cover of each component."""
    totals: dict[Key, Decimal] = {}
    for (key, _), covered in allocation.items():
        totals[key] = totals.get(key, ZERO) + covered
    return totals


def _remaining_count(key: Key, component: CostComponent, totals: dict[str, dict[Key, Decimal]]) -> Range:
    """Return what remains per scenario: a group at its greatest size may leave less for the next one."""
    low, expected, high = (
        getattr(component.count, scenario) - totals[scenario].get(key, ZERO) for scenario in SCENARIOS
    )
    return Range(min(low, expected, high), expected, max(low, expected, high))


def _commitment_use(balance: _Balance) -> CommitmentUse:
    """Return what a commitment costs and its used share: that of its most expensive unit if it has several."""
    commitment = balance.commitment
    capacity = commitment_hourly_capacity(commitment)
    unit = next(iter(capacity))  # cards come first
    bought_hours = capacity[unit] * commitment.billed_hours_per_month
    used_share = min(Decimal(1), balance.used_hours.get(unit, ZERO) / bought_hours) if bought_hours else ZERO
    usd_per_month = commitment.paid_usd_per_hour * commitment.billed_hours_per_month
    return CommitmentUse(
        commitment.id, commitment.kind, commitment.label, commitment.end, usd_per_month, used_share
    )
