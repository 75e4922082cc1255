"""The cheapest offer of each group of machines: most embedded prices are compared without becoming objects."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import cache
from typing import cast

from gpufleet.boundary import read_packaged_columns
from gpufleet.catalog import data_file
from gpufleet.catalog.entry import Confidence, Machine, MachineOffer, Price
from gpufleet.catalog.offer import search_offers
from gpufleet.catalog.prices import open_price_reader

Group = Callable[[Machine], Hashable]
Filter = Callable[[str, str, str], bool]  # of cloud, region and purchase
DateClass = Callable[[str | None], Hashable]
COLUMNS = ("machine", "region", "purchase", "cloud", "usd_per_hour", "as_of", "source", "confidence")


def find_cheapest_offers(
    group: Group, matches: Filter, classify_date: DateClass = lambda _: None
) -> Iterator[MachineOffer]:
    """Yield the cheapest matching offer of each group, purchase and class of the price's date, cheapest first.

    ``group`` returns what a machine is compared by, None for a machine that is left out.
    """
    classify_date = cache(classify_date)
    if open_price_reader() is None:
        yield from _compare_embedded_prices(group, matches, classify_date)
        return
    seen = set()
    for offer in search_offers():
        key = (group(offer.machine), offer.purchase, classify_date(offer.price.as_of))
        if key[0] is None or key in seen or not matches(offer.machine.cloud, offer.region, offer.purchase):
            continue
        seen.add(key)
        yield offer


def _compare_embedded_prices(
    group: Group, matches: Filter, classify_date: DateClass
) -> Iterator[MachineOffer]:
    machines = data_file.load_machines()
    groups = {key: group(machine) for key, machine in machines.items()}
    best: dict[tuple[Hashable, ...], tuple[float, tuple[str, ...]]] = {}
    for row in read_packaged_columns(data_file.PACKAGE, "data/prices.csv", COLUMNS):
        name, region, purchase, cloud, usd, as_of, *_ = row
        kind = groups[cloud, name]
        if kind is None or not matches(cloud, region, purchase):
            continue
        key, compared = (kind, purchase, classify_date(as_of or None)), (float(usd), row)
        if key not in best or compared < best[key]:
            best[key] = compared
    for usd_per_hour, (name, region, purchase, cloud, _, as_of, source, confidence) in sorted(best.values()):
        price = Price(
            usd_per_hour, "machine", as_of or None, source, cast("Confidence", confidence), region, purchase
        )
        yield MachineOffer(machines[cloud, name], region, purchase, price)
