"""Search the embedded prices of machines that the catalogue does not describe, cheapest first.

A search over every cloud and region reads about 190,000 lines: it compares plain tuples, and builds an offer only for
what the caller takes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpufleet.catalog import data_file
from gpufleet.catalog.cloud import CLOUDS
from gpufleet.catalog.entry import Machine, MachineOffer
from gpufleet.catalog.offer_filter import OfferFilter
from gpufleet.catalog.prices import snapshot

Candidate = tuple[float, str, str, str, str]  # USD per hour, machine, region, purchase, cloud


def iterate_ordinary_offers(offer_filter: OfferFilter, limit: int | None = None) -> Iterator[MachineOffer]:
    """Yield the offers of machines without accelerators, cheapest first; at most ``limit``."""
    candidates = (
        _find_candidates(offer_filter) if offer_filter.machine is not None else _scan_candidates(offer_filter)
    )
    if offer_filter.max_usd_per_hour is not None:
        maximum = offer_filter.max_usd_per_hour
        candidates = (each for each in candidates if each[0] <= maximum)
    if limit is not None and offer_filter.on_date is None:
        ordered = iter(heapq.nsmallest(limit, candidates))
    else:
        ordered = _pop_smallest(list(candidates))
    for _, item, region, purchase, cloud in ordered:
        offer = _build_offer(cloud, region, item, purchase, offer_filter)
        if offer:
            yield offer


def _build_offer(
    cloud: str, region: str, item: str, purchase: str, offer_filter: OfferFilter
) -> MachineOffer | None:
    """Return the offer, None if its price is newer than the day asked for or the machine has another size."""
    price = snapshot.find_snapshot_price("machine", cloud, region, item, purchase)
    machine = _find_machine(cloud, item)
    if price is None or machine is None:
        return None
    day = price.earliest_price_date
    if offer_filter.on_date is not None and day is not None and day > offer_filter.on_date:
        return None
    offer = MachineOffer(machine, region, purchase, price)
    return offer if offer_filter.matches_offer(offer) else None


def _find_machine(cloud: str, item: str) -> Machine | None:
    """Return a machine, with the licensed system in its name if the item has one."""
    name, system = snapshot.split_system(item)
    if (cloud, name) in data_file.load_machines():  # the lists have its prices
        return None
    machine = snapshot.find_priced_machine(cloud, name)
    return replace(machine, name=item) if machine and system else machine


def _find_candidates(offer_filter: OfferFilter) -> Iterator[Candidate]:
    """Yield the prices of one machine without accelerators in every region of its cloud."""
    item = offer_filter.machine or ""
    name = snapshot.split_system(item)[0]
    searched = [cloud for cloud in CLOUDS if offer_filter.cloud in (None, cloud)]
    clouds = [cloud for cloud in searched if snapshot.find_sized_machine(cloud, name)]
    clouds = clouds or [cloud for cloud in searched if _find_machine(cloud, item)]
    for cloud, region in _list_regions(offer_filter, clouds):
        for purchase in _list_purchases(offer_filter):
            price = snapshot.find_snapshot_price("machine", cloud, region, item, purchase)
            if price:
                yield price.usd_per_hour, item, region, purchase, cloud


def _scan_candidates(offer_filter: OfferFilter) -> Iterator[Candidate]:
    """Yield the prices of all machines of at least a size, with Linux."""
    columns = [
        (2 + snapshot.PURCHASES.index(purchase), purchase) for purchase in _list_purchases(offer_filter)
    ]
    names = {
        cloud: snapshot.select_sized_machines(
            cloud, offer_filter.min_vcpus or 0, offer_filter.min_memory_gib or 0
        )
        for cloud in {cloud for cloud, _ in _list_regions(offer_filter, CLOUDS)}
    }
    for cloud, region in _list_regions(offer_filter, CLOUDS):
        sized = names[cloud]
        for cells in snapshot.iterate_region_cells(f"{cloud}/machine", region):
            if cells[0] in sized:
                for column, purchase in columns:
                    if cells[column]:
                        yield float(cells[column]), cells[0], region, purchase, cloud


def _list_regions(offer_filter: OfferFilter, clouds: Iterable[str]) -> list[tuple[str, str]]:
    return [
        (cloud, region)
        for cloud in clouds
        if offer_filter.cloud in (None, cloud)
        for region in snapshot.list_table_regions(cloud, "machine")
        if offer_filter.region in (None, region)
    ]


def _list_purchases(offer_filter: OfferFilter) -> tuple[str, ...]:
    if offer_filter.purchase is None:
        return snapshot.PURCHASES
    return tuple(each for each in snapshot.PURCHASES if each == offer_filter.purchase)


def _pop_smallest(candidates: list[Candidate]) -> Iterator[Candidate]:
    heapq.heapify(candidates)
    while candidates:
        yield heapq.heappop(candidates)
