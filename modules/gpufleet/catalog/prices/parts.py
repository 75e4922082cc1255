"""What is bought beside machines: disks, addresses, gateways, each price of the snapshot and of the store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from gpufleet.catalog import query, table
from gpufleet.catalog.model import Price
from gpufleet.catalog.prices.reader import opened

STORED = "SELECT cloud, region, item, purchase FROM current WHERE kind = 'part' AND item = ?"
Offer = tuple[str, str, str, Price]  # cloud, region, part


def part_offers(
    part: str,
    *,
    cloud: str | None = None,
    region: str | None = None,
    purchase: str | None = None,
    on: date | None = None,
) -> Iterator[Offer]:
    """Yield a part's prices, those that a look-up gives, by cloud and region."""
    store = opened()
    keys = {key for key in table.part_prices() if key[2] == part}
    keys |= {(row[0], row[1], row[2], row[3]) for row in (store.ask(STORED, part) if store else ())}
    asked = (cloud, region, None, purchase)
    for key in sorted(keys):
        if all(want in (None, have) for want, have in zip(asked, key, strict=True)):
            price = query.part_price(*key, on=on)
            if price is not None:
                yield key[0], key[1], key[2], price
