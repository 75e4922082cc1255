"""What can be bought where, and how: the embedded snapshot and the store as one list, the newer price winning."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import Any, Literal

from gpufleet.catalog import table
from gpufleet.catalog.model import AcceleratorCount, Machine, MachineOffer, Price
from gpufleet.catalog.prices import reader, schema

Order = Literal["machine", "accelerator"]
FACTS = "vcpus, memory_gib, arch, accelerator, accelerators, accelerator_memory_gib, m.source, m.as_of"


@dataclass(frozen=True)
class Wanted:
    """Which offers: None means any. ``count`` accelerators in all are bought as whole machines."""

    cloud: str | None = None
    region: str | None = None
    machine: str | None = None
    purchase: str | None = None
    accelerator: str | None = None
    count: int | None = None
    most_usd: float | None = None
    on: date | None = None
    by: Order = "machine"

    def cost(self, offer: MachineOffer) -> float:
        """Return what offers are compared by: dollars per hour of what is wanted."""
        usd = offer.price.usd_per_hour
        if self.count:
            return usd * math.ceil(self.count / max(offer.accelerators, 1e-9))
        return usd / max(offer.accelerators, 1e-9) if self.by == "accelerator" else usd

    @property
    def of_cards(self) -> bool:
        """Tell whether machines without accelerators cannot be compared."""
        return bool(self.count) or self.by == "accelerator"

    def fits(self, offer: MachineOffer) -> bool:
        """Tell whether an offer is among the wanted."""
        machine = offer.machine
        asked = (
            (self.cloud, machine.cloud),
            (self.region, offer.region),
            (self.machine, machine.name),
            (self.purchase, offer.purchase),
        )
        if any(want is not None and want != have for want, have in asked):
            return False
        if self.accelerator and not any(names(self.accelerator, card.model) for card in machine.accelerators):
            return False
        if self.of_cards and not offer.accelerators:
            return False
        return self.most_usd is None or self.cost(offer) <= self.most_usd


def offers(
    *,
    cloud: str | None = None,
    region: str | None = None,
    machine: str | None = None,
    purchase: str | None = None,
    accelerator: str | None = None,
    count: int | None = None,
    most_usd: float | None = None,
    on: date | None = None,
    by: Order = "machine",
    limit: int | None = None,
) -> Iterator[MachineOffer]:
    """Yield the priced machines that fit, cheapest first.

    ``accelerator`` is a catalogue name or words of one (``h100``, ``a100 80gb``). With ``count``, offers are compared
    by the whole machines that so many accelerators take; else by machine, or by accelerator.
    """
    wanted = Wanted(cloud, region, machine, purchase, accelerator, count, most_usd, on, by)
    return islice(search(wanted), limit)


def search(wanted: Wanted) -> Iterator[MachineOffer]:
    """Merge both lists, lazily: of the store, only as much is read as is asked for."""
    ours = [offer for offer in _embedded(wanted.on) if wanted.fits(offer)]
    ours.sort(key=_order(wanted))
    store = reader.opened()
    if store is None:
        return iter(ours)
    days = {_key(offer): _day(offer.price) for offer in ours}
    kept = (offer for offer in ours if _outranks(offer, store.newest(*_key(offer), wanted.on)))
    stored = (offer for offer, day in _stored(store, wanted) if days.get(_key(offer), "") <= day)
    return iter(heapq.merge(kept, stored, key=_order(wanted)))


def _outranks(offer: MachineOffer, stored: tuple[Price, str] | None) -> bool:
    return stored is None or stored[1] < _day(offer.price)


def known_accelerator(asked: str) -> None:
    """Refuse a name that neither a priced machine nor the catalogue knows."""
    store = reader.opened()
    models = {card.model for machine in table.machines().values() for card in machine.accelerators}
    models |= set(_models(store)) if store else set()
    if not any(names(asked, model) for model in models):
        from gpufleet.catalog.query import accelerator

        accelerator(asked)  # says what is close; a card that no cloud of ours has is known, and has no offers


def names(asked: str, model: str) -> bool:
    """Tell whether the words asked for name that accelerator: L4 is no L40S, A100 is every A100."""
    have = _words(model)
    if set(_words(asked)) <= set(have):
        return True
    plain = "".join(_words(asked))
    return any(
        plain == "".join(have[first:last])
        for first in range(len(have))
        for last in range(first + 1, len(have) + 1)
    )


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9.]+", text.lower())


def _embedded(on: date | None) -> Iterator[MachineOffer]:
    machines = table.machines()
    for (cloud, region, name, purchase), price in table.prices().items():
        if on is None or _day(price) <= on.isoformat():
            yield MachineOffer(machines[cloud, name], region, purchase, price)


def _stored(store: reader.Reader, wanted: Wanted) -> Iterator[tuple[MachineOffer, str]]:
    query, values = _query(store, wanted)
    make = _maker()
    for cloud, item, day, *found in store.ask(query, *values):
        price, facts = reader.price_of(tuple(found[:7])), tuple(found[7:])
        yield MachineOffer(make(cloud, item, facts), price.region, price.purchase, price), day


def _query(store: reader.Reader, wanted: Wanted) -> tuple[str, list[Any]]:
    prices, values = "current", []
    if wanted.on is not None:
        prices = f"({schema.AS_OF})"
        values.append(wanted.on.isoformat())
    where, more = _where(store, wanted)
    cost = {"machine": "c.usd_per_hour", "accelerator": "c.each"}[wanted.by]
    if wanted.count:
        cost = f"c.usd_per_hour * ceiling({int(wanted.count)} / c.accelerators)"
    if wanted.most_usd is not None:
        where.append(f"{cost} <= ?")
        more.append(wanted.most_usd)
    columns = ", ".join(f"c.{name}" for name in f"cloud, item, dated, {reader.PRICE}".split(", "))
    query = (
        f"SELECT {columns}, {FACTS.replace('accelerator', 'm.accelerator')} "  # noqa: S608 - our own words
        f"FROM {prices} c LEFT JOIN machines m ON m.cloud = c.cloud AND m.item = c.item "
        f"WHERE {' AND '.join(where)} ORDER BY {cost}, c.item, c.region, c.purchase"
    )
    return query, [*values, *more]


def _where(store: reader.Reader, wanted: Wanted) -> tuple[list[str], list[Any]]:
    where, values = ["c.kind = 'machine'"], list[Any]()
    asked = {
        "cloud": wanted.cloud,
        "region": wanted.region,
        "item": wanted.machine,
        "purchase": wanted.purchase,
    }
    for column, value in asked.items():
        if value is not None:
            where.append(f"c.{column} = ?")
            values.append(value)
    if wanted.accelerator:
        models = [model for model in _models(store) if names(wanted.accelerator, model)]
        where.append(f"c.accelerator IN ({', '.join('?' * len(models))})")
        values += models
    if wanted.of_cards:
        where.append("c.accelerators > 0")
    return where, values


def _models(store: reader.Reader) -> Iterator[str]:
    for (model,) in store.ask("SELECT DISTINCT accelerator FROM machines WHERE accelerator <> ''"):
        yield model


def _maker() -> Callable[[str, str, tuple[Any, ...]], Machine]:
    """Return what makes machines: ours where we describe them, else of the price list's own words, once each."""
    made = dict(table.machines())

    def make(cloud: str, name: str, facts: tuple[Any, ...]) -> Machine:
        if (cloud, name) not in made:
            made[cloud, name] = _machine(cloud, name, *facts)
        return made[cloud, name]

    return make


