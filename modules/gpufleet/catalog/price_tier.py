"""Volume tiers: the price of a unit beyond an amount of a month, of parts that bill by use."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from gpufleet.catalog import price_table
from gpufleet.catalog.cloud import CLOUDS

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
    keys = {
        (cloud, cells[1], cells[0]): None
        for cloud in CLOUDS
        for cells in price_table.iterate_table_rows("tier", cloud)
    }
    return {key: find_price_tiers(*key) for key in keys}


def match_price_tiers(cloud: str, region: str, part: str, usd: Decimal) -> tuple[PriceTier, ...]:
    """Return the tiers beyond the first that belong to a price; none if the list has them for another price."""
    tiers = find_price_tiers(cloud, region, part)
    return tiers[1:] if tiers and tiers[0].usd == usd else ()


def find_price_tiers(cloud: str, region: str, part: str) -> tuple[PriceTier, ...]:
    """Return the tiers of a part, empty if its price does not depend on the amount, or the tiers are unknown."""
    rows = price_table.find_item_rows("tier", cloud, part)
    return tuple(_build_tier(cells) for cells in rows if cells[0] == region)


@cache
def find_first_tier_limit(cloud: str, part: str) -> Decimal | None:
    """Return the smallest amount at which the part has a second price in a region, None without tiers."""
    starts = (Decimal(cells[1]) for cells in price_table.find_item_rows("tier", cloud, part))
    return min((start for start in starts if start), default=None)


def _build_tier(cells: list[str]) -> PriceTier:
    """Return the tier of ``region,from_amount,usd,origin``."""
    origin = price_table.load_list_origin(int(cells[3]))
    return PriceTier(Decimal(cells[1]), Decimal(cells[2]), origin.as_of, origin.source)
