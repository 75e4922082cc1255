"""A bill grouped by pool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from gpufleet.cost.money import Range
from gpufleet.cost.pricing.bill import Bill, Charge


@dataclass(frozen=True)
class PoolCost:
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
    unit: str = ""  # of what bills by use: GiB-months, requests
    is_by_size: bool = False  # the count is GiB
    owned_nodes: int = 0  # of a rack: its count is 1


def group_charges_by_pool(bill: Bill) -> list[PoolCost]:
    """Group charges for the same item on the same terms; the most expensive pool first."""
    groups: dict[tuple[str, str, str, str, Decimal, str], list[Charge]] = {}
    for charge in bill.charges:
        key = (
            charge.pool,
            charge.item,
            charge.region,
            charge.purchase,
            charge.hours_per_month,
            _unit(charge),
        )
        groups.setdefault(key, []).append(charge)
    pools = [_sum_pool(charges) for charges in groups.values()]
    pool_totals = {
        pool.name: sum(p.usd_per_month.expected for p in pools if p.name == pool.name) for pool in pools
    }
    return sorted(pools, key=lambda pool: (-pool_totals[pool.name], pool.name, *_sort_key(pool)))


def _sum_pool(charges: Iterable[Charge]) -> PoolCost:
    pool_charges = list(charges)
    first = pool_charges[0]
    return PoolCost(
        name=first.pool,
        component=first.component.partition(":")[0],
        machine=first.item,
        region=first.region,
        purchase=first.purchase,
        count=Range.sum_ranges(charge.quantity for charge in pool_charges),
        hours=first.hours_per_month,
        usd_per_hour=Range.sum_ranges(charge.usd_per_hour for charge in pool_charges),
        usd_per_month=Range.sum_ranges(charge.usd_per_month for charge in pool_charges),
        unit=_unit(first),
        is_by_size=first.is_by_size,
        owned_nodes=sum(charge.owned_nodes for charge in pool_charges),
    )


def _unit(charge: Charge) -> str:
    return charge.monthly_use.unit_name if charge.monthly_use else ""


def _sort_key(pool: PoolCost) -> tuple[Decimal, str, str]:
    return (-pool.usd_per_month.expected, pool.machine, pool.purchase)
