"""The local price store, its checks and its queries.

Input: rows (``PriceRow``) from published catalogues and the clouds' APIs. Output: the newest reliable price of each
machine, region and purchase, never older than the embedded one and never a row with a finding. The store is one SQLite
file, ``paths.find_price_store_file()``; without it, only the embedded prices are used.

To write prices::

    with PriceStore(path) as store:
        run = store.begin_or_resume_run("aws-pricing", key="2026-11-21")  # the same key again resumes the run
        for region in regions:
            if region not in run.batches:
                run = store.stage_batch(region, rows_of(region), run)   # one transaction
        summary = store.commit_run(run)                             # checks the rows and makes them visible

Rows of a run are invisible before ``commit_run``; ``delete_unfinished_run`` deletes them.
``find_unfinished_run(source)`` returns the run that an earlier process left open. The store keeps history:
``find_newest_price(..., on_date=day)`` returns the price of a past day.
Undated prices are older than all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet.catalog.prices.reader import PriceReader, open_price_reader
from gpufleet.lazy_names import make_module_getattr

if TYPE_CHECKING:
    from gpufleet.catalog.prices.check import CODES, PriceCheckContext, check_prices
    from gpufleet.catalog.prices.row import COMMITMENTS, PURCHASES, MachineFacts, PriceRow
    from gpufleet.catalog.prices.store import PriceStore

__all__ = [
    "CODES",
    "COMMITMENTS",
    "PURCHASES",
    "MachineFacts",
    "PriceCheckContext",
    "PriceReader",
    "PriceRow",
    "PriceStore",
    "check_prices",
    "open_price_reader",
]

_LATER = {
    "check": ("CODES", "PriceCheckContext", "check_prices"),
    "row": ("COMMITMENTS", "PURCHASES", "MachineFacts", "PriceRow"),
    "store": ("PriceStore",),
}

__getattr__ = make_module_getattr(__name__, _LATER)
