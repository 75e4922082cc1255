"""Merges a node's fields from all sources: one visible rule per field.

We decide some things (name, rack, pool: a declaration wins), the world decides others (serial, address:
what was seen wins). Among equals the newest wins, and a source that lost the node comes last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from gpufleet.nodes.identity import normalize_serial
from gpufleet.nodes.model import OBSERVING_SOURCES, SourcedValue

DECLARED_FIRST = (
    "name",
    "kind",
    "cloud",
    "account",
    "region",
    "pool",
    "rack",
    "slot",
    "stack",
    "template",
    "machine",
    "accelerators",
    "usd_per_hour",
)
"""Fields in which a declaration wins over what was seen."""

OBSERVED_FIRST = ("address", "serial", "instance_id")
"""Fields in which what was seen wins over a declaration."""

FIELDS = DECLARED_FIRST + OBSERVED_FIRST


def merge_sourced_values(
    values: Iterable[SourcedValue], lost_sources: Collection[str] = ()
) -> dict[str, Any]:
    """Return every field's value in force, None where no source gives one."""
    best: dict[str, tuple[tuple[Any, ...], Any]] = {}
    for value in values:
        aspect, _, field = value.key.partition(".")
        if field not in _PREFERRED_ASPECT or value.value is None or not _is_trusted(value.source, field):
            continue
        rank = _rank(value, aspect, field, lost_sources)
        if field not in best or rank > best[field][0]:
            best[field] = (rank, value.value)
    merged = {field: best[field][1] if field in best else None for field in FIELDS}
    merged["serial"] = normalize_serial(merged["serial"])
    merged["accelerators"] = merged["accelerators"] or []
    return merged


_PREFERRED_ASPECT = dict.fromkeys(DECLARED_FIRST, "declared") | dict.fromkeys(OBSERVED_FIRST, "observed")


def _is_trusted(source: str, field: str) -> bool:
    """Return True if a source may set a field; of what a node itself reports, only the serial counts."""
    return field == "serial" or source == "address_book" or source not in OBSERVING_SOURCES


def _rank(value: SourcedValue, aspect: str, field: str, lost_sources: Collection[str]) -> tuple[Any, ...]:
    """Order the claims on one field; the address book knows where a rehearsed host really answers."""
    is_address_book = field == "address" and value.source == "address_book"
    return (
        value.source not in lost_sources,
        is_address_book,
        aspect == _PREFERRED_ASPECT[field],
        value.revision,
        value.source,
    )
