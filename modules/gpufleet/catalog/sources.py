"""Where each field of an accelerator comes from, and the report of fields by kind of source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from gpufleet.catalog.table import Row, rows

LABELS = (
    "name",
    "vendor",
    "kind",
    "memory_options",
    "aliases",
    "notes",
)  # ours: what a row is called and grouped by


@dataclass(frozen=True)
class Source:
    """One thing that was read: ``kind`` is one of KINDS, ``as_of`` its own date or the day it was read."""

    id: str
    kind: str
    title: str
    address: str
    as_of: str


@dataclass(frozen=True)
class FieldSource:
    """Why one field of one accelerator holds what it holds; ``how`` is the formula or place, where it matters."""

    source: Source
    how: str


@dataclass(frozen=True)
class FieldReport:
    """Every filled field by kind of source and by source, and every empty one by name."""

    by_kind: dict[str, int]
    by_source: dict[str, int]
    computed: int  # of the filled fields: those whose ``how`` states a formula
    unsourced: tuple[tuple[str, str], ...]
    empty: dict[str, tuple[str, ...]]  # accelerator -> its empty fields


KINDS = {
    "vendor_doc": "the maker's own documentation or result file",
    "datasheet_copy": "the maker's data sheet as somebody else prints it",
    "database": "a database of parts",
    "secondary": "a book, article or table that names its own sources",
    "measurement": "a reading that somebody published",
    "rule": "a classification of ours, by a rule in data/README.md",
}


@cache
def sources() -> dict[str, Source]:
    """Return every source by its id."""
    return {row["id"]: Source(**row) for row in rows("sources.csv")}


@cache
def field_sources() -> dict[str, dict[str, FieldSource]]:
    """Return, by accelerator and field, where it comes from."""
    known = sources()
    found: dict[str, dict[str, FieldSource]] = {}
    for row in rows("accelerator_sources.csv"):
        each = FieldSource(known[row["source"]], row["how"])
        found.setdefault(row["name"], {}).update(dict.fromkeys(row["fields"].split(), each))
    return found


def row_sources(name: str) -> tuple[str, str]:
    """Return the titles of what an accelerator's row was made of, and the newest of their dates."""
    used = {each.source.id: each.source for each in field_sources().get(name, {}).values()}
    titles = [source.title for source in used.values() if source.kind != "rule"]
    return "; ".join(titles), max((source.as_of for source in used.values()), default="")


def field_report() -> FieldReport:
    """Return the shipped catalogue's fields by kind of source, and what is empty for want of one."""
    return report_on(rows("accelerators.csv"), field_sources())


def report_on(parts: Iterable[Row], known: dict[str, dict[str, FieldSource]]) -> FieldReport:
    """Count the fields of these rows by where they come from."""
    kinds: Counter[str] = Counter()
    ids: Counter[str] = Counter()
    computed, unsourced, empty = 0, [], {}
    for row in parts:
        fields = [field for field in row if field not in LABELS]
        empty[row["name"]] = tuple(field for field in fields if not row[field])
        for field in (field for field in fields if row[field]):
            each = known.get(row["name"], {}).get(field)
            if each is None:
                unsourced.append((row["name"], field))
                continue
            kinds[each.source.kind] += 1
            ids[each.source.id] += 1
            computed += " x " in each.how or " / " in each.how or each.how.startswith("half")
    return FieldReport(dict(kinds), dict(ids), computed, tuple(unsourced), empty)
