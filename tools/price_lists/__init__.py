"""The reviewed price lists, and ``price_tables.zip``, which has them for the package.

``python -m tools.price_lists`` writes the archive after a change of a CSV file here. Each row has its source and date.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpufleet.boundary import LARGE_DOCUMENT, CsvRow, decode_csv, read_text
from gpufleet.catalog.cloud import CLOUDS
from gpufleet.catalog.price_archive import DATA_FOLDER
from gpufleet.catalog.price_table import ORIGIN_SEPARATOR, ORIGINS, TABLES_FILE
from gpufleet.errors import InputError

FOLDER = Path(__file__).parent
ARCHIVE = FOLDER.parents[1] / "modules/gpufleet/catalog" / DATA_FOLDER / TABLES_FILE
PART_LISTS = ("parts.csv", *sorted(path.name for path in FOLDER.glob("service_parts_*.csv")))
LISTS = {"machine": ("prices.csv",), "part": PART_LISTS, "tier": ("price_tiers.csv",)}
CELLS = {  # the cells of a line of each table; the number of the origin follows
    "machine": ("machine", "region", "purchase", "usd_per_hour"),
    "part": ("part", "region", "purchase", "unit", "usd", "per"),
    "tier": ("part", "region", "from_amount", "usd"),
}
PERIODS = ("hour", "month", "use")  # of what is used up, the price of one counts as its price of an hour
CONFIDENCES = ("high", "medium", "low")


def read_price_list(name: str) -> list[CsvRow]:
    """Return the rows of a reviewed list."""
    path = FOLDER / name
    return decode_csv(read_text(path, limits=LARGE_DOCUMENT), str(path), limits=LARGE_DOCUMENT)


def build_table_members() -> dict[str, str]:
    """Return the members of the archive; raise InputError about a row that is not valid."""
    origins: dict[str, int] = {}
    lines: dict[str, list[list[str]]] = {}
    for table, names in LISTS.items():
        for row in (row for name in names for row in read_price_list(name)):
            _check_row(row, table)
            cells = [row[column] for column in CELLS[table]]
            origin = ORIGIN_SEPARATOR.join((row["as_of"], row["confidence"], row["source"]))
            number = origins.setdefault(origin, len(origins))
            lines.setdefault(f"{row['cloud']}/{table}", []).append([*cells, str(number)])
    members = {name: "\n".join(["", *_format_lines(rows), ""]) for name, rows in lines.items()}
    return {**members, ORIGINS: "\n".join(origins)}


def _format_lines(rows: list[list[str]]) -> Iterator[str]:
    """Yield lines sorted by item and region; the tiers of a part stay in their order."""
    for cells in sorted(rows, key=lambda row: row[:2]):
        yield ",".join(cells)


def _check_row(row: CsvRow, table: str) -> None:
    row.get_choice("cloud", tuple(CLOUDS))
    row.get_choice("confidence", CONFIDENCES)
    row.get_number("usd_per_hour" if table == "machine" else "usd")
    if table == "part":
        row.get_choice("per", PERIODS)
    for column in CELLS[table]:
        if not row[column] or not row[column].isprintable() or "," in row[column]:
            raise InputError("must be a text without commas", where=row.where, key=column)
    if not row["source"] or not row["source"].isprintable():
        raise InputError("must name the source", where=row.where, key="source")
