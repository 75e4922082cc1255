"""Machine offers by region and purchase, merged from embedded prices and the price store; the newer price wins."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from itertools import islice
from typing import Any

from gpufleet.catalog import data_file
from gpufleet.catalog.entry import Machine, MachineAccelerators, MachineOffer, Price
from gpufleet.catalog.offer_filter import ComparisonUnit, OfferFilter, matches_accelerator_name
from gpufleet.catalog.prices import reader, schema

MACHINE_COLUMNS = (
    "vcpus, memory_gib, arch, accelerator, accelerators, accelerator_memory_gib, m.source, m.as_of"
)


def search_offers(
    *,
    cloud: str | None = None,
    region: str | None = None,
    machine: str | None = None,
    purchase: str | None = None,
    accelerator: str | None = None,
    count: int | None = None,
    max_usd_per_hour: float | None = None,
    on_date: date | None = None,
    compare_by: ComparisonUnit = "machine",
    min_vcpus: int | None = None,
    min_memory_gib: float | None = None,
    has_attached: bool = True,
    limit: int | None = None,
) -> Iterator[MachineOffer]:
    """Yield the matching offers, cheapest first.

    ``accelerator`` is a catalogue name or part of one (``h100``, ``a100 80gb``). With ``count``, the cost of all
    machines for so many accelerators is compared; else the cost of one machine or one accelerator.
    """
    offer_filter = OfferFilter(
        cloud, region, machine, purchase, accelerator, count, max_usd_per_hour, on_date, compare_by, min_vcpus,
        min_memory_gib, has_attached,
    )  # fmt: skip
    return islice(iterate_matching_offers(offer_filter, limit), limit)


def iterate_matching_offers(offer_filter: OfferFilter, limit: int | None = None) -> Iterator[MachineOffer]:
    """Merge all lists lazily: the store is read only as far as the caller iterates, at most ``limit`` offers."""
    listed = [offer for offer in _list_embedded_offers(offer_filter) if offer_filter.matches_offer(offer)]
    listed.sort(key=_sort_key(offer_filter))
    attached: list[MachineOffer] = []
    if offer_filter.includes_attached_cards:
        from gpufleet.catalog.attached_offer import iterate_attached_offers

        attached += sorted(iterate_attached_offers(offer_filter), key=_sort_key(offer_filter))
    store = reader.open_price_reader()
    embedded: Iterable[MachineOffer] = listed
    if offer_filter.includes_ordinary_machines:
        from gpufleet.catalog.prices.snapshot_search import iterate_ordinary_offers

        ordinary = iterate_ordinary_offers(offer_filter, limit if store is None else None)
        embedded = heapq.merge(listed, ordinary, key=_sort_key(offer_filter))
    if store is None:
        return heapq.merge(embedded, attached, key=_sort_key(offer_filter))
    newer_embedded = (
        offer
        for offer in embedded
        if _is_newer(offer, store.find_newest_price(*_offer_key(offer), offer_filter.on_date))
    )
    newer_stored = (
        offer
        for offer, day in _query_stored_offers(store, offer_filter)
        if _find_embedded_day(offer, offer_filter.on_date) <= day
    )
    return heapq.merge(newer_embedded, newer_stored, attached, key=_sort_key(offer_filter))


def _find_embedded_day(offer: MachineOffer, on_date: date | None) -> str:
    """Return the day of the newest embedded price of a stored offer, dated ``on_date`` or earlier."""
    from gpufleet.catalog.prices import snapshot

    key = _offer_key(offer)
    prices = (data_file.load_machine_prices().get(key), snapshot.find_snapshot_price("machine", *key))
    days = (_price_day(price) for price in prices if price)
    return max((day for day in days if on_date is None or day <= on_date.isoformat()), default="")


def _is_newer(offer: MachineOffer, stored: tuple[Price, str] | None) -> bool:
    return stored is None or stored[1] < _price_day(offer.price)


def check_accelerator_name(query: str) -> None:
    """Raise InputError if neither a priced machine nor the catalogue has an accelerator of that name."""
    store = reader.open_price_reader()
    models = {card.model for machine in data_file.load_machines().values() for card in machine.accelerators}
    models |= set(_list_stored_accelerators(store)) if store else set()
    if not any(matches_accelerator_name(query, model) for model in models):
        from gpufleet.catalog.query import get_accelerator

        get_accelerator(query)  # raises with suggestions; a known card that no cloud rents has no offers


def _list_embedded_offers(offer_filter: OfferFilter) -> Iterator[MachineOffer]:
    machines, on_date = data_file.load_machines(), offer_filter.on_date
    prices = data_file.iterate_machine_prices(offer_filter.cloud, offer_filter.machine)
    for (cloud, region, name, purchase), price in prices:
        if on_date is None or _price_day(price) <= on_date.isoformat():
            yield MachineOffer(machines[cloud, name], region, purchase, price)


def _query_stored_offers(
    store: reader.PriceReader, offer_filter: OfferFilter
) -> Iterator[tuple[MachineOffer, str]]:
    query, values = _build_query(store, offer_filter)
    build_machine_once = _machine_factory()
    for cloud, item, day, *columns in store.run_query(query, *values):
        price, facts = reader.build_price_from_columns(tuple(columns[:7])), tuple(columns[7:])
        yield (
            MachineOffer(build_machine_once(cloud, item, facts), price.region, price.purchase, price),
            day,
        )


def _build_query(store: reader.PriceReader, offer_filter: OfferFilter) -> tuple[str, list[Any]]:
    prices, values = "current", []
    if offer_filter.on_date is not None:
        prices = f"({schema.SELECT_AS_OF})"
        values.append(offer_filter.on_date.isoformat())
    conditions, condition_values = _build_conditions(store, offer_filter)
    cost = {"machine": "c.usd_per_hour", "accelerator": "c.each"}[offer_filter.compare_by]
    if offer_filter.count:
        cost = f"c.usd_per_hour * ceiling({int(offer_filter.count)} / c.accelerators)"
    if offer_filter.max_usd_per_hour is not None:
        conditions.append(f"{cost} <= ?")
        condition_values.append(offer_filter.max_usd_per_hour)
    columns = ", ".join(f"c.{name}" for name in f"cloud, item, dated, {reader.PRICE_COLUMNS}".split(", "))
    query = (
        f"SELECT {columns}, {MACHINE_COLUMNS.replace('accelerator', 'm.accelerator')} "  # noqa: S608 - our own column names
        f"FROM {prices} c LEFT JOIN machines m ON m.cloud = c.cloud AND m.item = c.item "
        f"WHERE {' AND '.join(conditions)} ORDER BY {cost}, c.item, c.region, c.purchase"
    )
    return query, [*values, *condition_values]


def _build_conditions(store: reader.PriceReader, offer_filter: OfferFilter) -> tuple[list[str], list[Any]]:
    conditions, values = ["c.kind = 'machine'"], list[Any]()
    criteria = {
        "cloud": offer_filter.cloud,
        "region": offer_filter.region,
        "item": offer_filter.machine,
        "purchase": offer_filter.purchase,
    }
    for column, value in criteria.items():
        if value is not None:
            conditions.append(f"c.{column} = ?")
            values.append(value)
    if offer_filter.accelerator:
        models = [
            model
            for model in _list_stored_accelerators(store)
            if matches_accelerator_name(offer_filter.accelerator, model)
        ]
        conditions.append(f"c.accelerator IN ({', '.join('?' * len(models))})")
        values += models
    if offer_filter.needs_accelerators:
        conditions.append("c.accelerators > 0")
    sizes = {"m.vcpus": offer_filter.min_vcpus, "m.memory_gib": offer_filter.min_memory_gib}
    for column, minimum in sizes.items():
        if minimum is not None:
            conditions.append(f"{column} >= ?")
            values.append(minimum)
    return conditions, values


def _list_stored_accelerators(store: reader.PriceReader) -> Iterator[str]:
    for (model,) in store.run_query("SELECT DISTINCT accelerator FROM machines WHERE accelerator <> ''"):
        yield model


def _machine_factory() -> Callable[[str, str, tuple[Any, ...]], Machine]:
    """Return a function that builds each machine once: from the catalogue, else from the price list's columns."""
    machines = dict(data_file.load_machines())

    def build_machine_once(cloud: str, name: str, facts: tuple[Any, ...]) -> Machine:
        if (cloud, name) not in machines:
            machines[cloud, name] = _build_machine(cloud, name, *facts)
        return machines[cloud, name]

    return build_machine_once


