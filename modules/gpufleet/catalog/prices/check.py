"""Find suspicious prices: each check is a function from a row and its context to a finding.

The bounds come from price data of 2025-04 to 2026-07 (139 machine types): list prices and commitments are
within 0.71 and 1.60 of their median over regions, spot within 0.27 and 2.98; real cuts were
33 to 44 % (AWS P4 and P5, June 2025) and a real spot price moved by a factor of 3.1 within two years.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property
from statistics import median

from gpufleet.catalog.entry import HOURS_PER_MONTH
from gpufleet.catalog.prices import name_check, size_check
from gpufleet.catalog.prices.name_check import KnownNames
from gpufleet.catalog.prices.row import COMMITMENTS, PriceRow, split_licensed_machine
from gpufleet.catalog.prices.size_check import FamilyPrices, MachineSize

PLACEHOLDER_SHARE = 0.10  # 24 AWS spot rows had exactly this share of on-demand
NEAR_ON_DEMAND_SHARE = 0.95  # 51 spot rows had this share or more: not a market price
SENTINELS = frozenset({700.0, 999.0, 9999.0, 99999.0})  # 700.0 occurs in SkyPilot's TPU v6e rows
FIXED_REGION_BOUNDS = (0.6, 1.8)
ORDINARY_REGION_BOUNDS = (
    0.5,
    2.0,
)  # AMD and Arm machines cost 0.51 to 0.55 of the median in India, on three clouds
PART_REGION_BOUNDS = (0.4, 3.0)  # storage in two regions at once costs up to 2.7 times that of one
SPOT_REGION_BOUNDS = (1 / 6, 6.0)
MIN_REGIONS = 4
FIXED_JUMP = (0.5, 1.5)
SPOT_JUMP = (0.2, 5.0)
TERM_PRICE_FACTOR = 50  # a commitment at this multiple of on-demand is the price of the term
MIN_TERM_PRICE_USD = 1500.0  # the same if on-demand is unknown: no machine costs this per hour
DWS_SHARE = 0.6  # 4.20 and 4.58 of 9.80 and 9.31 USD per GPU: what a mismatched SKU looked like
OFFERING_VALIDITY = timedelta(days=180)  # for this long a list of regions counts as complete
SUSPECT_TAGS = ("suspect", "pre-2025-06-cut")

CODES = {
    "future": "dated in the future",
    "unknown-cloud": "of an unknown cloud",
    "unknown-region": "of a region that its cloud does not have",
    "unknown-machine": "of a machine or part that neither the catalogue nor the file describes",
    "unknown-unit": "in a unit that no pricer uses",
    "zero-price": "costs nothing",
    "sentinel": "a placeholder, not a price",
    "spot-not-cheaper": "spot at or above on-demand",
    "spot-placeholder": "spot at exactly 10 %, or at 95 % and more, of on-demand",
    "commitment-not-cheaper": "a commitment at or above on-demand: stale, or another term",
    "whole-term": "the price of the whole term instead of an hour (Azure reservations)",
    "dws-mismatch": "Google's on-demand far below other regions: the SKU of another purchase",
    "region-outlier": "far from what other regions charge",
    "jump": "far from the last known price",
    "not-offered": "priced, but not offered there",
    "accelerators": "another number of accelerators than the machine has",
    "host-only": "a machine's price without its accelerators",
    "unit-price": "far from what its vCPUs and memory cost elsewhere",
    "family-outlier": "far from the other sizes of its family",
    "licence-cheaper": "with a licensed system cheaper than without",
    "tagged": "tagged by its source as suspect or stale",
}

PriceKey = tuple[str, str, str, str]


@dataclass(frozen=True)
class MachineAvailability:
    """The regions that offer a machine, and the day and source of that list."""

    regions: frozenset[str]
    as_of: str
    source: str


@dataclass(frozen=True)
class PriceCheckContext:
    """What rows are compared with: newest price and its day, and what is known of the machines.

    ``sizes`` has vCPUs and GiB of memory of machines without accelerators, ``part_prices`` the median embedded price
    of a part over regions, by cloud and part, for regions without a price of their own.
    """

    prices: Mapping[PriceKey, tuple[float, str]] = field(default_factory=dict)
    accelerators: Mapping[tuple[str, str], float] = field(default_factory=dict)
    sizes: Mapping[tuple[str, str], MachineSize] = field(default_factory=dict)
    part_prices: Mapping[tuple[str, str], float] = field(default_factory=dict)
    retired: Mapping[tuple[str, str], str] = field(default_factory=dict)
    offered: Mapping[tuple[str, str], MachineAvailability] = field(default_factory=dict)
    names: KnownNames = field(default=KnownNames())
    today: date = field(default_factory=lambda: name_check.utc_today())  # noqa: PLW0108 - tests set the day


@dataclass(frozen=True)
class PriceFinding:
    """One suspicious row."""

    code: str
    row: PriceRow
    reason: str


class PriceBatch:
    """The rows that are checked together, with their context."""

    def __init__(self, rows: Iterable[PriceRow], context: PriceCheckContext) -> None:
        self.rows = list(rows)
        self.context = context

    @cached_property
    def newest_rows_by_key(self) -> dict[PriceKey, PriceRow]:
        """Return the newest row of each key."""
        return {
            row.price_key: row
            for row in sorted(self.rows, key=lambda row: (row.earliest_date_text, row.upfront == "none"))
        }

    @cached_property
    def prices_by_region(self) -> dict[tuple[str, str, str, str], dict[str, float]]:
        """Return prices by cloud, item, purchase and upfront, then by region."""
        regions_by_offer: dict[tuple[str, str, str, str], dict[str, float]] = defaultdict(dict)
        for row in sorted(self.rows, key=lambda row: row.earliest_date_text):
            if row.usd_per_hour not in SENTINELS and row.usd_per_hour > 0:
                regions_by_offer[row.cloud, row.item, row.purchase, row.upfront][row.region] = (
                    row.usd_per_hour
                )
        return regions_by_offer

    def find_on_demand_price(self, row: PriceRow) -> float | None:
        """Return the on-demand price for a row: from the same batch unless that is a jump, else the last known."""
        key = (*row.price_key[:3], "on_demand")
        last_price, batch_row = self.context.prices.get(key), self.newest_rows_by_key.get(key)
        if batch_row is None or (last_price and _is_jump(batch_row, last_price)):
            return last_price[0] if last_price else None
        return batch_row.usd_per_hour or None

    def has_last_price(self, row: PriceRow) -> bool:
        """Return True if the region has a known price of the item: nobody misspelt it."""
        keys = (row.price_key, (*row.price_key[:3], "on_demand"))
        return any(key in self.context.prices for key in keys)

    @cached_property
    def family_prices(self) -> FamilyPrices:
        """Return the prices of the batch by family of machines."""
        return size_check.collect_family_prices(self.rows, self.find_size)

    def is_without_accelerators(self, row: PriceRow) -> bool:
        """Return True for a machine of which the source or the catalogue knows that it has no accelerators."""
        machine = (row.cloud, split_licensed_machine(row.item)[0])
        if row.kind != "machine" or machine in self.context.accelerators:
            return False
        return not row.facts.accelerators if row.facts else machine in self.context.sizes

    def find_size(self, row: PriceRow) -> MachineSize | None:
        """Return vCPUs and memory of a machine without accelerators; None if unknown."""
        if not self.is_without_accelerators(row):
            return None
        if row.facts and row.facts.vcpus:
            return row.facts.vcpus, row.facts.memory_gib
        return self.context.sizes.get((row.cloud, split_licensed_machine(row.item)[0]))

    def find_price_without_licence(self, row: PriceRow) -> float | None:
        """Return what the machine costs without a licensed system; None for a machine without one."""
        machine, system = split_licensed_machine(row.item)
        without_licence = self.prices_by_region.get((row.cloud, machine, row.purchase, row.upfront), {})
        return without_licence.get(row.region) if system else None


def check_prices(rows: Iterable[PriceRow], context: PriceCheckContext) -> Iterator[PriceFinding]:
    """Yield every finding, row by row; a row may have several."""
    batch = PriceBatch(rows, context)
    for row in batch.rows:
        for code, check in CHECKS.items():
            reason = check(row, batch)
            if reason:
                yield PriceFinding(code, row, reason)


def _check_zero_price(row: PriceRow, batch: PriceBatch) -> str | None:  # noqa: ARG001 - all checks have the same signature
    if row.usd_per_hour > 0 or (row.kind == "part" and row.item in FREE_PARTS):
        return None
    return "costs 0.00"


FREE_PARTS = frozenset({"efa"})  # free of charge according to the vendor


def _check_sentinel(row: PriceRow, batch: PriceBatch) -> str | None:
    if row.usd_per_hour not in SENTINELS:
        return None
    other_prices = list(
        batch.prices_by_region.get((row.cloud, row.item, row.purchase, row.upfront), {}).values()
    )
    if (
        other_prices
        and FIXED_REGION_BOUNDS[0] <= row.usd_per_hour / median(other_prices) <= FIXED_REGION_BOUNDS[1]
    ):
        return None
    return f"{row.usd_per_hour:g} is a placeholder, not a price"


def _check_spot_below_on_demand(row: PriceRow, batch: PriceBatch) -> str | None:
    on_demand = batch.find_on_demand_price(row)
    if row.purchase != "spot" or not on_demand or row.usd_per_hour < on_demand:
        return None
    return f"spot {row.usd_per_hour:g} is not below on-demand {on_demand:g}"


def _check_spot_placeholder(row: PriceRow, batch: PriceBatch) -> str | None:
    on_demand = batch.find_on_demand_price(row)
    if row.purchase != "spot" or not on_demand or row.usd_per_hour >= on_demand:
        return None
    share = row.usd_per_hour / on_demand
    if round(share, 4) == PLACEHOLDER_SHARE or share >= NEAR_ON_DEMAND_SHARE:
        return f"spot is {share:.1%} of on-demand {on_demand:g}"
    return None


def _check_commitment_below_on_demand(row: PriceRow, batch: PriceBatch) -> str | None:
    on_demand = batch.find_on_demand_price(row)
    if (
        row.purchase not in COMMITMENTS
        or not on_demand
        or not on_demand <= row.usd_per_hour < on_demand * TERM_PRICE_FACTOR
    ):
        return None
    return f"{row.purchase} {row.usd_per_hour:g} is not below on-demand {on_demand:g}"


def _check_term_price(row: PriceRow, batch: PriceBatch) -> str | None:
    if row.purchase not in COMMITMENTS or row.kind == "part":
        return None
    on_demand = batch.find_on_demand_price(row)
    if row.usd_per_hour < (on_demand * TERM_PRICE_FACTOR if on_demand else MIN_TERM_PRICE_USD):
        return None
    return f"{row.usd_per_hour:g} an hour looks like the price of the whole term"


def _check_dws_sku(row: PriceRow, batch: PriceBatch) -> str | None:
    if row.cloud != "gcp" or row.purchase != "on_demand" or not _has_accelerator_price(row):
        return None
    if batch.is_without_accelerators(row):
        return None
    other_prices = _prices_of_other_regions(row, batch)
    if not other_prices or row.usd_per_hour <= 0:
        return None
    typical_price = median(other_prices) if len(other_prices) >= MIN_REGIONS - 1 else max(other_prices)
    if row.usd_per_hour >= DWS_SHARE * typical_price:
        return None
    return (
        f"{row.usd_per_hour:g}, but other regions charge {typical_price:g}: a Dynamic Workload Scheduler SKU?"
    )


def _check_region_outlier(row: PriceRow, batch: PriceBatch) -> str | None:
    regional_prices = batch.prices_by_region.get(
        (row.cloud, row.item, row.purchase, row.upfront), {}
    ).values()
    if row.usd_per_hour in SENTINELS or row.usd_per_hour <= 0:
        return None
    low, high = _choose_region_bounds(row, batch)
    median_price = median(regional_prices) if len(regional_prices) >= MIN_REGIONS else None
    if median_price is None and row.purchase == "on_demand" and not batch.has_last_price(row):
        median_price = batch.context.part_prices.get((row.cloud, row.item))
    if median_price is None:
        return None
    if low <= row.usd_per_hour / median_price <= high:
        return None
    is_of_month = low <= row.usd_per_hour / HOURS_PER_MONTH / median_price <= high
    hint = "; if it is the price of a month, give usd and per" if is_of_month else ""
    return f"{row.usd_per_hour:g} in {row.region}, {median_price:g} in the median region{hint}"


def _choose_region_bounds(row: PriceRow, batch: PriceBatch) -> tuple[float, float]:
    if row.purchase == "spot":
        return SPOT_REGION_BOUNDS
    if not _has_accelerator_price(row):
        return PART_REGION_BOUNDS
    return ORDINARY_REGION_BOUNDS if batch.is_without_accelerators(row) else FIXED_REGION_BOUNDS


def _has_accelerator_price(row: PriceRow) -> bool:
    """Return True for a machine or an attachable card; False for disks, databases and other parts."""
    return row.kind == "machine" or row.item.startswith("accelerator:")


def _check_price_jump(row: PriceRow, batch: PriceBatch) -> str | None:
    last_price = batch.context.prices.get(row.price_key)
    if last_price is None or not _is_jump(row, last_price):
        return None
    return f"{row.usd_per_hour:g}, after {last_price[0]:g} on {last_price[1] or 'an unknown day'}"


def _is_jump(row: PriceRow, last_price: tuple[float, str]) -> bool:
    """Return True if a price is far from the last known one, which is not newer."""
    last_usd, last_day = last_price
    if not last_usd or not row.usd_per_hour or last_day > row.earliest_date_text or row.upfront != "none":
        return False
    low, high = SPOT_JUMP if row.purchase == "spot" else FIXED_JUMP
    return not low <= row.usd_per_hour / last_usd <= high


def _check_offering(row: PriceRow, batch: PriceBatch) -> str | None:
    if row.offered is False:
        return f"its source does not list {row.item} in {row.region}"
    retired_on = batch.context.retired.get((row.cloud, row.item))
    if retired_on and (not row.earliest_date_text or row.earliest_date_text >= retired_on):
        return f"{row.item} was retired on {retired_on}"
    offering = batch.context.offered.get((row.cloud, row.item))
    if offering is None or row.region in offering.regions or row.offered:
        return None
    if (
        row.earliest_date_text
        and date.fromisoformat(row.earliest_date_text)
        > date.fromisoformat(offering.as_of) + OFFERING_VALIDITY
    ):
        return None
    return f"{row.item} is not offered in {row.region} ({offering.source}, {offering.as_of})"


def _check_accelerator_count(row: PriceRow, batch: PriceBatch) -> str | None:
    expected_count = batch.context.accelerators.get((row.cloud, row.item))
    if expected_count is None or row.facts is None or not row.facts.accelerators:
        return None
    if abs(row.facts.accelerators - expected_count) <= max(0.01, expected_count * 0.01):
        return None
    return f"says {row.facts.accelerators:g} accelerators, {row.item} has {expected_count:g}"


def _check_host_only(row: PriceRow, batch: PriceBatch) -> str | None:
    expected_count = batch.context.accelerators.get((row.cloud, row.item))
    if expected_count is None or row.facts is None or row.facts.accelerators:
        return None
    return f"prices {row.item} without its {expected_count:g} accelerators"


def _check_source_tags(row: PriceRow, batch: PriceBatch) -> str | None:  # noqa: ARG001 - all checks have the same signature
    tags = [part for part in row.source.split(";") if part.startswith(SUSPECT_TAGS)]
    return f"its source is tagged {tags[0]}" if tags else None


def _prices_of_other_regions(row: PriceRow, batch: PriceBatch) -> list[float]:
    """Return the prices of other regions for the same item and purchase."""
    regions = batch.prices_by_region.get((row.cloud, row.item, row.purchase, row.upfront), {})
    return [usd for region, usd in regions.items() if region != row.region]


CHECKS: dict[str, Callable[[PriceRow, PriceBatch], str | None]] = {
    "future": lambda row, batch: name_check.check_price_date(row, batch.context.today),
    "unknown-cloud": lambda row, batch: name_check.check_cloud_name(row, batch.context.names),
    "unknown-region": lambda row, batch: name_check.check_region_name(row, batch.context.names),
    "unknown-machine": lambda row, batch: (
        None if batch.has_last_price(row) else name_check.check_item_name(row, batch.context.names)
    ),
    "unknown-unit": lambda row, batch: name_check.check_price_unit(row, batch.context.names),
    "zero-price": _check_zero_price,
    "sentinel": _check_sentinel,
    "spot-not-cheaper": _check_spot_below_on_demand,
    "spot-placeholder": _check_spot_placeholder,
    "commitment-not-cheaper": _check_commitment_below_on_demand,
    "whole-term": _check_term_price,
    "dws-mismatch": _check_dws_sku,
    "region-outlier": _check_region_outlier,
    "jump": _check_price_jump,
    "not-offered": _check_offering,
    "accelerators": _check_accelerator_count,
    "host-only": _check_host_only,
    "unit-price": lambda row, batch: size_check.check_price_for_size(row, batch.find_size(row)),
    "family-outlier": lambda row, batch: size_check.check_price_in_family(
        row, batch.find_size(row), batch.family_prices
    ),
    "licence-cheaper": lambda row, batch: size_check.check_licence_surcharge(
        row, batch.find_price_without_licence(row)
    ),
    "tagged": _check_source_tags,
}
