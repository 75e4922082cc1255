"""Checks of what a price is named by: its day, cloud, region, machine and unit. A slip there prices nothing, or all.

Names are compared with what the catalogue and the store know. A machine that its source describes (accelerators,
vCPUs) is a new one, not a slip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches

from gpufleet.catalog.prices.row import PriceRow

DAY = timedelta(days=1)  # it is tomorrow already somewhere
NO_NAMES: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Names:
    """Regions, and machines and parts, of each cloud; the units of each part. Empty: nothing is known."""

    regions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    items: Mapping[str, frozenset[str]] = field(default_factory=dict)
    units: Mapping[str, frozenset[str]] = field(default_factory=dict)


def today() -> date:
    """Return the day."""
    return datetime.now(UTC).date()


def future(row: PriceRow, now: date) -> str | None:
    """Find a day that has not come: such a price would outrank every later one."""
    return f"dated {row.dated}, which is yet to come" if is_future(row.dated, now) else None


def is_future(dated: str, now: date) -> bool:
    """Tell whether a day has not come yet, anywhere on earth."""
    return dated > (now + DAY).isoformat()


def cloud(row: PriceRow, known: Names) -> str | None:
    """Find a cloud that nothing else here is about."""
    if not known.regions or row.cloud in known.regions:
        return None
    return f"no cloud is called {row.cloud}{_close(row.cloud, known.regions)}"


def region(row: PriceRow, known: Names) -> str | None:
    """Find a region that its cloud does not have."""
    listed = known.regions.get(row.cloud, NO_NAMES)
    if not listed or row.region in listed:
        return None
    return f"no region of {row.cloud} is called {row.region}{_close(row.region, listed)}"


def item(row: PriceRow, known: Names) -> str | None:
    """Find a machine or part that nobody describes."""
    listed = known.items.get(row.cloud, NO_NAMES)
    if not listed or row.item in listed or row.facts is not None:
        return None
    return f"no {row.kind} of {row.cloud} is called {row.item}{_close(row.item, listed)}"


def unit(row: PriceRow, known: Names) -> str | None:
    """Find a part priced by another unit than the pricers ask for it."""
    if row.kind != "part" or not known.units:
        return None
    anywhere = frozenset[str]().union(*known.units.values())
    listed = known.units.get(row.item, anywhere)
    if row.unit in listed:
        return None
    told = f"{row.item} is priced by" if row.item in known.units else "parts are priced by"
    return f"priced by {row.unit}; {told} {', '.join(sorted(listed))}"


def _close(said: str, listed: Iterable[str]) -> str:
    found = get_close_matches(said, listed, n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""
