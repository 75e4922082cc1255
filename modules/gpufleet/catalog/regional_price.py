"""The price of a machine or part in a region whose price nobody recorded: that of another region, with a band.

The region that stands for it has the closest price level, which is the median ratio of machine prices to those of the
cloud's first region. A local zone has its parent's price. The band is the lowest and the highest price of the item in
all regions; with fewer than three, it is what nine in ten prices of the cloud differ between regions. Only on-demand
prices are estimated, and only in regions that some price list names: a misspelt region has no price.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache
from math import inf, log
from statistics import median, quantiles

from gpufleet.catalog import data_file, price_query, price_table
from gpufleet.catalog.cloud import get_cloud
from gpufleet.catalog.entry import Price
from gpufleet.catalog.prices import snapshot
from gpufleet.catalog.prices.row import Kind

FIRST_REGIONS = {"aws": "us-east-1", "azure": "eastus", "gcp": "us-central1"}
GLOBAL = "global"  # the region of a price that holds everywhere
LEAST_REGIONS = 3  # of an item, so that its own prices are the band
LEAST_MACHINES = 5  # that two regions share, so that their ratio is a level
SAMPLE_STEP = 5  # a level is of every fifth machine: a region has hundreds
TWENTIETHS = 20  # the first and the last are what nine in ten are between


@dataclass(frozen=True)
class RegionalPrice:
    """A price of another region, and the bounds of the item's price in USD per unit and hour."""

    price: Price
    low: float
    high: float
    regions: int  # with a price of the item

    @property
    def note(self) -> str:
        """Return which region's price it is, for a report."""
        return f"priced as {self.price.region}"

    @property
    def basis(self) -> str:
        """Return what the band comes from."""
        if self.regions >= LEAST_REGIONS:
            return f"the lowest and the highest of {self.regions} regions"
        return "what nine in ten of the cloud's prices differ between regions"


@lru_cache(maxsize=4096)
def estimate_regional_price(
    kind: Kind, cloud: str, region: str, item: str, on_date: date | None = None
) -> RegionalPrice | None:
    """Return the on-demand price of the region most like this one; None if the item or the region is unknown.

    None also of a machine that a source lists as not sold in the region.
    """
    if region not in list_priced_regions(cloud) or (kind == "machine" and _is_refused(cloud, region, item)):
        return None
    find = price_query.find_machine_price if kind == "machine" else price_query.find_cloud_part_price
    known = {
        each: price
        for each in _list_item_regions(kind, cloud, item)
        if each != region and (price := find(cloud, each, item, "on_demand", on_date))
    }
    if not known:
        return None
    if GLOBAL in known:
        usd = known[GLOBAL].usd_per_hour
        return RegionalPrice(known[GLOBAL], usd, usd, len(known))
    price = known[min(known, key=lambda each: _distance(cloud, region, each))]
    usual = [each.usd_per_hour for name, each in known.items() if _is_usual_region(cloud, name)]
    if len(usual) >= LEAST_REGIONS:
        return RegionalPrice(
            price, min(*usual, price.usd_per_hour), max(*usual, price.usd_per_hour), len(usual)
        )
    low, high = _load_usual_spread(cloud)
    return RegionalPrice(price, price.usd_per_hour * low, price.usd_per_hour * high, len(usual))


@cache
def list_priced_regions(cloud: str) -> frozenset[str]:
    """Return the regions that some price list names, with local zones and ``global``."""
    return frozenset({
        *(region for of, region, _ in snapshot.list_region_members() if of == cloud),
        *data_file.list_accelerator_regions(cloud),
        *(cells[1] for cells in price_table.iterate_table_rows("part", cloud)),
    })  # fmt: skip


@cache
def find_price_level(cloud: str, region: str) -> float | None:
    """Return the price level of a region: 1 is the cloud's first region; None if too few machines have a price."""
    first = snapshot.sample_machine_prices(cloud, FIRST_REGIONS.get(cloud, ""), SAMPLE_STEP)
    prices = snapshot.sample_machine_prices(cloud, region, SAMPLE_STEP)
    ratios = [usd / first[item] for item, usd in prices.items() if item in first]
    return median(ratios) if len(ratios) >= LEAST_MACHINES else None


def _list_item_regions(kind: Kind, cloud: str, item: str) -> set[str]:
    if kind == "machine":
        return set(price_query.list_machine_regions(cloud, item))
    listed = {cells[0] for cells in price_table.find_item_rows("part", cloud, item)}
    return (
        listed
        | set(snapshot.list_snapshot_regions(cloud, item, "part"))
        | price_query.list_stored_regions(cloud, item)
    )


def _is_refused(cloud: str, region: str, item: str) -> bool:
    from gpufleet.catalog.offering import is_sold_in

    return is_sold_in(cloud, snapshot.split_system(item)[0], region) is False


def _distance(cloud: str, region: str, other: str) -> tuple[bool, bool, float, bool, str]:
    """Return how little another region is like this one: its parent first, then by price level."""
    level, level_of_other = find_price_level(cloud, region), find_price_level(cloud, other)
    distance = abs(log(level / level_of_other)) if level and level_of_other else inf
    is_first = other == FIRST_REGIONS.get(cloud)
    return (
        not region.startswith(f"{other}-"),
        not _is_usual_region(cloud, other),
        distance,
        not is_first,
        other,
    )


def _is_usual_region(cloud: str, region: str) -> bool:
    return get_cloud(cloud).is_region_name(region)


@cache
def _load_usual_spread(cloud: str) -> tuple[float, float]:
    """Return the first and the last twentieth of the ratios of parts' prices to the median of their regions."""
    prices: dict[str, list[float]] = defaultdict(list)
    for part, region, purchase, _, usd, *_ in price_table.iterate_table_rows("part", cloud):
        if purchase == "on_demand" and _is_usual_region(cloud, region) and float(usd) > 0:
            prices[part].append(float(usd))
    ratios = [usd / median(each) for each in prices.values() if len(each) >= LEAST_REGIONS for usd in each]
    twentieths = quantiles(ratios, n=TWENTIETHS)
    return min(1.0, twentieths[0]), max(1.0, twentieths[-1])
