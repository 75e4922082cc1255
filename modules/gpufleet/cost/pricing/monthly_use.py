"""An amount that is used in a month, split into the volume tiers of its price."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from gpufleet.cost.money import ZERO, Range

SIZES = {"gib": "GiB", "mib": "MiB", "tib": "TiB", "tb": "TB", "gb": "GB"}
TIMED = {"vcpu": "vCPU", "ghz": "GHz", "dpu": "DPU", "rpu": "RPU", "dbu": "DBU", "vcore": "vCore", **SIZES}
RATES = {"mib_per_s": "MiB/s", "mibps": "MiB/s", "mbps": "MB/s", "iops": "IOPS", "rus_100": "100 RU/s"}
TIMES = ("second", "minute", "hour")


@dataclass(frozen=True)
class TierShare:
    """The part of an amount that one tier prices."""

    from_amount: Decimal
    amount: Decimal
    usd_per_unit: Decimal
    as_of: str | None
    source: str


@dataclass(frozen=True)
class MonthlyUse:
    """What is used in a month, by tier. ``unit`` is the price list's: ``gib``, ``request``, ``gib_second``.

    ``is_stored``: the price is of a unit and month; otherwise of each unit that is used up. ``caveat`` is why the cost
    may be too high. ``low_ratio`` and ``high_ratio`` are the bounds of a price that another region's stands for.
    """

    unit: str
    is_stored: bool
    shares: tuple[TierShare, ...]
    caveat: str = ""
    low_ratio: Decimal = Decimal(1)
    high_ratio: Decimal = Decimal(1)

    @property
    def amount(self) -> Decimal:
        """Return the units of a month."""
        return sum((share.amount for share in self.shares), ZERO)

    @property
    def usd_per_month(self) -> Decimal:
        """Return the cost of a month: each share at the price of its tier."""
        return sum((share.amount * share.usd_per_unit for share in self.shares), ZERO)

    @property
    def usd_per_month_range(self) -> Range:
        """Return the cost of a month with the bounds of its price."""
        usd = self.usd_per_month
        return Range(usd * self.low_ratio, usd, usd * self.high_ratio)

    @property
    def unit_name(self) -> str:
        """Return the unit as text, in the plural: GiB-months, requests."""
        return format_use_unit(self.unit, is_stored=self.is_stored, is_plural=True)

    @property
    def singular_unit_name(self) -> str:
        """Return the unit as text: GiB-month, request."""
        return format_use_unit(self.unit, is_stored=self.is_stored)


def is_time_counted(unit: str) -> bool:
    """Return whether a unit counts time itself: ``vcpu_second`` of what always runs bills 3,600 of them an hour."""
    return unit.rpartition("_")[2] in TIMES


def format_use_unit(unit: str, *, is_stored: bool, is_plural: bool = False) -> str:
    """Return a price list's unit as text: GiB-month of ``gib``, GiB of ``gib_sent``, vCPU-second of ``vcpu_second``."""
    subject, _, time = unit.rpartition("_")
    size = SIZES.get(unit.split("_", maxsplit=1)[0])
    if unit in RATES:
        name = RATES[unit]
    elif time in TIMES and subject:
        name = f"{TIMED.get(subject, subject.replace('_', ' '))}-{time}"
    elif size or unit in TIMED:
        name = size or TIMED[unit]
    else:
        name = unit.replace("_", " ")
    if is_stored:
        name += "-month"
    if not is_plural or name in SIZES.values():
        return name
    if re.search("[^aeiou]y$", name):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "sh", "ch", "x")) else f"{name}s"
