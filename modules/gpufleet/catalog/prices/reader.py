"""Reading the store: quick questions on one connection per process. No store, no answer."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpufleet import paths
from gpufleet.catalog.model import Price
from gpufleet.catalog.prices import schema
from gpufleet.errors import EnvironmentFault, InputError

PRICE = "usd_per_hour, unit, as_of, source, confidence, region, purchase"


class Reader:
    """Answers from one store file, which it never changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.link = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw", timeout=10, uri=True, check_same_thread=False
            )
            schema.prepare(self.link, str(path))
        except sqlite3.OperationalError as error:
            raise EnvironmentFault(f"{path} cannot be opened: {error}", hint="see GPUFLEET_PRICES") from None

    def newest(
        self, cloud: str, region: str, item: str, purchase: str, on: date | None = None
    ) -> tuple[Price, str] | None:
        """Return the newest price, not dated after ``on``, and the day it dates from."""
        key = (cloud, region, item, purchase)
        where = "cloud = ? AND region = ? AND item = ? AND purchase = ?"
        if on is None:
            query = f"SELECT {PRICE}, dated FROM current WHERE {where}"  # noqa: S608 - our own words
            found = next(self.ask(query, *key), None)
        else:
            query = f"SELECT {PRICE}, dated FROM prices WHERE {where} AND dated <= ? ORDER BY {schema.ORDER} LIMIT 1"  # noqa: S608
            found = next(self.ask(query, *key, on.isoformat()), None)
        return (price_of(found[:-1]), found[-1]) if found else None

    def ask(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Run a query of ours; a file that broke after it was opened is told in one line."""
        try:
            yield from self.link.execute(query, values)
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, error) from None


def damaged(path: Path, error: sqlite3.DatabaseError) -> EnvironmentFault:
    """Return what to say of a store that cannot be read."""
    return EnvironmentFault(f"{path} is damaged: {error}", hint="move it away and import the prices again")


def price_of(found: tuple[Any, ...]) -> Price:
    """Make a price of the columns in ``PRICE``."""
    usd, unit, as_of, source, confidence, region, purchase = found
    return Price(usd, unit, as_of or None, source, confidence, region, purchase)


def opened() -> Reader | None:
    """Return the reader of the store that is in force here, None where there is none."""
    said = [os.environ.get(name) for name in ("GPUFLEET_PRICES", "GPUFLEET_HOME")]
    location = _location(*said, os.getcwd())  # noqa: PTH109 - asked for each price, and only ever compared
    if location is None:
        return None
    try:
        state = os.stat(location)  # noqa: PTH116 - asked for each price
    except OSError:
        if said[0]:
            raise InputError(
                "no such price store",
                where=f"GPUFLEET_PRICES={said[0]}",
                remedy=f"gpufleet prices import makes it; {paths.EMBEDDED_PRICES} is for the embedded prices alone",
            ) from None
        return None
    return _reader(location, state.st_ino)


@lru_cache(maxsize=8)
def _location(*_environment: str | None) -> str | None:
    path = paths.prices_file()
    return str(path) if path else None


@lru_cache(maxsize=2)
def _reader(path: str, _inode: int) -> Reader:
    return Reader(Path(path))
