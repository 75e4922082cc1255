"""Volume tiers: the price of a unit beyond an amount of a month, of parts that bill by use."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from gpufleet.boundary import build_from_row
from gpufleet.catalog.data_file import load_catalog_rows

TierKey = tuple[str, str, str]  # cloud, region, part
_UNIT_PRICE_STEP = Decimal("1E-12")


@dataclass(frozen=True)
class PriceTier:
    """The list price of each unit from an amount on; ``usd`` is of a unit, and of a month where it is stored."""

    from_amount: Decimal
    usd: Decimal
    as_of: str | None
    source: str


def round_unit_price(usd: Decimal) -> Decimal:
    """Remove the error of a monthly price that was divided into hours, and trailing zeros."""
    return usd.quantize(_UNIT_PRICE_STEP).normalize()


@cache
def load_price_tiers() -> dict[TierKey, tuple[PriceTier, ...]]:
    """Return the tiers of each part, the first of which starts at zero."""
    tiers: dict[TierKey, list[PriceTier]] = {}
    for row in load_catalog_rows("price_tiers.csv"):
        key = (row["cloud"], row["region"], row["part"])
        tiers.setdefault(key, []).append(build_from_row(PriceTier, row))
    return {key: tuple(each) for key, each in tiers.items()}


def match_price_tiers(cloud: str, region: str, part: str, usd: Decimal) -> tuple[PriceTier, ...]:
    """Return the tiers beyond the first that belong to a price; none if the list has them for another price."""
    tiers = find_price_tiers(cloud, region, part)
    return tiers[1:] if tiers and tiers[0].usd == usd else ()


def find_price_tiers(cloud: str, region: str, part: str) -> tuple[PriceTier, ...]:
    """Return the tiers of a part, empty if its price does not depend on the amount, or the tiers are unknown."""
    return load_price_tiers().get((cloud, region, part), ())


@cache
def find_first_tier_limit(cloud: str, part: str) -> Decimal | None:
    """Return the smallest amount at which the part has a second price in a region, None without tiers."""
    starts = [tiers[1].from_amount for key, tiers in load_price_tiers().items() if key[::2] == (cloud, part)]
    return min(starts, default=None)
