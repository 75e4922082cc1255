"""AWS's spot price history for the machines of a pool, summarised per zone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gpufleet import catalog, fleet, paths
from gpufleet.catalog.prices.refresh.aws import (
    LINUX_PRODUCT,
    ClientFactory,
    iterate_page_items,
    translate_boto_errors,
)
from gpufleet.errors import InputError
from gpufleet.nodes.cloud_api.account import take_bounded
from gpufleet.nodes.cloud_api.aws import build_client_factory, create_client

NAME = "spot price history"
MAX_CHANGES = 20_000

Change = tuple[datetime, float]


@dataclass(frozen=True)
class ZoneSpotPrices:
    """Prices of one machine in one zone. ``mean_usd`` is weighted by time, as is ``share_over_cap``."""

    machine: str
    zone: str
    now_usd: float
    low_usd: float
    mean_usd: float
    high_usd: float
    changes: int
    on_demand_usd: float | None
    share_over_cap: float | None

    def format_line(self) -> str:
        """Return the zone as one line."""
        saving = ""
        if self.on_demand_usd:
            saving = f", {1 - self.mean_usd / self.on_demand_usd:.0%} below on demand"
        over = "" if self.share_over_cap is None else f", over the cap {self.share_over_cap:.0%} of the time"
        return (
            f"{self.zone}  {self.machine}  now {self.now_usd:.4f}, mean {self.mean_usd:.4f} "
            f"({self.low_usd:.4f} to {self.high_usd:.4f}, {self.changes} changes){saving}{over}"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the zone for programs."""
        return asdict(self)


def summarise_pool_spot_prices(
    stack: str, pool_name: str, days: int, root: Path | None = None, create: ClientFactory | None = None
) -> list[ZoneSpotPrices]:
    """Return the zones of a pool, cheapest mean first."""
    declared = fleet.load_fleet(stack, root or paths.find_project_root())
    pool = declared.find_pool(pool_name)
    if pool is None:
        names = ", ".join(each.name for each in declared.pools) or "none"
        raise InputError(
            f"pool {pool_name!r} not found", where="--pool", remedy=f"pools of {stack} are {names}"
        )
    if pool.cloud != "aws":
        raise InputError(
            f"pool {pool_name} is on {pool.cloud}", where="--pool", remedy="only AWS has a price history"
        )
    rungs = [rung for rung in pool.purchase.rungs if rung.kind == "spot"]
    others = [name for rung in rungs for name in getattr(rung, "machines", ())]
    cap = next((rung.max_usd_per_hour for rung in rungs), None)
    until_now = datetime.now(UTC)
    since = until_now - timedelta(days=days)
    create = create or build_client_factory(declared.find_account_part(pool.name).aws)
    history = fetch_history(pool.region, [pool.machine, *others], since, until_now, create)
    zones = set(pool.zones)
    chosen = {key: changes for key, changes in history.items() if not zones or key[1] in zones}
    return sorted(
        (
            summarise_zone(*key, changes, since, until_now, region=pool.region, cap=cap)
            for key, changes in chosen.items()
        ),
        key=lambda row: (row.mean_usd, row.zone, row.machine),
    )


def fetch_history(
    region: str,
    machines: Sequence[str],
    since: datetime,
    until_now: datetime,
    create: ClientFactory = create_client,
) -> dict[tuple[str, str], list[Change]]:
    """Return the price changes by (machine, zone), oldest first; the first may be before ``since``."""
    parameters = {
        "InstanceTypes": list(dict.fromkeys(machines)),
        "ProductDescriptions": [LINUX_PRODUCT],
        "StartTime": since,
        "EndTime": until_now,
        "MaxResults": 1000,
    }
    with translate_boto_errors("ec2:DescribeSpotPriceHistory", NAME):
        call = create("ec2", region).describe_spot_price_history
        items = iterate_page_items(call, "NextToken", "SpotPriceHistory", NAME, **parameters)
        return _group_changes(take_bounded(items, NAME, MAX_CHANGES))


def _group_changes(items: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[Change]]:
    changes: defaultdict[tuple[str, str], list[Change]] = defaultdict(list)
    for item in items:
        moment, price = item.get("Timestamp"), float(item.get("SpotPrice") or "nan")
        if isinstance(moment, datetime) and 0 < price < float("inf"):
            changes[str(item.get("InstanceType")), str(item.get("AvailabilityZone"))].append((moment, price))
    return {key: sorted(rows) for key, rows in changes.items()}


def summarise_zone(
    machine: str,
    zone: str,
    changes: Sequence[Change],
    since: datetime,
    until_now: datetime,
    *,
    region: str = "",
    cap: float | None = None,
) -> ZoneSpotPrices:
    """Return the summary of one zone. A price holds until the next change; before the first nothing is known. Pure."""
    spans = list(_spans(changes, since, until_now))
    seconds = sum(length for length, _ in spans) or 1.0
    mean = sum(length * price for length, price in spans) / seconds if spans else changes[-1][1]
    over = sum(length for length, price in spans if cap is not None and price > cap) / seconds
    prices = [price for _, price in spans] or [changes[-1][1]]
    on_demand = catalog.find_machine_price("aws", region, machine, "on_demand")
    return ZoneSpotPrices(
        machine,
        zone,
        changes[-1][1],
        min(prices),
        round(mean, 6),
        max(prices),
        sum(since <= moment <= until_now for moment, _ in changes),
        on_demand.usd_per_hour if on_demand else None,
        None if cap is None else round(over, 4),
    )


def _spans(changes: Sequence[Change], since: datetime, until_now: datetime) -> Iterator[tuple[float, float]]:
    """Yield (seconds, price) of each time between two changes, within the window."""
    span_ends = [moment for moment, _ in changes[1:]] + [until_now]
    for (moment, price), until in zip(changes, span_ends, strict=True):
        length = (min(until, until_now) - max(moment, since)).total_seconds()
        if length > 0:
            yield length, price
