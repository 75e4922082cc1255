"""Offers of machines with attached cards (Google's N1): the machine and each card have a price of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from gpufleet.catalog import data_file
from gpufleet.catalog.attachable_card import get_card_part
from gpufleet.catalog.entry import Machine, MachineAccelerators, MachineOffer, Price
from gpufleet.catalog.machine_facts import get_machine_facts
from gpufleet.catalog.offer_filter import OfferFilter, matches_accelerator_name
from gpufleet.catalog.price_query import find_machine_price
from gpufleet.catalog.prices.part_offer import search_part_offers
from gpufleet.catalog.query import get_accelerator


def iterate_attached_offers(offer_filter: OfferFilter) -> Iterator[MachineOffer]:
    """Yield the matching machines with each number of cards that they take, at the prices that ``cost`` adds up."""
    for machine in data_file.load_machines().values():
        if offer_filter.cloud not in {None, machine.cloud} or offer_filter.machine not in {
            None,
            machine.name,
        }:
            continue
        for model in machine.attachable:
            if matches_accelerator_name(offer_filter.accelerator or model, model):
                offers = _iterate_offers_with_card(machine, model, offer_filter.on_date)
                yield from filter(offer_filter.matches_offer, offers)


def _iterate_offers_with_card(machine: Machine, model: str, on_date: date | None) -> Iterator[MachineOffer]:
    facts = get_machine_facts(machine.name, machine.cloud, model)
    counts = (
        [count for count, vcpus in facts.accelerator_vcpus.items() if vcpus >= machine.vcpus] if facts else []
    )
    memory_gib = get_accelerator(model).memory_gib
    for cloud, region, _, card in search_part_offers(
        get_card_part(model), cloud=machine.cloud, on_date=on_date
    ):
        host = find_machine_price(cloud, region, machine.name, card.purchase, on_date)
        if host is None:
            continue
        for count in counts:
            carrier = replace(machine, accelerators=(MachineAccelerators(model, count, memory_gib),))
            yield MachineOffer(carrier, region, card.purchase, _add_prices(host, card, count))


def _add_prices(host: Price, card: Price, count: int) -> Price:
    """Return the price of a machine and its cards; it has a date, and is reliable, only as far as both are."""
    older = min((host, card), key=lambda price: price.earliest_price_date or date.min)
    return replace(
        host,
        usd_per_hour=round(host.usd_per_hour + card.usd_per_hour * count, 6),
        as_of=older.as_of,
        source=f"{host.source} + {card.source}",
        confidence=min(host.confidence, card.confidence, key=("low", "medium", "high").index),
    )