def _machine(cloud: str, name: str, *facts: Any) -> Machine:
    vcpus, memory, arch, model, cards, card_memory, source, as_of = facts
    whole = max(1, round(cards or 0))
    carried = (AcceleratorCount(model, whole, card_memory or 0.0, cards / whole),) if model and cards else ()
    return Machine(
        name, cloud, vcpus or 0, memory or 0.0, arch or "", carried, None, 0, (), source or "", as_of or ""
    )


def _order(wanted: Wanted) -> Callable[[MachineOffer], tuple[Any, ...]]:
    return lambda offer: (wanted.cost(offer), offer.machine.name, offer.region, offer.purchase)


def _key(offer: MachineOffer) -> tuple[str, str, str, str]:
    return (offer.machine.cloud, offer.region, offer.machine.name, offer.purchase)


def _day(price: Price) -> str:
    return price.as_of_date.isoformat() if price.as_of_date else ""


def cheapest_commitments(
    found: Iterable[MachineOffer], on: date | None = None
) -> dict[tuple[str, ...], Price]:
    """Return, for offers of spot, the cheapest commitment on the same machine in the same region."""
    from gpufleet.catalog.prices.row import COMMITMENTS
    from gpufleet.catalog.query import price

    keys = {_key(offer)[:3] for offer in found if offer.purchase == "spot"}
    best: dict[tuple[str, ...], Price] = {}
    for cloud, region, name in keys:
        known = [each for kind in COMMITMENTS if (each := price(cloud, region, name, kind, on))]
        if known:
            best[cloud, region, name] = min(known, key=lambda each: each.usd_per_hour)
    return best
