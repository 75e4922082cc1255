"""Where each field of an accelerator comes from, and the report of fields by kind of source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from gpufleet.catalog.table import Row, rows

LABELS = (
    "name",
    "vendor",
    "kind",
    "memory_options",
    "aliases",
    "bin_of",
    "notes",
)  # ours: what a row is called and grouped by
UNITS = (  # a rate, and the column of architectures.csv that says "none" where there is no unit for it
    ("bf16_tflops_dense", "bf16"),
    ("fp8_tflops_dense", "fp8_per_16"),
    ("fp4_tflops_dense", "fp4_per_fp8"),
    ("int8_tops_dense", "int8_per_16"),
)


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
    """Every filled field by kind of source and by source, and every empty one by name and reason."""

    by_kind: dict[str, int]
    by_source: dict[str, int]
    computed: int  # of the filled fields: those whose ``how`` states a formula
    unsourced: tuple[tuple[str, str], ...]
    empty: dict[str, tuple[str, ...]]  # by accelerator: what it has or may have, and nobody says
    absent: dict[str, tuple[str, ...]]  # by accelerator: what its kind or architecture does not have
    shared: tuple[str, ...]  # whose usable memory nobody measured: a documented share of the nominal


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
    return report_on(rows("accelerators.csv"), field_sources(), rows("architectures.csv"))


def report_on(
    parts: Sequence[Row], known: dict[str, dict[str, FieldSource]], usual: Sequence[Row]
) -> FieldReport:
    """Count the fields of these rows by where they come from."""
    kinds: Counter[str] = Counter()
    ids: Counter[str] = Counter()
    computed, unsourced = 0, []
    empty: dict[str, tuple[str, ...]] = {}
    absent: dict[str, tuple[str, ...]] = {}
    for row in parts:
        lacks, nothing = _absent(row, line_of(row, usual)), [field for field in _facts(row) if not row[field]]
        empty[row["name"]] = tuple(field for field in nothing if field not in {*lacks, "usable_gib"})
        absent[row["name"]] = tuple(field for field in nothing if field in lacks)
        for field in (field for field in _facts(row) if row[field]):
            each = known.get(row["name"], {}).get(field)
            if each is None:
                unsourced.append((row["name"], field))
                continue
            kinds[each.source.kind] += 1
            ids[each.source.id] += 1
            computed += " x " in each.how or " / " in each.how or each.how.startswith("half")
    shared = tuple(row["name"] for row in parts if not row.get("usable_gib", "-"))
    return FieldReport(dict(kinds), dict(ids), computed, tuple(unsourced), empty, absent, shared)


def line_of(row: Row, usual: Iterable[Row]) -> Row | None:
    """Return the line of ``architectures.csv`` that describes a part; the first that fits decides."""
    fits = (line for line in usual if row.get("architecture", "").startswith(line["architecture"]))
    return next((line for line in fits if not line["kinds"] or row["kind"] in line["kinds"].split()), None)


def _facts(row: Row) -> list[str]:
    return [field for field in row if field not in LABELS]


def _absent(row: Row, line: Row | None) -> set[str]:
    """Return the fields that have nothing to say of a part: no such unit, no link, no slot."""
    none = {field for field, column in UNITS if line is not None and line[column] == "none"}
    no_link = {"link", "link_gb_s"} if not row.get("link") else set()
    return none | no_link | ({"pcie_gen"} if row.get("kind") == "apple" else set())
