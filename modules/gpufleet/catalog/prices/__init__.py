"""The local price store, what may enter it, and what is asked of it.

In come rows (``PriceRow``) from readers of other people's catalogues and from the clouds' APIs; out go the
newest trustworthy price of each machine, region and purchase, never older facts than the embedded ones and never
a row that a check found suspicious. One SQLite file, ``paths.prices_file()``; without it, the embedded snapshot
alone answers.

Whoever writes to it does this::

    with Store(path) as store:
        run = store.begin("aws-pricing", key="2026-11-21")     # the same key again resumes, or finds it done
        for region in regions:
            if region not in run.batches:
                run = store.write_batch(region, rows_of(region), run)   # one transaction
        summary = store.commit(run)                             # checked; visible all at once

Nothing of a run is visible before ``commit``; ``abandon`` forgets it. ``resume(source)`` gives the run that an
earlier process left open. History stays: a price of a new day stands beside the old ones, and ``newest(..., on=day)``
looks back. Undated prices are the oldest of all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpufleet.catalog.prices.reader import Reader, opened
from gpufleet.catalog.prices.row import COMMITMENTS, PURCHASES, Facts, PriceRow

if TYPE_CHECKING:
    from gpufleet.catalog.prices.checks import CODES, Finding, Known, examine
    from gpufleet.catalog.prices.store import Run, Store, Summary

__all__ = [
    "CODES",
    "COMMITMENTS",
    "PURCHASES",
    "Facts",
    "Finding",
    "Known",
    "PriceRow",
    "Reader",
    "Run",
    "Store",
    "Summary",
    "examine",
    "opened",
]

WRITING = dict.fromkeys(("CODES", "Finding", "Known", "examine"), "checks") | dict.fromkeys(
    ("Run", "Store", "Summary"), "store"
)


def __getattr__(name: str) -> Any:
    """Import what writing needs when it is used: a price is asked for far more often than imported."""
    if name not in WRITING:
        raise AttributeError(name)
    return getattr(import_module(f"gpufleet.catalog.prices.{WRITING[name]}"), name)
