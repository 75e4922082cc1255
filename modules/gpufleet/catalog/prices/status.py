"""Coverage, age and sources of the prices in use: embedded snapshot and store together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from gpufleet.catalog import data_file
from gpufleet.catalog.prices.reader import PriceReader, open_price_reader
from gpufleet.catalog.prices.row import COMMITMENTS, PURCHASES
from gpufleet.catalog.prices.snapshot import load_snapshot_summary

PURCHASE_GROUPS = ("on_demand", "spot", "commitment")
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class PurchasePriceSummary:
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
class CloudPriceCoverage:
    """The number of machine types with accelerators, and how many of them have a price in some region."""

    cloud: str
    types: int
    on_demand: int
    spot: int
    commitment: int


@dataclass(frozen=True)
class SnapshotPriceSummary:
    """The embedded prices of machines without accelerators, or of nodes, of one cloud and purchase."""

    cloud: str
    kind: str
    purchase: str
    prices: int
    items: int
    oldest: str
    newest: str


@dataclass(frozen=True)
class UnfinishedImportRun:
    """A run that was started but not committed."""

    source: str
    started_at: str


@dataclass(frozen=True)
class PriceStoreStatus:
    """The content of ``gpufleet prices status``."""

    store: str | None
    embedded: int
    stored: int
    slices: tuple[PurchasePriceSummary, ...]
    snapshot: tuple[SnapshotPriceSummary, ...]
    coverage: tuple[CloudPriceCoverage, ...]
    sources: tuple[tuple[str, int], ...]
    set_apart: tuple[tuple[str, int], ...]
    unfinished: tuple[UnfinishedImportRun, ...]

    def newest_price_age_days(self, today: date) -> int | None:
        """Return the age of the newest price that is not dated in the future."""
        now = today.isoformat()
        days = [
            day
            for purchase in self.slices
            for day in (purchase.newest, purchase.middle, purchase.oldest)
            if day and day <= now
        ]
        return (today - date.fromisoformat(max(days))).days if days else None


def read_price_store_status() -> PriceStoreStatus:
    """Return the status of all prices in use."""
    store = open_price_reader()
    day_and_source_by_key = dict(iterate_newest_price_origins(store))
    snapshot_summaries = tuple(_list_snapshot_summaries())
    return PriceStoreStatus(
        store=str(store.path) if store else None,
        embedded=len(data_file.load_machine_prices())
        + len(data_file.load_cloud_part_prices())
        + sum(each.prices for each in snapshot_summaries),
        stored=_count_rows(store, "SELECT count(*) FROM prices"),
        slices=tuple(_build_slices(day_and_source_by_key)),
        snapshot=snapshot_summaries,
        coverage=tuple(count_price_coverage(list_accelerator_machine_types(store), day_and_source_by_key)),
        sources=tuple(
            Counter(source.split(";")[0] for _, source in day_and_source_by_key.values()).most_common()
        ),
        set_apart=tuple(store.run_query("SELECT code, count(*) FROM apart GROUP BY code ORDER BY code"))
        if store
        else (),
        unfinished=tuple(_list_unfinished_runs(store)),
    )


def _list_snapshot_summaries() -> Iterator[SnapshotPriceSummary]:
    for row in load_snapshot_summary():
        numbers = row.get_integer("prices"), row.get_integer("items")
        yield SnapshotPriceSummary(
            row["cloud"], row["kind"], row["purchase"], *numbers, row["oldest"], row["newest"]
        )


def iterate_newest_price_origins(store: PriceReader | None) -> Iterator[tuple[Key, tuple[str, str]]]:
    """Yield the key of each machine price in use with its day and source."""
    newest = {
        key: (price.earliest_price_date.isoformat() if price.earliest_price_date else "", price.source)
        for key, price in data_file.load_machine_prices().items()
    }
    query = "SELECT cloud, region, item, purchase, dated, source FROM current WHERE kind = 'machine'"
    for *key, dated, source in store.run_query(query) if store else ():
        price_key = (key[0], key[1], key[2], key[3])
        if price_key not in newest or dated >= newest[price_key][0]:
            newest[price_key] = (dated, source)
    yield from newest.items()


def list_accelerator_machine_types(store: PriceReader | None) -> set[tuple[str, str]]:
    """Return the machine types with accelerators, by cloud and name."""
    machine_types = {
        key
        for key, machine in data_file.load_machines().items()
        if machine.accelerators and key[0] != "onprem"
    }
    if store:
        machine_types |= set(store.run_query("SELECT cloud, item FROM machines WHERE accelerators > 0"))
    return machine_types


def count_price_coverage(
    types: Iterable[tuple[str, str]], price_keys: Iterable[Key]
) -> Iterator[CloudPriceCoverage]:
    """Count by cloud the types that have a price in some region, for each purchase group."""
    machine_types, groups_by_machine = sorted(set(types)), group_purchases_by_machine(price_keys)
    for cloud in sorted({cloud for cloud, _ in machine_types}):
        cloud_types = [key for key in machine_types if key[0] == cloud]
        counts = [
            sum(group in groups_by_machine.get(key, ()) for key in cloud_types) for group in PURCHASE_GROUPS
        ]
        yield CloudPriceCoverage(cloud, len(cloud_types), *counts)


def group_purchases_by_machine(price_keys: Iterable[Key]) -> dict[tuple[str, str], set[str]]:
    """Return the purchase groups with a known price of each machine type."""
    groups_by_machine: dict[tuple[str, str], set[str]] = {}
    for cloud, _, item, purchase in price_keys:
        groups_by_machine.setdefault((cloud, item), set()).add(
            "commitment" if purchase in COMMITMENTS else purchase
        )
    return groups_by_machine


def _build_slices(day_and_source_by_key: dict[Key, tuple[str, str]]) -> Iterator[PurchasePriceSummary]:
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for (cloud, _, item, purchase), (day, _) in day_and_source_by_key.items():
        groups.setdefault((cloud, purchase), []).append((item, day))
    for (cloud, purchase), machine_days in sorted(
        groups.items(), key=lambda group: (group[0][0], _purchase_rank(group[0][1]))
    ):
        days = sorted(day for _, day in machine_days if day)
        day_range = (days[0], days[len(days) // 2], days[-1]) if days else ("", "", "")
        machines = len({item for item, _ in machine_days})
        yield PurchasePriceSummary(
            cloud, purchase, len(machine_days), machines, *day_range, undated=len(machine_days) - len(days)
        )


def _purchase_rank(purchase: str) -> int:
    return PURCHASES.index(purchase)


def _list_unfinished_runs(store: PriceReader | None) -> Iterator[UnfinishedImportRun]:
    query = "SELECT source, started_at FROM runs WHERE finished_at IS NULL ORDER BY id"
    for source, started in store.run_query(query) if store else ():
        yield UnfinishedImportRun(source, started)


def _count_rows(store: PriceReader | None, query: str) -> int:
    return int(next(iter(store.run_query(query)))[0]) if store else 0
