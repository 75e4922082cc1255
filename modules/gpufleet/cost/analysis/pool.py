"""A bill by pool: what a reader who declared pools wants to see first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from gpufleet.cost.money import Range
from gpufleet.cost.pricing.bill import Bill, Charge


@dataclass(frozen=True)
class Pool:
    """One pool's machines (or its disks, addresses), summed."""

    name: str
    component: str
    machine: str
    region: str
    purchase: str
    count: Range
    hours: Decimal
    usd_per_hour: Range
    usd_per_month: Range


def by_pool(bill: Bill) -> list[Pool]:
    """Group charges that bill the same thing on the same terms; the dearest pool first."""
    groups: dict[tuple[str, str, str, str, Decimal], list[Charge]] = {}
    for charge in bill.charges:
        key = (charge.pool, charge.item, charge.region, charge.purchase, charge.hours_per_month)
        groups.setdefault(key, []).append(charge)
    pools = [_pool(charges) for charges in groups.values()]
    sums = {pool.name: sum(p.usd_per_month.expected for p in pools if p.name == pool.name) for pool in pools}
    return sorted(pools, key=lambda pool: (-sums[pool.name], pool.name, *_order(pool)))


def _pool(charges: Iterable[Charge]) -> Pool:
    listed = list(charges)
    first = listed[0]
    return Pool(
        name=first.pool,
        component=first.component.partition(":")[0],
        machine=first.item,
        region=first.region,
        purchase=first.purchase,
        count=Range.total(charge.quantity for charge in listed),
        hours=first.hours_per_month,
        usd_per_hour=Range.total(charge.usd_per_hour for charge in listed),
        usd_per_month=Range.total(charge.usd_per_month for charge in listed),
    )


def _order(pool: Pool) -> tuple[Decimal, str, str]:
    return (-pool.usd_per_month.expected, pool.machine, pool.purchase)
