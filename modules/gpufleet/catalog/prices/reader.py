"""Read the price store through one connection per process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet import paths
from gpufleet.catalog.entry import Price
from gpufleet.catalog.prices import schema
from gpufleet.errors import EnvironmentFault, InputError

if TYPE_CHECKING:
    import sqlite3  # imported where it is used: most commands find no store

PRICE_COLUMNS = "usd_per_hour, unit, as_of, source, confidence, region, purchase"


class PriceReader:
    """Reads one store file and never changes it."""

    def __init__(self, path: Path) -> None:
        import sqlite3

        self.path = path
        try:
            self.connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw", timeout=10, uri=True, check_same_thread=False
            )
            schema.migrate_store_schema(self.connection, str(path))
        except sqlite3.OperationalError as error:
            raise EnvironmentFault(f"{path} cannot be opened: {error}", hint="see GPUFLEET_PRICES") from None

    def find_newest_price(
        self, cloud: str, region: str, item: str, purchase: str, on_date: date | None = None
    ) -> tuple[Price, str] | None:
        """Return the newest price dated ``on_date`` or earlier, and its day."""
        key = (cloud, region, item, purchase)
        condition = "cloud = ? AND region = ? AND item = ? AND purchase = ?"
        if on_date is None:
            query = f"SELECT {PRICE_COLUMNS}, dated FROM current WHERE {condition}"  # noqa: S608 - our own column names
            row = next(self.run_query(query, *key), None)
        else:
            query = (
                f"SELECT {PRICE_COLUMNS}, dated FROM prices WHERE {condition} AND dated <= ? "  # noqa: S608
                f"ORDER BY {schema.PREFERENCE_ORDER} LIMIT 1"
            )
            row = next(self.run_query(query, *key, on_date.isoformat()), None)
        return (build_price_from_columns(row[:-1]), row[-1]) if row else None

    def run_query(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Run a query; raise EnvironmentFault if the file is damaged."""
        import sqlite3

        try:
            yield from self.connection.execute(query, values)
        except sqlite3.DatabaseError as error:
            raise build_damaged_store_error(self.path, error) from None


def build_damaged_store_error(path: Path, error: sqlite3.DatabaseError) -> EnvironmentFault:
    """Return the error for a store that cannot be read."""
    return EnvironmentFault(f"{path} is damaged: {error}", hint="move it away and import the prices again")


def build_price_from_columns(columns: tuple[Any, ...]) -> Price:
    """Return a price from the columns PRICE_COLUMNS."""
    usd, unit, as_of, source, confidence, region, purchase = columns
    return Price(usd, unit, as_of or None, source, confidence, region, purchase)


def open_price_reader() -> PriceReader | None:
    """Return the reader of the configured store, None without a store."""
    environment = [os.environ.get(name) for name in ("GPUFLEET_PRICES", "GPUFLEET_HOME")]
    location = _store_location(*environment, os.getcwd())  # noqa: PTH109 - called for each price; the result is only compared
    if location is None:
        return None
    try:
        state = os.stat(location)  # noqa: PTH116 - called for each price
    except OSError:
        if environment[0]:
            raise InputError(
                "the price store does not exist",
                where=f"GPUFLEET_PRICES={environment[0]}",
                remedy=f"gpufleet prices import creates it; {paths.EMBEDDED_PRICES} selects the embedded prices",
            ) from None
        return None
    return _cached_reader(location, state.st_ino)


@lru_cache(maxsize=8)
def _store_location(*_environment: str | None) -> str | None:
    path = paths.find_price_store_file()
    return str(path) if path else None


@lru_cache(maxsize=2)
def _cached_reader(path: str, _inode: int) -> PriceReader:
    return PriceReader(Path(path))
