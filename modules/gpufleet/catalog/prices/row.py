"""One price as it travels: out of a reader or a cloud's API, into the store."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date
from typing import Literal, cast

from gpufleet.catalog.model import Confidence
from gpufleet.errors import InputError

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
COMMITMENTS = tuple(each for each in PURCHASES if each.endswith(("_1y", "_3y")))
UPFRONTS = ("none", "partial", "all")
GENERATED_SINCE = "2025-11"  # data/README.md: what is older, or transcribed, is of medium confidence at most
_DAY = re.compile(r"\d{4}-\d{2}(-\d{2})?(/\d{4}-\d{2}(-\d{2})?)?\Z")
_NAME = re.compile(r"[a-z][a-z0-9_-]*\Z")


@dataclass(frozen=True)
class Facts:
    """What a source says about the machine itself, beside its price."""

    vcpus: int = 0
    memory_gib: float = 0.0
    arch: str = "x86_64"
    accelerator: str = ""
    accelerators: float = 0  # a share of a card is less than one
    accelerator_memory_gib: float = 0.0


@dataclass(frozen=True)
class PriceRow:
    """USD per ``unit`` and hour; a commitment's money paid at the start is spread over its term.

    ``as_of`` is the day the source says so, an interval of two, or empty where nobody knows. ``upfront`` tells
    apart the ways one commitment is paid, ``upfront_usd`` what is due at the start. ``where`` is the place that a
    reader found it at (``file:line``), for messages. ``offered`` is what the source knows about whether the
    machine can be had there at all.
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
    facts: Facts | None = None
    offered: bool | None = None
    where: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return what a price is asked for by."""
        return (self.cloud, self.region, self.item, self.purchase)

    @property
    def dated(self) -> str:
        """Return the earliest day it may date from, sortable; empty where undated."""
        return earliest(self.as_of)

    def trusted(self) -> Confidence:
        """Return the confidence given, else what the rule in data/README.md gives."""
        return self.confidence or confidence(self.purchase, self.as_of)


def earliest(as_of: str) -> str:
    """Return the first day that a date, a month or an interval may mean."""
    first = as_of.partition("/")[0]
    return f"{first}-01" if len(first) == len("2025-11") else first


def confidence(purchase: str, as_of: str) -> Confidence:
    """Return how far a price may be trusted: undated little, spot less than a list price."""
    if not as_of:
        return "low"
    grades = ("high", "medium", "low")
    return cast("Confidence", grades[(purchase == "spot") + (as_of < GENERATED_SINCE)])


def check(row: PriceRow) -> PriceRow:
    """Refuse what is no price at all; what is merely suspicious is for the checks."""
    if not math.isfinite(row.usd_per_hour) or row.usd_per_hour < 0:
        raise InputError(
            f"price {row.usd_per_hour} is not an amount", where=row.where, remedy="zero or more USD"
        )
    if row.purchase not in PURCHASES:
        raise InputError(
            f"unknown purchase {row.purchase!r}", where=row.where, remedy=f"one of {', '.join(PURCHASES)}"
        )
    if row.upfront not in UPFRONTS:
        raise InputError(
            f"unknown upfront {row.upfront!r}", where=row.where, remedy=f"one of {', '.join(UPFRONTS)}"
        )
    if not _NAME.match(row.cloud):
        raise InputError(f"{row.cloud!r} is no cloud's name", where=row.where, remedy="for example aws")
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
        date.fromisoformat(earliest(row.as_of))
    except ValueError:
        raise InputError(
            f"{row.as_of!r} is not a date", where=row.where, key="as_of", remedy="write it like 2026-07-06"
        ) from None