def _build_machine(cloud: str, name: str, *facts: Any) -> Machine:
    vcpus, memory, arch, model, card_count, card_memory, source, as_of = facts
    count = max(1, round(card_count or 0))
    accelerators = (
        (MachineAccelerators(model, count, card_memory or 0.0, card_count / count),)
        if model and card_count
        else ()
    )
    return Machine(
        name,
        cloud,
        vcpus or 0,
        memory or 0.0,
        arch or "",
        accelerators,
        (),
        source or "",
        as_of or "",
    )


def _sort_key(offer_filter: OfferFilter) -> Callable[[MachineOffer], tuple[Any, ...]]:
    return lambda offer: (
        offer_filter.comparison_usd_per_hour(offer),
        offer.machine.name,
        offer.region,
        offer.purchase,
    )


def _offer_key(offer: MachineOffer) -> tuple[str, str, str, str]:
    return (offer.machine.cloud, offer.region, offer.machine.name, offer.purchase)


def _price_day(price: Price) -> str:
    return price.earliest_price_date.isoformat() if price.earliest_price_date else ""


def find_cheapest_commitments(
    offers: Iterable[MachineOffer], on_date: date | None = None
) -> dict[tuple[str, ...], Price]:
    """Return the cheapest commitment for the machine and region of each spot offer; attached cards have none."""
    from gpufleet.catalog.price_query import find_machine_price
    from gpufleet.catalog.prices.row import COMMITMENTS

    spot = (offer for offer in offers if offer.purchase == "spot")
    keys = {
        _offer_key(offer)[:3] for offer in spot if not (offer.machine.attachable and offer.accelerator_count)
    }
    cheapest: dict[tuple[str, ...], Price] = {}
    for cloud, region, name in keys:
        commitments = [
            commitment
            for kind in COMMITMENTS
            if (commitment := find_machine_price(cloud, region, name, kind, on_date))
        ]
        if commitments:
            cheapest[cloud, region, name] = min(commitments, key=lambda commitment: commitment.usd_per_hour)
    return cheapest
