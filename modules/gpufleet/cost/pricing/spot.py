"""What an hour of useful work costs on spot, and where a commitment is cheaper.

Let M be the hours between interruptions of one machine, C the hours of work between checkpoints, W the hours
that writing one takes, R the hours until a replacement works again (billed, not useful). Interruptions come
at a constant rate, during the writing and the restart too. Then the hours paid for each useful hour are (Daly
2006, "A higher order estimate of the optimum checkpoint interval for restart dumps")

    k = M * e^(R/M) * (e^((C+W)/M) - 1) / C          and without interruptions (C+W) / C

because an interval of C+W hours survives with probability e^(-(C+W)/M) and is repeated until it does. For
rare interruptions k is close to (C+W)/C + (R + C/2)/M: half an interval is lost, and one restart is paid,
each time. A share f of the work runs on demand while spot has no capacity, uninterrupted:

    USD per useful hour = (1 - f) * k * spot + f * (C+W)/C * on-demand

Waiting for capacity costs time and no money: it is not in the figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING

from gpufleet.boundary import read_packaged_rows
from gpufleet.catalog import Price
from gpufleet.catalog.attachable_card import CARD_PREFIX
from gpufleet.cost.formatting import format_hourly_rate, format_hourly_rate_range
from gpufleet.cost.inputs.terms import TERMS
from gpufleet.cost.money import HOURS_PER_MONTH, ONE, ZERO, ZERO_RANGE, Range, round_hourly_rate, to_decimal
from gpufleet.cost.pricing.rates import PriceBook

if TYPE_CHECKING:
    from gpufleet.cost.inputs.usage import ResourceUsage, UsageFile
    from gpufleet.cost.pricing.bill import Bill, Charge
    from gpufleet.engine import StateResource
    from gpufleet.fleet import Fleet

MINUTES_PER_HOUR = Decimal(60)
MAX_INTERVAL_RATIO = 50.0  # hours of an interval per hours between interruptions; beyond it no work completes
WorkloadByPool = dict[str, "SpotWorkload | None"]  # by the name of a pool or the URN of a resource


@dataclass(frozen=True)
class SpotWorkload:
    """How the work on a machine tolerates interruptions.

    ``interruptions_per_month`` are of a machine that runs all month.
    """

    interruptions_per_month: Range
    checkpoint_minutes: Decimal
    restart_minutes: Decimal
    checkpoint_cost_minutes: Decimal = ZERO
    fallback_share: Range = ZERO_RANGE

    @property
    def uninterrupted_billed_hours_per_useful_hour(self) -> Decimal:
        """Return the hours paid per useful hour without interruptions."""
        return (self.checkpoint_minutes + self.checkpoint_cost_minutes) / self.checkpoint_minutes

    def billed_hours_per_useful_hour(self, interruptions_per_month: Decimal) -> Decimal | None:
        """Return k, the hours paid for each useful hour; None if no interval ever completes."""
        if interruptions_per_month == 0:
            return self.uninterrupted_billed_hours_per_useful_hour
        between = HOURS_PER_MONTH / interruptions_per_month
        work, dump, restart = (
            minutes / MINUTES_PER_HOUR
            for minutes in (self.checkpoint_minutes, self.checkpoint_cost_minutes, self.restart_minutes)
        )
        if max(float(restart / between), float((work + dump) / between)) > MAX_INTERVAL_RATIO:
            return None
        attempts = math.exp(float(restart / between)) * math.expm1(float((work + dump) / between))
        return to_decimal(repr(float(between) * attempts / float(work)))


@cache
def load_interruption_bands() -> dict[str, tuple[Decimal, Decimal]]:
    """Return the bands in which AWS publishes interruptions: the low and high share of machines per month."""
    rows = read_packaged_rows("gpufleet.cost", "data/spot_bands.csv")
    return {
        row["band"]: (to_decimal(row.get_number("low_share")), to_decimal(row.get_number("high_share")))
        for row in rows
    }


def band_interruptions_per_month(band: str) -> Range:
    """Return a band's interruptions per machine and month: of a share s, the rate r with e^-r = 1-s."""
    low, high = (to_decimal(repr(-math.log1p(-float(share)))) for share in load_interruption_bands()[band])
    return Range(low, (low + high) / 2, high)


