"""The sources of the catalogue."""

from __future__ import annotations

from functools import cache

from gpufleet.boundary import read_packaged_columns
from gpufleet.catalog.data_file import PACKAGE, load_catalog_rows
from gpufleet.quick_dataclass import dataclass


@dataclass(frozen=True)
class CatalogSource:
    """One source: ``kind`` is a kind of ``tools/catalog_sources.py``, ``as_of`` its own date or the day it was read."""

    id: str
    kind: str
    title: str
    address: str
    as_of: str


@cache
def load_catalog_sources() -> dict[str, CatalogSource]:
    """Return every source by its id."""
    return {row["id"]: CatalogSource(**row) for row in load_catalog_rows("sources.csv")}


def summarize_accelerator_sources(name: str) -> tuple[str, str]:
    """Return the titles of an accelerator's sources and the newest of their dates."""
    sources = [load_catalog_sources()[id_] for id_ in _load_accelerator_source_ids().get(name, ())]
    titles = [source.title for source in sources if source.kind != "rule"]
    return "; ".join(titles), max((source.as_of for source in sources), default="")


@cache
def _load_accelerator_source_ids() -> dict[str, dict[str, None]]:
    """Return the sources of the fields of each accelerator, each once."""
    ids: dict[str, dict[str, None]] = {}
    for name, source in read_packaged_columns(PACKAGE, "data/accelerator_sources.csv", ("name", "source")):
        ids.setdefault(name, {})[source] = None
    return ids
