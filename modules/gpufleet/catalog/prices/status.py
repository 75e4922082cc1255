"""What is known, how old it is and where it comes from: the embedded snapshot and the store together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from gpufleet.catalog import table
from gpufleet.catalog.prices.reader import Reader, opened
from gpufleet.catalog.prices.row import COMMITMENTS, PURCHASES

WAYS = ("on_demand", "spot", "commitment")
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Slice:
    """The prices of one cloud and purchase: machine-region pairs, the days they date from, and undated ones."""

    cloud: str
    purchase: str
    prices: int
    machines: int
    oldest: str
    middle: str
    newest: str
    undated: int


@dataclass(frozen=True)
class Coverage:
    """Of the machine types with accelerators, how many have a price of some region."""

    cloud: str
    types: int
    on_demand: int
    spot: int
    commitment: int


@dataclass(frozen=True)
class Unfinished:
    """A run that was begun and never committed."""

    source: str
    started_at: str


@dataclass(frozen=True)
class Status:
    """Everything that ``gpufleet prices status`` says."""

    store: str | None
    embedded: int
    stored: int
    slices: tuple[Slice, ...]
    coverage: tuple[Coverage, ...]
    sources: tuple[tuple[str, int], ...]
    apart: tuple[tuple[str, int], ...]
    unfinished: tuple[Unfinished, ...]

    def age_days(self, today: date) -> int | None:
        """Return how old the newest price is, of those whose day has come."""
        now = today.isoformat()
        days = [
            day
            for each in self.slices
            for day in (each.newest, each.middle, each.oldest)
            if day and day <= now
        ]
        return (today - date.fromisoformat(max(days))).days if days else None


def status() -> Status:
    """Look at every price that look-ups would use now."""
    store = opened()
    known = dict(in_force(store))
    return Status(
        store=str(store.path) if store else None,
        embedded=len(table.prices()) + len(table.part_prices()),
        stored=_count(store, "SELECT count(*) FROM prices"),
        slices=tuple(_slices(known)),
        coverage=tuple(covered(accelerated(store), known)),
        sources=tuple(Counter(source.split(";")[0] for _, source in known.values()).most_common()),
        apart=tuple(store.ask("SELECT code, count(*) FROM apart GROUP BY code ORDER BY code"))
        if store
        else (),
        unfinished=tuple(_unfinished(store)),
    )


def in_force(store: Reader | None) -> Iterator[tuple[Key, tuple[str, str]]]:
    """Yield each machine's price key with the day and the source of the price that a look-up would give."""
    newest = {
        key: (price.as_of_date.isoformat() if price.as_of_date else "", price.source)
        for key, price in table.prices().items()
    }
    query = "SELECT cloud, region, item, purchase, dated, source FROM current WHERE kind = 'machine'"
    for *key, dated, source in store.ask(query) if store else ():
        wanted = (key[0], key[1], key[2], key[3])
        if wanted not in newest or dated >= newest[wanted][0]:
            newest[wanted] = (dated, source)
    yield from newest.items()


def accelerated(store: Reader | None) -> set[tuple[str, str]]:
    """Return the machine types with accelerators that snapshot or store describe, by cloud and name."""
    found = {key for key, machine in table.machines().items() if machine.accelerators and key[0] != "onprem"}
    if store:
        found |= set(store.ask("SELECT cloud, item FROM machines WHERE accelerators > 0"))
    return found


def covered(types: Iterable[tuple[str, str]], known: Iterable[Key]) -> Iterator[Coverage]:
    """Count, by cloud, the types that have a price of each way to buy in some region."""
    wanted, ways = sorted(set(types)), ways_of(known)
    for cloud in sorted({cloud for cloud, _ in wanted}):
        mine = [key for key in wanted if key[0] == cloud]
        counts = [sum(way in ways.get(key, ()) for key in mine) for way in WAYS]
        yield Coverage(cloud, len(mine), *counts)


def ways_of(known: Iterable[Key]) -> dict[tuple[str, str], set[str]]:
    """Return in which ways each machine type's price is known."""
    ways: dict[tuple[str, str], set[str]] = {}
    for cloud, _, item, purchase in known:
        ways.setdefault((cloud, item), set()).add("commitment" if purchase in COMMITMENTS else purchase)
    return ways


def _slices(known: dict[Key, tuple[str, str]]) -> Iterator[Slice]:
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for (cloud, _, item, purchase), (day, _) in known.items():
        groups.setdefault((cloud, purchase), []).append((item, day))
    for (cloud, purchase), found in sorted(groups.items(), key=lambda each: (each[0][0], _place(each[0][1]))):
        days = sorted(day for _, day in found if day)
        ends = (days[0], days[len(days) // 2], days[-1]) if days else ("", "", "")
        machines = len({item for item, _ in found})
        yield Slice(cloud, purchase, len(found), machines, *ends, undated=len(found) - len(days))


def _place(purchase: str) -> int:
    return PURCHASES.index(purchase)


def _unfinished(store: Reader | None) -> Iterator[Unfinished]:
    query = "SELECT source, started_at FROM runs WHERE finished_at IS NULL ORDER BY id"
    for source, started in store.ask(query) if store else ():
        yield Unfinished(source, started)


def _count(store: Reader | None, query: str) -> int:
    return int(next(iter(store.ask(query)))[0]) if store else 0
