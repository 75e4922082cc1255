"""The checks, run on what is not being imported: a file that stays outside, or the prices in force."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpufleet.catalog import table
from gpufleet.catalog.model import Price
from gpufleet.catalog.prices.checks import Finding, Known, examine
from gpufleet.catalog.prices.imports import Origin, load
from gpufleet.catalog.prices.known import of_store, without_prices
from gpufleet.catalog.prices.reader import Reader, opened, price_of
from gpufleet.catalog.prices.row import PriceRow


def in_file(path: Path, form: str = "auto", origin: Origin | None = None) -> list[Finding]:
    """Return what an import of that file would set apart."""
    rows = load(path, form, origin).rows
    return list(examine(rows, _known(rows)))


def in_force() -> list[Finding]:
    """Return what is suspicious about the prices that look-ups use now, those accepted by hand among them."""
    rows = list(_current(opened()))
    return list(examine(rows, without_prices()))


def _known(rows: tuple[PriceRow, ...]) -> Known:
    store = opened()
    return of_store(store.link if store else None, {(row.cloud, row.item) for row in rows})


def _current(store: Reader | None) -> Iterator[PriceRow]:
    machines, parts = table.prices(), table.part_prices()
    rows = {key: _row(key, price, part=key in parts) for key, price in (machines | parts).items()}
    columns = "cloud, item, kind, usd_per_hour, unit, as_of, source, confidence, region, purchase"
    for cloud, item, kind, *found in store.ask(f"SELECT {columns} FROM current") if store else ():  # noqa: S608
        price = price_of(tuple(found))
        row = _row((cloud, price.region, item, price.purchase), price, part=kind == "part")
        if row.key not in rows or row.dated >= rows[row.key].dated:
            rows[row.key] = row
    yield from rows.values()


def _row(key: table.PriceKey, price: Price, *, part: bool) -> PriceRow:
    cloud, region, item, purchase = key
    return PriceRow(
        cloud, region, item, purchase, price.usd_per_hour, price.as_of or "", price.source,
        kind="part" if part else "machine", unit=price.unit, confidence=price.confidence,
    )  # fmt: skip