def compute_useful_hour_rate(
    spot: Decimal, on_demand: Decimal | None, workload: SpotWorkload
) -> Range | None:
    """Return USD per useful hour; None if no work completes, or its on-demand fallback has no price."""
    if workload.fallback_share.high > 0 and on_demand is None:
        return None
    fallback_rate = (on_demand or ZERO) * workload.uninterrupted_billed_hours_per_useful_hour
    interruptions, shares = workload.interruptions_per_month, workload.fallback_share
    rates_by_scenario = []
    for count, share in (
        (interruptions.low, shares.low),
        (interruptions.expected, shares.expected),
        (interruptions.high, shares.high),
    ):
        hours = workload.billed_hours_per_useful_hour(count)
        if hours is None:
            return None
        rates_by_scenario.append(round_hourly_rate((1 - share) * hours * spot + share * fallback_rate))
    return Range.spanning(*rates_by_scenario)


def read_fleet_spot_workloads(fleet: Fleet | None) -> WorkloadByPool:
    """Return the workload of each spot pool of a fleet, None where the pool declares none."""
    workloads: WorkloadByPool = {}
    for pool in fleet.pools if fleet else ():
        if pool.purchase.kind == "spot":
            has_fallback = pool.purchase.fallback is not None
            workloads[pool.name] = _fleet_workload(pool.purchase.work, has_fallback=has_fallback)
    return workloads


def read_usage_spot_workloads(resources: Iterable[StateResource], usage: UsageFile) -> WorkloadByPool:
    """Return the workload of each resource in a usage file, by URN."""
    if not (usage.resources or usage.types):
        return {}
    usages = ((resource.urn, usage.find_resource_usage(resource)) for resource in resources)
    return {urn: _usage_workload(each) for urn, each in usages if each.interruptions_per_month is not None}


def _usage_workload(usage: ResourceUsage) -> SpotWorkload:
    return SpotWorkload(
        Range.from_exact_value(usage.interruptions_per_month or 0),
        usage.checkpoint_minutes or ONE.expected,
        usage.restart_minutes or ZERO,
        usage.checkpoint_cost_minutes or ZERO,
        Range.from_exact_value(usage.fallback_share or 0),
    )


def _fleet_workload(work: object, *, has_fallback: bool) -> SpotWorkload | None:
    """Return the workload of a spec; a fallback without a share may run all of it."""
    from gpufleet.fleet import SpotInterruptions

    if not isinstance(work, SpotInterruptions):
        return None
    if work.band:
        interruptions = band_interruptions_per_month(work.band)
    else:
        interruptions = Range.from_exact_value(work.interruptions_per_month or 0)
    fallback_share = Range(ZERO, ZERO, ONE.high if has_fallback else ZERO)
    if work.fallback_share is not None:
        fallback_share = Range.from_exact_value(work.fallback_share)
    return SpotWorkload(
        interruptions,
        to_decimal(work.checkpoint_minutes),
        to_decimal(work.restart_minutes),
        to_decimal(work.checkpoint_cost_minutes),
        fallback_share,
    )


def add_useful_hour_rates(bill: Bill, workloads: WorkloadByPool, book: PriceBook | None = None) -> Bill:
    """Return the bill with USD per useful hour on each spot machine that has a workload."""
    prices, cards = book or PriceBook(), _group_attached_cards(bill)
    charges = (
        _with_useful_hour_rate(charge, cards.get(charge.urn, ()), workloads, prices)
        for charge in bill.charges
    )
    return replace(bill, charges=tuple(charges))


def _with_useful_hour_rate(
    charge: Charge, cards: Sequence[Charge], workloads: WorkloadByPool, book: PriceBook
) -> Charge:
    workload = workloads.get(charge.urn) or workloads.get(charge.pool)
    if workload is None or not _is_spot_machine(charge):
        return charge
    prices = [book.find_machine_price(charge.cloud, charge.region, charge.item, "on_demand")]
    prices += [book.find_cloud_part_price(card.cloud, card.region, card.item, "on_demand") for card in cards]
    counts = [Decimal(1), *(_count_per_machine(card, charge) for card in cards)]
    on_demand = None
    if all(prices):
        on_demand = sum(
            (to_decimal(price.usd_per_hour) * n for price, n in zip(prices, counts, strict=True) if price),
            ZERO,
        )
    useful_rate = compute_useful_hour_rate(_sum_spot_rate(charge, cards), on_demand, workload)
    return replace(charge, usd_per_useful_hour=useful_rate)


def _group_attached_cards(bill: Bill) -> dict[str, list[Charge]]:
    """Return the spot charges of cards that machines carry at a price of their own (Google's N1), by URN."""
    cards: dict[str, list[Charge]] = {}
    for charge in bill.charges:
        if charge.item.startswith(CARD_PREFIX) and charge.price and charge.purchase == "spot":
            cards.setdefault(charge.urn, []).append(charge)
    return cards


