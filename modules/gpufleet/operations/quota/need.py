"""What a declared fleet needs of each quota bucket. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from gpufleet import catalog, fleet

QuotaUnit = Literal["vcpus", "gpus"]
GLOBAL = "global"
GCP_GLOBAL_BUCKET = (
    "GPUS_ALL_REGIONS"  # a second gate: all GPUs of a project, whatever their region and purchase
)
AZURE_SPOT_BUCKET = "lowPriorityCores"
SAME_BUCKET = {"committed": "on_demand", "reserved": "on_demand"}
"""Which purchase's bucket counts where the facts name none of its own.

A commitment is a price; a reservation and its instances use the on-demand limit."""


@dataclass(frozen=True)
class QuotaNeed:
    """How much of one bucket the pools of a stack take at their largest count.

    ``bucket`` is None if no source names it.
    """

    cloud: str
    region: str
    purchase: str
    bucket: str | None
    unit: QuotaUnit | None
    amount: int | None
    pools: tuple[str, ...]
    machines: tuple[str, ...]
    account: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what makes two needs one: machines without a known bucket share nothing."""
        return (self.cloud, self.region, self.bucket or f"{self.machines[0]} {self.purchase}")


def list_quota_needs(declared: fleet.Fleet) -> list[QuotaNeed]:
    """Return the needs of all pools of one account, one per bucket. Each rung of a ladder needs the whole count."""
    needs: dict[tuple[str, str, str], QuotaNeed] = {}
    for pool in declared.pools:
        for need in _list_pool_needs(pool):
            known = needs.get(need.key)
            needs[need.key] = need if known is None else _add(known, need)
    return [replace(need, account=declared.account) for _, need in sorted(needs.items())]


def _add(first: QuotaNeed, second: QuotaNeed) -> QuotaNeed:
    amount = None if first.amount is None or second.amount is None else first.amount + second.amount
    return replace(
        first,
        amount=amount,
        pools=tuple(dict.fromkeys((*first.pools, *second.pools))),
        machines=tuple(dict.fromkeys((*first.machines, *second.machines))),
    )


def _list_pool_needs(pool: fleet.Pool) -> Iterator[QuotaNeed]:
    if not pool.count.max:
        return
    gpus = _count_gpus(pool)
    purchases = (_bucket_purchase(rung) for rung in pool.purchase.rungs)
    needs = [_build_need(pool, purchase, gpus) for purchase in purchases if purchase]
    yield from {need.key: need for need in needs}.values()
    if pool.cloud == "gcp" and needs and gpus:
        amount = gpus * pool.count.max
        yield QuotaNeed(
            "gcp", GLOBAL, "any", GCP_GLOBAL_BUCKET, "gpus", amount, (pool.name,), (pool.machine,)
        )


def _bucket_purchase(rung: fleet.Purchase) -> str | None:
    """Return the purchase whose bucket a rung needs; None for a reservation that exists: it counts already."""
    exists = rung.kind in ("reserved", "capacity_block") and rung.reservation not in (None, "create")
    return None if exists else rung.kind


def _build_need(pool: fleet.Pool, purchase: str, gpus: int) -> QuotaNeed:
    facts = fleet.find_pool_facts(pool)
    buckets = facts.quota_buckets if facts else {}
    bucket = buckets.get(purchase) or buckets.get(SAME_BUCKET.get(purchase, ""))
    name = SAME_BUCKET.get(purchase, purchase)
    unit = facts.quota_units if facts else None
    if pool.cloud == "azure":
        unit, bucket = "vcpus", bucket or (AZURE_SPOT_BUCKET if name == "spot" else None)
    vcpus = catalog.get_machine(pool.machine, pool.cloud).vcpus
    each = {"vcpus": vcpus, "gpus": gpus, None: None}[unit]
    amount = each * pool.count.max if each else None
    return QuotaNeed(pool.cloud, pool.region, name, bucket, unit, amount, (pool.name,), (pool.machine,))


def _count_gpus(pool: fleet.Pool) -> int:
    if pool.accelerators:
        return pool.accelerators.count
    return sum(card.count for card in catalog.get_machine(pool.machine, pool.cloud).accelerators)
