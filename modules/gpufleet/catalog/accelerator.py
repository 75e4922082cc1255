"""Accelerators from ``accelerators.csv``, with every memory size that they are sold with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache

from gpufleet.boundary import build_from_row, read_table
from gpufleet.catalog.data_file import PACKAGE, Row, load_catalog_rows
from gpufleet.catalog.entry import Accelerator
from gpufleet.catalog.source import summarize_accelerator_sources
from gpufleet.quick_dataclass import dataclass


@dataclass(frozen=True)
class _UsableShare:
    """The share of memory that software can use, of parts up to a size; an empty vendor or kind: of any."""

    vendor: str
    kind: str
    share: float
    up_to_gib: float = math.inf


class _Accelerators(Mapping[str, Accelerator]):
    """The accelerators of a table, each built when it is asked for: most questions are about a third of them."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows, self._built = {row["name"]: row for row in rows}, dict[str, Accelerator]()

    def __getitem__(self, name: str) -> Accelerator:
        if name not in self._built:
            self._built[name] = _build_accelerator(self._rows[name])
        return self._built[name]

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


@cache
def load_accelerators() -> Mapping[str, Accelerator]:
    """Return every accelerator by catalogue name, each with the largest memory that it is sold with."""
    return _Accelerators(load_catalog_rows("accelerators.csv"))


def list_accelerator_names(*columns: str) -> list[str]:
    """Return the names of the accelerators with a figure in each of these columns, without building them."""
    rows = load_catalog_rows("accelerators.csv")
    return [row["name"] for row in rows if all(row[column] for column in columns)]


def with_memory_size(part: Accelerator, gib: float) -> Accelerator | None:
    """Return the part with another memory size, None if it is not sold with that size.

    ``usable_gib`` follows from the measured share, or else from the documented share for that size.
    """
    if gib == part.memory_gib:
        return part
    if gib not in part.memory_options:
        return None
    row = next(row for row in load_catalog_rows("accelerators.csv") if row["name"] == part.name)
    measured = (part.usable_gib or part.memory_gib) / part.memory_gib if row["usable_gib"] else None
    share = measured or find_usable_memory_share(part.vendor, part.kind, gib)
    return replace(part, name=f"{part.name} {gib:g}GB", memory_gib=gib, usable_gib=round(gib * share, 2))


def find_usable_memory_share(vendor: str, kind: str, gib: float) -> float:
    """Return the documented share of memory that software can use, for parts without a measurement."""
    for rule in _load_usable_shares():
        if rule.vendor in ("", vendor) and rule.kind in ("", kind) and gib <= rule.up_to_gib:
            return rule.share
    return 1.0


@cache
def _load_usable_shares() -> list[_UsableShare]:
    return read_table(_UsableShare, PACKAGE, "data/usable_shares.csv")


def _usable_gib(row: Row) -> float:
    memory = row.get_number("memory_gib")
    measured = row.get_optional_number("usable_gib")
    return measured or round(memory * find_usable_memory_share(row["vendor"], row["kind"], memory), 2)


def _build_accelerator(row: Row) -> Accelerator:
    source, as_of = summarize_accelerator_sources(row["name"])
    return build_from_row(
        Accelerator,
        row,
        source=source,
        as_of=as_of,
        usable_gib=_usable_gib(row),
        aliases=row.get_words("aliases", "; "),
    )
