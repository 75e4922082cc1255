"""The sources of each accelerator field."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gpufleet.catalog.data_file import load_catalog_rows


@dataclass(frozen=True)
class CatalogSource:
    """One source: ``kind`` is a kind of ``tools/catalog_sources.py``, ``as_of`` its own date or the day it was read."""

    id: str
    kind: str
    title: str
    address: str
    as_of: str


@dataclass(frozen=True)
class FieldSource:
    """The source of one field of one accelerator; ``how`` is the formula or the place in the source."""

    source: CatalogSource
    how: str


@cache
def load_catalog_sources() -> dict[str, CatalogSource]:
    """Return every source by its id."""
    return {row["id"]: CatalogSource(**row) for row in load_catalog_rows("sources.csv")}


@cache
def load_field_sources() -> dict[str, dict[str, FieldSource]]:
    """Return the source of each field by accelerator and field."""
    sources_by_id = load_catalog_sources()
    sources_by_field: dict[str, dict[str, FieldSource]] = {}
    for row in load_catalog_rows("accelerator_sources.csv"):
        field_source = FieldSource(sources_by_id[row["source"]], row["how"])
        sources_by_field.setdefault(row["name"], {}).update(
            dict.fromkeys(row["fields"].split(), field_source)
        )
    return sources_by_field


def summarize_accelerator_sources(name: str) -> tuple[str, str]:
    """Return the titles of an accelerator's sources and the newest of their dates."""
    sources_by_id = {
        field_source.source.id: field_source.source
        for field_source in load_field_sources().get(name, {}).values()
    }
    titles = [source.title for source in sources_by_id.values() if source.kind != "rule"]
    return "; ".join(titles), max((source.as_of for source in sources_by_id.values()), default="")
