"""Where machines are sold, and the limits of clouds that do not depend on a machine.

``data/offered.csv`` has the regions of a machine, ``data/zones.csv`` the zones of a region, ``data/limits.csv`` the
limits; each row has its source and date. What no row states is unknown: None, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from gpufleet.boundary import build_from_row
from gpufleet.catalog.data_file import load_catalog_rows
from gpufleet.catalog.entry import Price
from gpufleet.catalog.machine_facts import get_machine_facts
from gpufleet.catalog.price_query import find_machine_price, list_machine_regions


@dataclass(frozen=True)
class Offering:
    """Where a machine is sold, and who says so. In ``unknown`` regions the source did not look."""

    regions: frozenset[str]
    unknown: frozenset[str]
    as_of: str
    source: str


@dataclass(frozen=True)
class Limit:
    """The least and the most that a cloud takes of something; None: no bound is stated."""

    low: int | None
    high: int | None
    as_of: str
    source: str

    def allows(self, value: float) -> bool:
        """Return whether the value is within the bounds."""
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    @property
    def text(self) -> str:
        """Return the bounds for a sentence: ``10 to 65,536``, ``at least 50``, ``at most 64``."""
        if self.low is None:
            return f"at most {self.high:,}"
        return f"at least {self.low:,}" if self.high is None else f"{self.low:,} to {self.high:,}"


def find_offering(cloud: str, machine: str, accelerator: str | None = None) -> Offering | None:
    """Return where a machine is sold, None if no source lists it.

    ``accelerator`` is the model that a pool attaches: then the zones that have it count, not those of the machine.
    """
    listed = None if accelerator else _load_offerings().get((cloud, machine))
    facts = get_machine_facts(machine, cloud, accelerator)
    zones = frozenset(facts.zones) if facts else frozenset()
    if listed is not None:
        return replace(listed, regions=listed.regions | zones)
    if facts is None or not zones or cloud == "aws":  # AWS's zones are known in some regions only
        return None
    return Offering(zones, frozenset(), facts.cells["zones"].as_of, facts.cells["zones"].source)


def is_sold_in(cloud: str, machine: str, region: str, accelerator: str | None = None) -> bool | None:
    """Return whether a machine is sold in a region, None if no source says. A price there says so too."""
    offering = find_offering(cloud, machine, accelerator)
    if offering is None:
        return None
    if region in offering.regions or (not accelerator and region in list_machine_regions(cloud, machine)):
        return True
    return None if region in offering.unknown else False


def list_zones(cloud: str, region: str) -> tuple[str, ...] | None:
    """Return the names of a region's zones, empty if it has none, None if no source says."""
    return _load_zones().get((cloud, region))


def find_limit(cloud: str, name: str) -> Limit | None:
    """Return a limit of a cloud, None if no source states one."""
    return _load_limits().get((cloud, name))


def find_lowest_price(cloud: str, machine: str, purchase: str) -> Price | None:
    """Return the lowest price of that purchase that is known of a machine in any region."""
    regions = list_machine_regions(cloud, machine)
    prices = (find_machine_price(cloud, region, machine, purchase) for region in regions)
    return min(filter(None, prices), key=lambda price: price.usd_per_hour, default=None)


@cache
def _load_offerings() -> dict[tuple[str, str], Offering]:
    return {
        (row["cloud"], machine): build_from_row(Offering, row)
        for row in load_catalog_rows("offered.csv")
        for machine in row.get_words("machines")
    }


@cache
def _load_zones() -> dict[tuple[str, str], tuple[str, ...]]:
    separators = {"aws": "{region}{zone}", "gcp": "{region}-{zone}", "azure": "{zone}"}
    return {
        (row["cloud"], region): tuple(
            separators[row["cloud"]].format(region=region, zone=zone) for zone in row.get_words("zones")
        )
        for row in load_catalog_rows("zones.csv")
        for region in row.get_words("regions")
    }


@cache
def _load_limits() -> dict[tuple[str, str], Limit]:
    return {
        (row["cloud"], row["limit"]): build_from_row(Limit, row) for row in load_catalog_rows("limits.csv")
    }
