"""The cheapest offer of each group of machines: most embedded prices are compared without becoming objects."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import cache

from gpufleet.catalog import data_file, price_table
from gpufleet.catalog.cloud import CLOUDS
from gpufleet.catalog.entry import Machine, MachineOffer
from gpufleet.catalog.offer import search_offers
from gpufleet.catalog.prices import open_price_reader

Group = Callable[[Machine], Hashable]
Filter = Callable[[str, str, str], bool]  # of cloud, region and purchase
DateClass = Callable[[str | None], Hashable]


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
    best: dict[tuple[Hashable, ...], tuple[float, tuple[str, str, str, str, int]]] = {}
    for cloud in CLOUDS:
        for name, region, purchase, usd, number in price_table.iterate_table_rows("machine", cloud):
            kind = groups[cloud, name]
            if kind is None or not matches(cloud, region, purchase):
                continue
            origin = price_table.load_list_origin(int(number))
            key = (kind, purchase, classify_date(origin.as_of))
            compared = (float(usd), (name, region, purchase, cloud, int(number)))
            if key not in best or compared < best[key]:
                best[key] = compared
    for usd_per_hour, (name, region, purchase, cloud, origin_number) in sorted(best.values()):
        price = price_table.build_machine_price([region, purchase, str(usd_per_hour), str(origin_number)])
        yield MachineOffer(machines[cloud, name], region, purchase, price)
