"""Prices of parts: disks, addresses, gateways, from the embedded snapshot and the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from gpufleet.catalog import price_query, price_table
from gpufleet.catalog.cloud import CLOUDS
from gpufleet.catalog.entry import Price
from gpufleet.catalog.prices import snapshot
from gpufleet.catalog.prices.reader import open_price_reader

STORED_PART_KEYS = "SELECT cloud, region, item, purchase FROM current WHERE kind = 'part' AND item = ?"
PartOffer = tuple[str, str, str, Price]  # cloud, region, part


def search_part_offers(
    part: str,
    *,
    cloud: str | None = None,
    region: str | None = None,
    purchase: str | None = None,
    on_date: date | None = None,
) -> Iterator[PartOffer]:
    """Yield the current prices of a part by cloud and region; of a region without one, that which stands for it."""
    store = open_price_reader()
    keys = {
        (each_cloud, cells[0], part, cells[1])
        for each_cloud in CLOUDS
        for cells in price_table.find_item_rows("part", each_cloud, part)
    }
    keys |= {
        (row[0], row[1], row[2], row[3]) for row in (store.run_query(STORED_PART_KEYS, part) if store else ())
    }
    keys |= {
        (each_cloud, each_region, part, each_purchase)
        for each_cloud in CLOUDS
        for each_region in snapshot.list_snapshot_regions(each_cloud, part, "part")
        for each_purchase in snapshot.PURCHASES
    }
    criteria = (cloud, region, None, purchase)
    is_found = False
    for key in sorted(keys):
        if all(expected in (None, actual) for expected, actual in zip(criteria, key, strict=True)):
            price = price_query.find_cloud_part_price(*key, on_date=on_date)
            if price is not None:
                is_found = True
                yield key[0], key[1], key[2], price
    if region and not is_found and purchase in (None, "on_demand"):
        yield from _estimate_offers(part, cloud, region, on_date)


def _estimate_offers(part: str, cloud: str | None, region: str, on_date: date | None) -> Iterator[PartOffer]:
    from gpufleet.catalog.regional_price import estimate_regional_price

    for each in CLOUDS if cloud is None else [cloud]:
        if estimate := estimate_regional_price("part", each, region, part, on_date):
            source = f"{estimate.note}; {estimate.price.source}"
            yield each, region, part, replace(estimate.price, region=region, source=source, confidence="low")
