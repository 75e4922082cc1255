"""Spot, honestly: what an hour of work that is kept costs, and where a commitment is cheaper all the same.

Let M be the hours between interruptions of one machine, C the hours of work between checkpoints, W the hours
that writing one takes, R the hours until a replacement works again (billed, useless). Interruptions come at
a constant rate, during the writing and the restart too. Then the hours that are paid for each hour of work
that is kept are (Daly 2006, "A higher order estimate of the optimum checkpoint interval for restart dumps")

    k = M * e^(R/M) * (e^((C+W)/M) - 1) / C          and without interruptions (C+W) / C

because a stretch of C+W hours survives with probability e^(-(C+W)/M) and is begun again until it does. For
rare interruptions k is close to (C+W)/C + (R + C/2)/M: half an interval is lost, and one restart is paid,
each time. A share f of the work runs on demand while spot has no capacity, uninterrupted:

    USD per useful hour = (1 - f) * k * spot + f * (C+W)/C * on-demand

Waiting for capacity costs time and no money: it is not in the figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from gpufleet.boundary import packaged_rows
from gpufleet.catalog import Price
from gpufleet.cost.formatting import rate, rates
from gpufleet.cost.inputs.terms import TERMS
from gpufleet.cost.money import HOURS_PER_MONTH, ONE, ZERO, ZERO_RANGE, Range, round_hourly_rate, to_decimal
from gpufleet.cost.pricing.rates import PriceBook

if TYPE_CHECKING:
    from gpufleet.cost.inputs.usage import Usage, UsageFile
    from gpufleet.cost.pricing.bill import Bill, Charge
    from gpufleet.engine import Resource
    from gpufleet.fleet import Fleet

MINUTES = Decimal(60)
MOST = 50.0  # hours of one stretch per hours between interruptions: beyond it nothing is ever finished


@dataclass(frozen=True)
class SpotWorkload:
    """How the work on a machine bears interruptions. ``per_month`` is of a machine that runs all month."""

    per_month: Range
    checkpoint_minutes: Decimal
    restart_minutes: Decimal
    checkpoint_cost_minutes: Decimal = ZERO
    fallback_share: Range = ZERO_RANGE

    @property
    def stretch(self) -> Decimal:
        """Return the hours paid per useful hour where nothing interrupts."""
        return (self.checkpoint_minutes + self.checkpoint_cost_minutes) / self.checkpoint_minutes

    def paid_per_useful(self, per_month: Decimal) -> Decimal | None:
        """Return k, the hours that are paid for one that is kept; None where no stretch ever ends."""
        if per_month == 0:
            return self.stretch
        between = HOURS_PER_MONTH / per_month
        work, dump, restart = (
            minutes / MINUTES
            for minutes in (self.checkpoint_minutes, self.checkpoint_cost_minutes, self.restart_minutes)
        )
        if max(float(restart / between), float((work + dump) / between)) > MOST:
            return None
        paid = math.exp(float(restart / between)) * math.expm1(float((work + dump) / between))
        return to_decimal(repr(float(between) * paid / float(work)))


@cache
def load_interruption_bands() -> dict[str, tuple[Decimal, Decimal]]:
    """Return the ranges in which AWS publishes interruptions: the share of machines per month, from and to."""
    rows = packaged_rows("gpufleet.cost", "data/spot_bands.csv")
    return {row["band"]: (Decimal(row["low_share"]), Decimal(row["high_share"])) for row in rows}


def band_interruptions_per_month(band: str) -> Range:
    """Return the interruptions per machine and month that a band means: a share s survives as e^-rate = 1-s."""
    low, high = (to_decimal(repr(-math.log1p(-float(share)))) for share in load_interruption_bands()[band])
    return Range(low, (low + high) / 2, high)


def usd_per_useful_hour(spot: Decimal, on_demand: Decimal | None, work: SpotWorkload) -> Range | None:
    """Return USD per useful hour; None where the work never ends, or on-demand is needed and unpriced."""
    if work.fallback_share.high > 0 and on_demand is None:
        return None
    usual = (on_demand or ZERO) * work.stretch
    found = []
    for interruptions, share in zip(_three(work.per_month), _three(work.fallback_share), strict=True):
        paid = work.paid_per_useful(interruptions)
        if paid is None:
            return None
        found.append(round_hourly_rate((1 - share) * paid * spot + share * usual))
    return Range.spanning(*found)


def _three(of: Range) -> tuple[Decimal, Decimal, Decimal]:
    return (of.low, of.expected, of.high)


def read_fleet_workloads(fleet: Fleet | None) -> dict[str, SpotWorkload | None]:
    """Return what each spot pool of a fleet says of its work, None where it says nothing."""
    found: dict[str, SpotWorkload | None] = {}
    for pool in fleet.pools if fleet else ():
        if pool.purchase.kind == "spot":
            found[pool.name] = _work(pool.purchase.work, falls_back=pool.purchase.fallback is not None)
    return found


def read_usage_workloads(resources: Iterable[Resource], usage: UsageFile) -> dict[str, SpotWorkload | None]:
    """Return what a usage file says of the work of each resource, by URN."""
    if not (usage.resources or usage.types):
        return {}
    told = ((resource.urn, usage.for_resource(resource)) for resource in resources)
    return {urn: _of(said) for urn, said in told if said.interruptions_per_month is not None}


def _of(said: Usage) -> SpotWorkload:
    return SpotWorkload(
        Range.of(said.interruptions_per_month or 0),
        said.checkpoint_minutes or ONE.expected,
        said.restart_minutes or ZERO,
        said.checkpoint_cost_minutes or ZERO,
        Range.of(said.fallback_share or 0),
    )


def _work(said: object, *, falls_back: bool) -> SpotWorkload | None:
    """Return a spec's work in this module's terms; a fallback whose share is not said may take all of it."""
    from gpufleet.fleet import SpotWork

    if not isinstance(said, SpotWork):
        return None
    interruptions = (
        band_interruptions_per_month(said.band) if said.band else Range.of(said.interruptions_per_month or 0)
    )
    share = Range(ZERO, ZERO, ONE.high if falls_back else ZERO)
    if said.fallback_share is not None:
        share = Range.of(said.fallback_share)
    return SpotWorkload(
        interruptions,
        to_decimal(said.checkpoint_minutes),
        to_decimal(said.restart_minutes),
        to_decimal(said.checkpoint_cost_minutes),
        share,
    )


def add_useful_hour_rates(
    bill: Bill, works: dict[str, SpotWorkload | None], book: PriceBook | None = None
) -> Bill:
    """Return the bill with USD per useful hour on each spot machine whose pool says how its work bears spot."""
    prices = book or PriceBook()
    return replace(bill, charges=tuple(_annotated(charge, works, prices) for charge in bill.charges))


def _annotated(charge: Charge, works: dict[str, SpotWorkload | None], book: PriceBook) -> Charge:
    work = works.get(charge.urn) or works.get(charge.pool)
    if work is None or not _is_spot_machine(charge) or charge.price is None:
        return charge
    usual = book.machine(charge.cloud, charge.region, charge.item, "on_demand")
    on_demand = to_decimal(usual.usd_per_hour) if usual else None
    return replace(
        charge,
        usd_per_useful_hour=usd_per_useful_hour(to_decimal(charge.price.usd_per_hour), on_demand, work),
    )


def _is_spot_machine(charge: Charge) -> bool:
    bought = charge.price.purchase if charge.price else ""
    return charge.component.startswith("machine") and charge.purchase == "spot" and bought == "spot"


def format_spot_notes(bill: Bill, works: dict[str, SpotWorkload | None]) -> tuple[str, ...]:
    """Say of each spot pool what a useful hour costs, or that nobody said what an interruption costs."""
    said = {}
    told = [charge for charge in bill.charges if charge.pool in works or charge.urn in works]
    for charge in told:
        if _is_spot_machine(charge) and charge.price and charge.quantity.high > 0:
            price = rate(to_decimal(charge.price.usd_per_hour))
            said[charge.pool] = f"{charge.pool}: spot at {price} an hour costs {_useful(charge, works)}"
    return tuple(said[name] for name in sorted(said))


def _useful(charge: Charge, works: dict[str, SpotWorkload | None]) -> str:
    if works.get(charge.urn) is None and works.get(charge.pool) is None:
        return "more per useful hour by what interruptions lose: purchase.work does not say how much"
    if charge.usd_per_useful_hour is None:
        return "an unknown sum per useful hour: it never finishes a stretch, or its fallback has no price"
    return f"{rates(charge.usd_per_useful_hour)} per useful hour, lost work and restarts counted"


@dataclass(frozen=True)
class CheaperCommitment:
    """A place where spot costs more per hour than a commitment does."""

    cloud: str
    region: str
    machine: str
    spot: Price
    commitment: Price

    @property
    def hours_per_month(self) -> Decimal:
        """Return the hours above which the commitment is cheaper although it bills around the clock."""
        return HOURS_PER_MONTH * to_decimal(self.commitment.usd_per_hour) / to_decimal(self.spot.usd_per_hour)

    def __str__(self) -> str:
        term = self.commitment.purchase.removeprefix("reserved_")
        return (
            f"WARNING: spot of {self.machine} in {self.region} ({_dated(self.spot)}) is dearer than a {term} "
            f"commitment ({_dated(self.commitment)}), which is cheaper above {self.hours_per_month:.0f} hours a month"
        )


def _dated(price: Price) -> str:
    return f"{rate(to_decimal(price.usd_per_hour))} an hour, {price.as_of or 'undated'}"


def find_cheaper_commitment(
    cloud: str, region: str, machine: str, book: PriceBook | None = None
) -> CheaperCommitment | None:
    """Return the cheapest commitment that undercuts spot, None where none is known to."""
    prices = book or PriceBook()
    spot = prices.machine(cloud, region, machine, "spot")
    terms = [prices.machine(cloud, region, machine, term) for term in TERMS]
    found = min((price for price in terms if price), key=lambda price: price.usd_per_hour, default=None)
    if spot is None or found is None or found.usd_per_hour >= spot.usd_per_hour:
        return None
    return CheaperCommitment(cloud, region, machine, spot, found)


def format_spot_warnings(charges: Iterable[Charge], book: PriceBook | None = None) -> tuple[str, ...]:
    """Return a line for each spot machine of a bill that a commitment undercuts."""
    return tuple(sorted({str(found) for found in _dearer(charges, book)}))


def _dearer(charges: Iterable[Charge], book: PriceBook | None) -> Iterator[CheaperCommitment]:
    for charge in charges:
        if charge.purchase == "spot" and charge.component.startswith("machine"):
            found = find_cheaper_commitment(charge.cloud, charge.region, charge.item, book)
            if found:
                yield found
