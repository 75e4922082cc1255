"""Check the key of a price: day, cloud, region, machine and unit.

Names are compared with the catalogue and the store. A machine with facts (vCPUs and memory, or accelerators) in its
source is new, not misspelt. A machine with a licensed system is known if the machine is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from gpufleet.catalog.prices.part_rule import find_rule_unit
from gpufleet.catalog.prices.row import PriceRow, split_licensed_machine
from gpufleet.catalog.prices.similar_name import ask_about_names, find_similar_names

ONE_DAY = timedelta(days=1)  # time zones differ by up to a day
NO_NAMES: frozenset[str] = frozenset()
# Parts that the price lists of the clouds name in series, and their units; the sources of a refresh build these names.
REFRESHED_PARTS = (
    (re.compile(r"(?:premium-ssd-p|standard-ssd-e|standard-hdd-s)\d{1,2}"), "disk"),
    (re.compile(r"bastion:standard"), "host"),
    (re.compile(r"rds:[a-z]+(?:-[a-z0-9]+)*:db\.[a-z0-9.-]+"), "instance"),
    (re.compile(r"elasticache:(?:redis|valkey|memcached):cache\.[a-z0-9.]+"), "node"),
    (re.compile(r"opensearch:[a-z0-9.]+\.search"), "node"),
    (re.compile(r"rds:storage:[a-z0-9]+"), "gib"),
    (re.compile(r"fargate:(?:linux_x86|linux_arm|windows):vcpu"), "vcpu"),
    (re.compile(r"fargate:(?:linux_x86|linux_arm|windows):memory"), "gib"),
)


@lru_cache(maxsize=4096)
def find_refreshed_part_unit(part: str) -> str | None:
    """Return the unit of a part that price lists name in series, None for another part."""
    unit = next((unit for pattern, unit in REFRESHED_PARTS if pattern.fullmatch(part)), None)
    return unit or find_rule_unit(part)


@dataclass(frozen=True)
class KnownNames:
    """Regions, machines and parts of each cloud, and the units of each part. Empty: unknown, not checked."""

    regions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    items: Mapping[str, frozenset[str]] = field(default_factory=dict)
    units: Mapping[str, frozenset[str]] = field(default_factory=dict)


def utc_today() -> date:
    """Return the current day in UTC."""
    return datetime.now(UTC).date()


def check_price_date(row: PriceRow, now: date) -> str | None:
    """Return a message if a price is dated in the future: it would outrank every later one."""
    return (
        f"dated {row.earliest_date_text}, in the future"
        if is_future_day(row.earliest_date_text, now)
        else None
    )


def is_future_day(day: str, now: date) -> bool:
    """Return whether a day is in the future in every time zone."""
    return day > (now + ONE_DAY).isoformat()


def check_cloud_name(row: PriceRow, names: KnownNames) -> str | None:
    """Return a message if the cloud is unknown."""
    if not names.regions or row.cloud in names.regions:
        return None
    return f"unknown cloud {row.cloud}{_suggest_name(row.cloud, names.regions)}"


def check_region_name(row: PriceRow, names: KnownNames) -> str | None:
    """Return a message if the cloud does not have the region."""
    regions = names.regions.get(row.cloud, NO_NAMES)
    if not regions or row.region in regions:
        return None
    return f"unknown {row.cloud} region {row.region}{_suggest_name(row.region, regions)}"


def check_item_name(row: PriceRow, names: KnownNames) -> str | None:
    """Return a message if the machine or part is unknown."""
    items = names.items.get(row.cloud, NO_NAMES)
    if not items or row.item in items or row.facts is not None:
        return None
    if row.kind == "part" and find_refreshed_part_unit(row.item):
        return None
    if row.kind == "machine" and split_licensed_machine(row.item)[0] in items:
        return None
    return f"unknown {row.cloud} {row.kind} {row.item}{_suggest_name(row.item, items)}"


def check_price_unit(row: PriceRow, names: KnownNames) -> str | None:
    """Return a message if a part has another unit than its known prices."""
    if row.kind != "part" or not names.units:
        return None
    series_unit = find_refreshed_part_unit(row.item)
    if series_unit and row.item not in names.units:
        return (
            None
            if row.unit == series_unit
            else f"priced by {row.unit}; {row.item} is priced by {series_unit}"
        )
    all_units = frozenset[str]().union(*names.units.values())
    units = names.units.get(row.item, all_units)
    if row.unit in units:
        return None
    subject = f"{row.item} is priced by" if row.item in names.units else "parts are priced by"
    return f"priced by {row.unit}; {subject} {', '.join(sorted(units))}"


def _suggest_name(name: str, known_names: Iterable[str]) -> str:
    question = ask_about_names(find_similar_names(name, known_names, cutoff=0.6))
    return f"; {question}" if question else ""