def _count_per_machine(card: Charge, machine: Charge) -> Decimal:
    return card.quantity.high / machine.quantity.high if machine.quantity.high else ZERO


def _sum_spot_rate(machine: Charge, cards: Sequence[Charge]) -> Decimal:
    """Return USD per hour of one machine with the cards that it carries."""
    charges = [(machine, Decimal(1)), *((card, _count_per_machine(card, machine)) for card in cards)]
    return sum((to_decimal(each.price.usd_per_hour) * n for each, n in charges if each.price), ZERO)


def _is_spot_machine(charge: Charge) -> bool:
    price_purchase = charge.price.purchase if charge.price else ""
    return charge.component.startswith("machine") and charge.purchase == "spot" and price_purchase == "spot"


def format_spot_notes(bill: Bill, workloads: WorkloadByPool) -> tuple[str, ...]:
    """Return a line per spot pool with the cost of a useful hour, or that it is not known."""
    notes, cards = {}, _group_attached_cards(bill)
    for charge in bill.charges:
        has_workload = charge.pool in workloads or charge.urn in workloads
        if has_workload and _is_spot_machine(charge) and charge.price and charge.quantity.high > 0:
            price = format_hourly_rate(_sum_spot_rate(charge, cards.get(charge.urn, ())))
            useful = _format_useful_rate(charge, workloads)
            notes[charge.pool] = f"{charge.pool}: spot at {price} an hour costs {useful}"
    return tuple(notes[name] for name in sorted(notes))


def _format_useful_rate(charge: Charge, workloads: WorkloadByPool) -> str:
    if workloads.get(charge.urn) is None and workloads.get(charge.pool) is None:
        return "more per useful hour, because interruptions lose work; add purchase.work to compute how much"
    if charge.usd_per_useful_hour is None:
        reason = "it never completes a checkpoint interval, or its fallback has no price"
        return f"an unknown amount per useful hour: {reason}"
    return f"{format_hourly_rate_range(charge.usd_per_useful_hour)} per useful hour, including lost work and restarts"


@dataclass(frozen=True)
class CheaperCommitment:
    """A machine whose spot price per hour is above a commitment's."""

    cloud: str
    region: str
    machine: str
    spot: Price
    commitment: Price

    @property
    def break_even_hours_per_month(self) -> Decimal:
        """Return the hours above which the commitment is cheaper although it bills around the clock."""
        return HOURS_PER_MONTH * to_decimal(self.commitment.usd_per_hour) / to_decimal(self.spot.usd_per_hour)

    def __str__(self) -> str:
        term = self.commitment.purchase.removeprefix("reserved_")
        return (
            f"WARNING: spot of {self.machine} in {self.region} ({_format_dated_price(self.spot)}) costs more "
            f"than a {term} commitment ({_format_dated_price(self.commitment)}), which is cheaper above "
            f"{self.break_even_hours_per_month:.0f} hours a month"
        )


def _format_dated_price(price: Price) -> str:
    return f"{format_hourly_rate(to_decimal(price.usd_per_hour))} an hour, {price.as_of or 'undated'}"


def find_cheaper_commitment(
    cloud: str, region: str, machine: str, book: PriceBook | None = None
) -> CheaperCommitment | None:
    """Return the cheapest commitment below the spot price, None if there is none."""
    prices = book or PriceBook()
    spot = prices.find_machine_price(cloud, region, machine, "spot")
    terms = [prices.find_machine_price(cloud, region, machine, term) for term in TERMS]
    cheapest = min((price for price in terms if price), key=lambda price: price.usd_per_hour, default=None)
    if spot is None or cheapest is None or cheapest.usd_per_hour >= spot.usd_per_hour:
        return None
    return CheaperCommitment(cloud, region, machine, spot, cheapest)


def format_spot_warnings(charges: Iterable[Charge], book: PriceBook | None = None) -> tuple[str, ...]:
    """Return a warning for each spot machine of a bill that costs more than a commitment."""
    return tuple(sorted({str(commitment) for commitment in _cheaper_commitments(charges, book)}))


def _cheaper_commitments(charges: Iterable[Charge], book: PriceBook | None) -> Iterator[CheaperCommitment]:
    for charge in charges:
        if charge.purchase == "spot" and charge.component.startswith("machine"):
            commitment = find_cheaper_commitment(charge.cloud, charge.region, charge.item, book)
            if commitment:
                yield commitment
