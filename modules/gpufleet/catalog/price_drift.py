"""By how much prices change while nobody reads them again: measured between two dated lists of the same prices."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cache

from gpufleet.boundary import read_table
from gpufleet.catalog.entry import Price

STALE_DAYS = 180  # an older price gets a range


@dataclass(frozen=True)
class PriceDrift:
    """The ratio of the newer to the older price, of nine in ten prices: ``low`` to ``high``."""

    cloud: str
    purchase: str
    low: float
    high: float
    prices: int
    source: str


def find_price_drift(cloud: str, price: Price, today: date) -> PriceDrift | None:
    """Return the drift of a price that is older than STALE_DAYS; None of a newer or undated one, or if unmeasured.

    Commitments have no second list, so that nothing is measured of them.
    """
    day = price.earliest_price_date
    if day is None or (today - day).days <= STALE_DAYS:
        return None
    return _load_drifts().get((cloud, price.purchase))


@cache
def _load_drifts() -> dict[tuple[str, str], PriceDrift]:
    rows = read_table(PriceDrift, "gpufleet.catalog", "data/price_drift.csv")
    return {(row.cloud, row.purchase): row for row in rows}
