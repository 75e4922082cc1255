"""Compare a machine's price with its size, its family and its price without a licence.

The bounds come from 577,740 prices of 2025-05 to 2026-07 in 100 AWS, 60 Azure and 43 Google regions. A machine without
accelerators costs 0.045 (t4g.nano) to 6.5 times (hs1.8xlarge) 0.03 USD per vCPU plus 0.004 USD per GiB. Within a
family, USD per GiB of memory is nearly constant: 0.47 to 1.85 times the family's median, spot 0.16 to 4.3 times.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from gpufleet.catalog.prices.row import PriceRow, split_licensed_machine

VCPU_USD, GIB_USD = 0.03, 0.004  # close to the middle of all list prices
SIZE_BOUNDS = (0.03, 10.0)  # of on-demand; commitments and spot may be cheaper
CHEAPER_PURCHASE_SHARE = 0.1  # so much cheaper: the largest discounts are about 90 %
FAMILY_BOUNDS = (0.4, 2.5)
SPOT_FAMILY_BOUNDS = (1 / 8, 6.0)
MIN_FAMILY_MEMBERS = 3
LICENCE_TOLERANCE = 0.999

MachineSize = tuple[int, float]  # vCPUs and GiB of memory of a machine without accelerators
SizeLookup = Callable[[PriceRow], MachineSize | None]
FamilyKey = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class FamilyPrices:
    """USD per GiB and hour of each machine, by cloud, region, purchase, upfront and family."""

    usd_per_gib: dict[FamilyKey, dict[str, float]]

    def find_median(self, row: PriceRow) -> float | None:
        """Return the median USD per GiB of a machine's family; None for a family of few members."""
        members = self.usd_per_gib.get(_family_key(row), {})
        return median(members.values()) if len(members) >= MIN_FAMILY_MEMBERS else None


def collect_family_prices(rows: Iterable[PriceRow], find_size: SizeLookup) -> FamilyPrices:
    """Return the prices of all families of the rows; the newest price of a machine counts."""
    families: dict[FamilyKey, dict[str, float]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: row.earliest_date_text):
        size = find_size(row)
        if size and size[1] and row.usd_per_hour > 0 and not split_licensed_machine(row.item)[1]:
            families[_family_key(row)][row.item] = row.usd_per_hour / size[1]
    return FamilyPrices(families)


def machine_family(cloud: str, machine: str) -> str:
    """Return the family of a machine: t3, n2-standard, Standard_D#s_v5. Its members differ in size only.

    A licensed system does not change the family: both prices must be compared.
    """
    machine = split_licensed_machine(machine)[0]
    if cloud == "aws":
        return machine.partition(".")[0]
    if cloud == "gcp":
        return re.sub(r"-(?:\d+|micro|small|medium)\b", "-#", machine, count=1)
    return re.sub(r"\d+", "#", machine, count=1)


def checked_group(cloud: str, kind: str, item: str) -> str:
    """Return the group of an item whose prices are checked together: a machine's family, or the part itself."""
    return item if kind == "part" else machine_family(cloud, item)


def check_price_for_size(row: PriceRow, size: MachineSize | None) -> str | None:
    """Return a message if the price does not fit vCPUs and memory."""
    if size is None or not all(size) or row.usd_per_hour <= 0:
        return None
    typical_usd = VCPU_USD * size[0] + GIB_USD * size[1]
    low, high = SIZE_BOUNDS
    if row.purchase != "on_demand":
        low *= CHEAPER_PURCHASE_SHARE
    if low <= row.usd_per_hour / typical_usd <= high:
        return None
    return f"{row.usd_per_hour:g} for {size[0]} vCPUs and {size[1]:g} GiB; about {typical_usd:.4g} is typical"


def check_price_in_family(row: PriceRow, size: MachineSize | None, families: FamilyPrices) -> str | None:
    """Return a message if a GiB of memory costs far more or less than in the family's other sizes."""
    if size is None or not size[1] or row.usd_per_hour <= 0 or split_licensed_machine(row.item)[1]:
        return None
    typical_usd = families.find_median(row)
    if not typical_usd:
        return None
    low, high = SPOT_FAMILY_BOUNDS if row.purchase == "spot" else FAMILY_BOUNDS
    usd = row.usd_per_hour / size[1]
    if low <= usd / typical_usd <= high:
        return None
    family = machine_family(row.cloud, row.item)
    return f"{usd:.3g} per GiB, {typical_usd:.3g} in the median of {family} in {row.region}"


def check_licence_surcharge(row: PriceRow, usd_without_licence: float | None) -> str | None:
    """Return a message if a machine with a licensed system costs less than without it."""
    system = split_licensed_machine(row.item)[1]
    if not system or not usd_without_licence or row.usd_per_hour >= LICENCE_TOLERANCE * usd_without_licence:
        return None
    return f"{row.usd_per_hour:g} with {system}, {usd_without_licence:g} without"


def _family_key(row: PriceRow) -> FamilyKey:
    return row.cloud, row.region, row.purchase, row.upfront, machine_family(row.cloud, row.item)
