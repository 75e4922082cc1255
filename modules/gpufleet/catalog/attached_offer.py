"""Offers of machines with attached cards (Google's N1): the machine and each card have a price of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from gpufleet.catalog import data_file
from gpufleet.catalog.attachable_card import CARD_ACCELERATORS, get_card_part
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
                offers = iterate_offers_with_card(machine, model, offer_filter.on_date)
                yield from filter(offer_filter.matches_offer, offers)


def list_card_counts(machine: Machine, model: str) -> dict[int, int]:
    """Return how many of these cards a machine can have, with the vCPUs that it may have at most; empty: unknown."""
    facts = get_machine_facts(machine.name, machine.cloud, model)
    return dict(facts.accelerator_vcpus) if facts else {}


def with_cards(machine: Machine, model: str, count: int) -> Machine:
    """Return the machine with so many cards of that type attached."""
    accelerator = CARD_ACCELERATORS[model]
    cards = MachineAccelerators(accelerator, count, get_accelerator(accelerator).memory_gib)
    return replace(machine, accelerators=(cards,))


def iterate_offers_with_card(
    machine: Machine, model: str, on_date: date | None = None
) -> Iterator[MachineOffer]:
    """Yield the machine with each number of these cards that it takes, in each region that has a price of both."""
    counts = [count for count, vcpus in list_card_counts(machine, model).items() if vcpus >= machine.vcpus]
    for cloud, region, _, card in search_part_offers(
        get_card_part(model), cloud=machine.cloud, on_date=on_date
    ):
        host = find_machine_price(cloud, region, machine.name, card.purchase, on_date)
        if host is None:
            continue
        for count in counts:
            carrier = with_cards(machine, model, count)
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
