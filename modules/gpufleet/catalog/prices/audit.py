"""Run the price checks without an import: on a file, or on the prices in use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpufleet.catalog import data_file
from gpufleet.catalog.entry import Price
from gpufleet.catalog.prices.check import PriceCheckContext, PriceFinding, check_prices
from gpufleet.catalog.prices.check_context import load_check_context_without_prices, load_price_check_context
from gpufleet.catalog.prices.imports import PriceOrigin, load_price_file
from gpufleet.catalog.prices.reader import (
    PRICE_COLUMNS,
    PriceReader,
    build_price_from_columns,
    open_price_reader,
)
from gpufleet.catalog.prices.row import PriceRow


def check_price_file(
    path: Path, format_name: str = "auto", origin: PriceOrigin | None = None
) -> list[PriceFinding]:
    """Return the findings that an import of the file would have."""
    rows = load_price_file(path, format_name, origin).rows
    return list(check_prices(rows, _load_context(rows)))


def check_current_prices() -> list[PriceFinding]:
    """Return the findings on the prices in use, including those accepted by hand."""
    rows = list(_list_current_rows(open_price_reader()))
    return list(check_prices(rows, load_check_context_without_prices()))


def _load_context(rows: tuple[PriceRow, ...]) -> PriceCheckContext:
    store = open_price_reader()
    return load_price_check_context(store.connection if store else None, rows)


def _list_current_rows(store: PriceReader | None) -> Iterator[PriceRow]:
    machines, parts = data_file.load_machine_prices(), data_file.load_cloud_part_prices()
    rows = {key: _build_row(key, price, part=key in parts) for key, price in (machines | parts).items()}
    query = f"SELECT cloud, item, kind, {PRICE_COLUMNS} FROM current"  # noqa: S608 - our own column names
    for cloud, item, kind, *price_columns in store.run_query(query) if store else ():
        price = build_price_from_columns(tuple(price_columns))
        price_row = _build_row((cloud, price.region, item, price.purchase), price, part=kind == "part")
        if (
            price_row.price_key not in rows
            or price_row.earliest_date_text >= rows[price_row.price_key].earliest_date_text
        ):
            rows[price_row.price_key] = price_row
    yield from rows.values()


def _build_row(key: data_file.PriceKey, price: Price, *, part: bool) -> PriceRow:
    cloud, region, item, purchase = key
    return PriceRow(
        cloud, region, item, purchase, price.usd_per_hour, price.as_of or "", price.source,
        kind="part" if part else "machine", unit=price.unit, confidence=price.confidence,
    )  # fmt: skip
