"""One price row, as readers and the clouds' APIs pass it to the store."""

from __future__ import annotations

import math
import re
from datetime import date
from typing import Literal, cast

from gpufleet.catalog.entry import Confidence
from gpufleet.errors import InputError
from gpufleet.quick_dataclass import dataclass

Kind = Literal["machine", "part"]
Upfront = Literal["none", "partial", "all"]

PURCHASES = (
    "on_demand",
    "spot",
    "reserved_1y",  # on one machine type: AWS RI, Azure reservation, Google's resource-based commitment
    "reserved_3y",
    "savings_plan_1y",  # on a sum of money per hour: AWS, Azure
    "savings_plan_3y",
    "cud_1y",  # the same at Google: flexible commitment
    "cud_3y",
    "capacity_block",
    "dws_flex",
)
COMMITMENTS = tuple(purchase for purchase in PURCHASES if purchase.endswith(("_1y", "_3y")))
UPFRONTS = ("none", "partial", "all")
LICENSED_SYSTEMS = (
    "windows",
    "rhel",
    "sles",
)  # the machine with one of them is an item of its own: m5.large:windows
HIGH_CONFIDENCE_SINCE = (
    "2025-11"  # data/README.md: what is older, or transcribed, is of medium confidence at most
)
_DAY = re.compile(r"\d{4}-\d{2}(-\d{2})?(/\d{4}-\d{2}(-\d{2})?)?\Z")
_NAME = re.compile(r"[a-z][a-z0-9_-]*\Z")


@dataclass(frozen=True)
class MachineFacts:
    """What a source states about the machine itself."""

    vcpus: int = 0
    memory_gib: float = 0.0
    arch: str = "x86_64"
    accelerator: str = ""
    accelerators: float = 0  # a share of a card is less than one
    accelerator_memory_gib: float = 0.0


@dataclass(frozen=True)
class PriceRow:
    """USD per ``unit`` and hour; the upfront payment of a commitment is spread over its term.

    ``as_of`` is a day, an interval of two days, or empty if unknown. ``upfront`` is the payment option of a commitment,
    ``upfront_usd`` the amount due at the start. ``where`` is the row's place (``file:line``) for messages.
    ``offered`` is True or False if the source states whether the region has the machine.
    """

    cloud: str
    region: str
    item: str
    purchase: str
    usd_per_hour: float
    as_of: str
    source: str
    kind: Kind = "machine"
    unit: str = "machine"
    confidence: Confidence | None = None
    upfront: Upfront = "none"
    upfront_usd: float = 0.0
    facts: MachineFacts | None = None
    offered: bool | None = None
    where: str = ""

    @property
    def price_key(self) -> tuple[str, str, str, str]:
        """Return cloud, region, item and purchase."""
        return (self.cloud, self.region, self.item, self.purchase)

    @property
    def earliest_date_text(self) -> str:
        """Return the earliest possible day as sortable text; empty if undated."""
        return earliest_day_of_interval(self.as_of)

    def effective_confidence(self) -> Confidence:
        """Return the stated confidence, else the one that follows from the rule in data/README.md."""
        return self.confidence or default_price_confidence(self.purchase, self.as_of)


def split_licensed_machine(item: str) -> tuple[str, str]:
    """Return the machine and its licensed system: ``m5.large:windows`` is (m5.large, windows); empty without one."""
    machine, _, system = item.rpartition(":")
    return (machine, system) if machine and system in LICENSED_SYSTEMS else (item, "")


def earliest_day_of_interval(as_of: str) -> str:
    """Return the first day of a date, month or interval."""
    first = as_of.partition("/")[0]
    return f"{first}-01" if len(first) == len("2025-11") else first


def default_price_confidence(purchase: str, as_of: str) -> Confidence:
    """Return the confidence of a price: low if undated, lower for spot than for list prices."""
    if not as_of:
        return "low"
    grades = ("high", "medium", "low")
    return cast("Confidence", grades[(purchase == "spot") + (as_of < HIGH_CONFIDENCE_SINCE)])


def validate_price_row(row: PriceRow) -> PriceRow:
    """Return the row; raise InputError if it is not a valid price. Suspicious prices are for the checks."""
    if not math.isfinite(row.usd_per_hour) or row.usd_per_hour < 0:
        raise InputError(
            f"price {row.usd_per_hour} is not an amount", where=row.where, remedy="zero or more USD"
        )
    if row.purchase not in PURCHASES:
        raise InputError(
            f"unknown purchase {row.purchase!r}", where=row.where, remedy=f"use one of {', '.join(PURCHASES)}"
        )
    if row.upfront not in UPFRONTS:
        raise InputError(
            f"unknown upfront {row.upfront!r}", where=row.where, remedy=f"use one of {', '.join(UPFRONTS)}"
        )
    if not _NAME.match(row.cloud):
        raise InputError(
            f"{row.cloud!r} is not the name of a cloud", where=row.where, remedy="for example aws"
        )
    for name, value in (("region", row.region), ("machine or part", row.item), ("source", row.source)):
        if not value:
            raise InputError(f"no {name}", where=row.where)
    _check_date(row)
    return row


def _check_date(row: PriceRow) -> None:
    if not row.as_of:
        return
    try:
        if not _DAY.match(row.as_of):
            raise ValueError  # noqa: TRY301 - one message for both
        date.fromisoformat(earliest_day_of_interval(row.as_of))
    except ValueError:
        raise InputError(
            f"{row.as_of!r} is not a date", where=row.where, key="as_of", remedy="write it like 2026-07-06"
        ) from None
