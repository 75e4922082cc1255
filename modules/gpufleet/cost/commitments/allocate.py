"""Which commitment pays for what. Pure: the order of the lists handed in changes nothing.

Order of the commitments: the most specific first, so that the broad ones are left for what nothing else covers:

0. capacity blocks, for machines that target them
1. reservations of one machine: zonal before regional; Azure's
2. GCP resource commitments
3. EC2 Instance Savings Plans
4. Compute Savings Plans, flexible committed use, Azure savings plans

then the one that ends first, then by id. Reservations before Savings Plans, instance plans before compute
plans: docs.aws.amazon.com/savingsplans/latest/userguide/sp-applying.html (read 2026-11-21); resource before
flexible commitments: docs.archera.ai on Compute Engine (March 2026).

Order of the machines inside one commitment: a reservation serves the smallest size first (the EC2 User
Guide's rule), a plan in dollars the highest saving first, then the lowest rate (sp-applying), then by URN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import ROUND_DOWN, Decimal
from typing import TYPE_CHECKING

from gpufleet.cost.commitments.scope import Context, Need, capacity, needs
from gpufleet.cost.money import ZERO, Range

if TYPE_CHECKING:
    from gpufleet.cost.commitments.model import Commitment
    from gpufleet.cost.demand import Demand

Key = tuple[str, str]  # the URN of a resource and the component of one demand of it
FINEST = Decimal("0.000001")  # of a machine, rounded down: nothing is covered that was not bought
SCENARIOS = ("low", "expected", "high")


@dataclass(frozen=True)
class Covered:
    """A share of a demand (in its count) that a commitment pays for."""

    commitment: str
    label: str
    until: date
    count: Range


@dataclass(frozen=True)
class Paid:
    """Everything that commitments pay of one demand, and the count that is left for it to pay."""

    shares: tuple[Covered, ...]
    left: Range


@dataclass(frozen=True)
class Use:
    """What one commitment costs a month and how much of it runs empty, in the expected case."""

    id: str
    kind: str
    label: str
    until: date
    usd_per_month: Decimal
    used: Decimal  # share of what was bought, 0 to 1

    @property
    def unused_usd_per_month(self) -> Decimal:
        """Return the dollars a month that buy nothing."""
        return self.usd_per_month * (1 - self.used)


@dataclass
class _Stock:
    """One commitment while it is handed out: what is left per resource of it, and the hours taken."""

    commitment: Commitment
    left: dict[str, Decimal]
    taken: dict[str, Decimal] = field(default_factory=dict)

    def give(self, wanted: Decimal, need: Need, hours: Decimal) -> Decimal:
        """Take what ``wanted`` machines need, as far as it reaches; return for how many it did."""
        reach = min(self.left[unit] / per for unit, per in need.units.items() if per)
        given = max(ZERO, min(wanted, reach.quantize(FINEST, ROUND_DOWN)))
        for unit, per in need.units.items():
            self.left[unit] = max(ZERO, self.left[unit] - given * per)
            self.taken[unit] = self.taken.get(unit, ZERO) + given * per * hours
        return given


def allocate(
    demands: Iterable[tuple[Key, Demand]], commitments: Iterable[Commitment], on: date, context: Context
) -> tuple[dict[Key, Paid], tuple[Use, ...]]:
    """Share the commitments in force on a day out to demands; return who is covered, and what is unused."""
    listed = sorted(demands, key=lambda held: held[0])
    held = sorted((each for each in commitments if each.holds(on)), key=_order)
    queues = [_queue(commitment, listed, context) for commitment in held]
    given: dict[str, dict[tuple[Key, str], Decimal]] = {}
    stocks: list[_Stock] = []
    for scenario in SCENARIOS:
        given[scenario], stocks_here = _hand_out(listed, held, queues, scenario)
        stocks = stocks_here if scenario == "expected" else stocks
    return dict(_covered(listed, held, given)), tuple(_use(stock) for stock in stocks)


def _order(commitment: Commitment) -> tuple[int, bool, date, str]:
    regional = getattr(commitment, "zone", None) is None
    return (commitment.rank, regional, commitment.end, commitment.id)


Queue = list[tuple[Key, "Demand", Need]]


def _queue(commitment: Commitment, listed: list[tuple[Key, Demand]], context: Context) -> Queue:
    """Return who a commitment may serve, and in which order."""
    found = [(key, demand, needs(commitment, demand, context)) for key, demand in listed]
    eligible = [(key, demand, need) for key, demand, need in found if need is not None]
    return sorted(eligible, key=lambda each: (each[2].order, each[0]))


def _hand_out(
    listed: list[tuple[Key, Demand]], held: list[Commitment], queues: list[Queue], scenario: str
) -> tuple[dict[tuple[Key, str], Decimal], list[_Stock]]:
    """Share out in one scenario: every group at its least, expected or greatest size."""
    wanted = {key: Decimal(getattr(demand.count, scenario)) for key, demand in listed}
    stocks = [_Stock(commitment, capacity(commitment)) for commitment in held]
    given: dict[tuple[Key, str], Decimal] = {}
    for stock, queue in zip(stocks, queues, strict=True):
        for key, demand, need in queue:
            if not wanted[key]:
                continue
            taken = stock.give(wanted[key], need, min(demand.hours, stock.commitment.month_hours))
            wanted[key] -= taken
            given[(key, stock.commitment.id)] = taken
    return given, stocks


def _covered(
    listed: list[tuple[Key, Demand]],
    held: list[Commitment],
    given: dict[str, dict[tuple[Key, str], Decimal]],
) -> Iterator[tuple[Key, Paid]]:
    totals = {scenario: _totals(taken) for scenario, taken in given.items()}
    for key, demand in listed:
        shares = []
        for commitment in held:
            low, usual, high = (given[scenario].get((key, commitment.id), ZERO) for scenario in SCENARIOS)
            if max(low, usual, high) > 0:
                count = Range(min(low, usual, high), usual, max(low, usual, high))
                shares.append(Covered(commitment.id, commitment.label, commitment.end, count))
        if shares:
            yield key, Paid(tuple(shares), _left(key, demand, totals))


def _totals(given: dict[tuple[Key, str], Decimal]) -> dict[Key, Decimal]:
    """Sum what all commitments give to each demand."""
    totals: dict[Key, Decimal] = {}
    for (key, _), taken in given.items():
        totals[key] = totals.get(key, ZERO) + taken
    return totals


def _left(key: Key, demand: Demand, totals: dict[str, dict[Key, Decimal]]) -> Range:
    """Return what is left, each scenario's own: a group at its greatest may leave less for the next one."""
    low, usual, high = (
        getattr(demand.count, scenario) - totals[scenario].get(key, ZERO) for scenario in SCENARIOS
    )
    return Range(min(low, usual, high), usual, max(low, usual, high))


def _use(stock: _Stock) -> Use:
    """Return what a commitment costs and its used share: of its dearest resource where it has several."""
    commitment = stock.commitment
    bought = capacity(commitment)
    unit = next(iter(bought))  # cards come first
    hours = bought[unit] * commitment.month_hours
    used = min(Decimal(1), stock.taken.get(unit, ZERO) / hours) if hours else ZERO
    paid = commitment.paid_per_hour * commitment.month_hours
    return Use(commitment.id, commitment.kind, commitment.label, commitment.end, paid, used)
