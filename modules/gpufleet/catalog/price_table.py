"""The embedded price lists: machines with accelerators, parts, and volume tiers, by cloud.

The rows that people review are the CSV files of ``tools/price_lists``; ``python -m tools.price_lists`` writes them to
``price_tables.zip``. A member is one cloud and table: ``aws/part``. Its lines are sorted and start with the item and
the region; the last cell is the number of the row's origin, a line of the member ``origins`` with date, confidence and
source. A look-up searches the text for the item's lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from gpufleet.catalog.entry import HOURS_PER_MONTH, Confidence, Price
from gpufleet.catalog.price_archive import read_price_member

TABLES_FILE = "price_tables.zip"
ORIGINS = "origins"
ORIGIN_SEPARATOR = "\t"  # sources have commas
Table = Literal["machine", "part", "tier"]
CACHED_ITEMS = 4096
Cells = list[str]


@dataclass(frozen=True)
class ListOrigin:
    """Where a row comes from: ``as_of`` is None if its date is unknown."""

    as_of: str | None
    confidence: Confidence
    source: str


@lru_cache(maxsize=CACHED_ITEMS)
def find_item_rows(table: Table, cloud: str, item: str) -> tuple[Cells, ...]:
    """Return the rows of an item in all regions: region, then the table's other cells."""
    if not item or not item.isascii() or not item.isprintable() or "," in item:
        return ()
    text, prefix = read_price_member(TABLES_FILE, f"{cloud}/{table}"), f"\n{item},"
    place, rows = text.find(prefix), []
    while place >= 0 and text.startswith(prefix, place):
        end = text.index("\n", place + 1)
        rows.append(text[place + len(prefix) : end].split(","))
        place = end
    return tuple(rows)


def iterate_table_rows(table: Table, cloud: str) -> Iterator[Cells]:
    """Yield all rows of a cloud: item, region, and the table's other cells."""
    for line in read_price_member(TABLES_FILE, f"{cloud}/{table}").split("\n"):
        if line:
            yield line.split(",")


@lru_cache(maxsize=CACHED_ITEMS)
def find_listed_price(
    kind: Literal["machine", "part"], cloud: str, region: str, item: str, purchase: str
) -> Price | None:
    """Return a price of the lists; None if they have none."""
    for cells in find_item_rows(kind, cloud, item):
        if cells[0] == region and cells[1] == purchase:
            return build_machine_price(cells) if kind == "machine" else build_part_price(cells)
    return None


def build_machine_price(cells: Cells) -> Price:
    """Return the price of ``region,purchase,usd_per_hour,origin``."""
    region, purchase, usd, number = cells
    origin = load_list_origin(int(number))
    return Price(float(usd), "machine", origin.as_of, origin.source, origin.confidence, region, purchase)


def build_part_price(cells: Cells) -> Price:
    """Return the price of ``region,purchase,unit,usd,per,origin``, per hour; a month is 730 hours."""
    region, purchase, unit, usd, period, number = cells
    origin = load_list_origin(int(number))
    usd_per_hour = float(usd) / (HOURS_PER_MONTH if period == "month" else 1)
    return Price(usd_per_hour, unit, origin.as_of, origin.source, origin.confidence, region, purchase)


@cache
def load_list_origin(number: int) -> ListOrigin:
    """Return an origin by its number."""
    as_of, confidence, source = _load_origin_lines()[number].split(ORIGIN_SEPARATOR)
    return ListOrigin(as_of or None, confidence, source)  # type: ignore[arg-type]  # tools.price_lists checks it


@cache
def _load_origin_lines() -> list[str]:
    return read_price_member(TABLES_FILE, ORIGINS).split("\n")
