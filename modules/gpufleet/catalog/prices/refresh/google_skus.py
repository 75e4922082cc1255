"""Google's SKUs, read: what each prices, how it is bought, in which regions. Nothing here touches the network.

A machine has no SKU of its own. It is made of cores, memory and accelerators, told apart by description and
category; a description that is not understood word by word prices nothing, since those that look alike cost half
(Dynamic Workload Scheduler), nothing (reserved) or belong to another product (sole tenancy, custom, workstation).
The descriptions are those of the public catalogue as users quote them, 2026-07 to 2026-10.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpufleet.catalog.model import HOURS_PER_MONTH

Sku = dict[str, Any]
USAGE = {
    "OnDemand": "on_demand",
    "Preemptible": "spot",
    "Commit1Yr": "reserved_1y",
    "Commit3Yr": "reserved_3y",
}
# How each way to buy is spelt around what is bought: (before, after), tried in this order.
WAYS = {
    "dws_flex": (re.compile(r"DWS Defined Duration "), re.compile(r" attached to DWS Defined Duration VMs")),
    "spot": (re.compile(r"(?:Spot )?Preemptible "), re.compile(r" attached to (?:Spot )?Preemptible VMs")),
    "reserved_1y": (re.compile(r"Commitment v1: "), re.compile(r" for 1 Years?\Z")),
    "reserved_3y": (re.compile(r"Commitment v1: "), re.compile(r" for 3 Years?\Z")),
}
USAGE_OF = {"dws_flex": "OnDemand", **{ours: theirs for theirs, ours in USAGE.items()}}
PLACE = re.compile(r" (?:running )?[Ii]n [^:()]+\Z| running globally\Z")
HOST = re.compile(
    r"(?:(?P<family>[ACGN]\d(?:Plus|Ultra)?) )?(?:Predefined )?(?:Instance )?(?P<kind>Core|Cpu|Ram)"
)
CARDS = {
    "Nvidia Tesla A100 GPU": "a100",
    "Nvidia Tesla A100 80GB GPU": "a100-80gb",
    "Nvidia H100 80GB GPU": "h100",
    "Nvidia H100 80GB Plus GPU": "h100-mega",
    "Nvidia H100 80GB Mega GPU": "h100-mega",
    "Nvidia H100 Mega 80GB GPU": "h100-mega",
    "H200 141GB GPU": "h200",
    "Nvidia H200 141GB GPU": "h200",
    "Nvidia L4 GPU": "l4",
    "Nvidia Tesla T4 GPU": "t4",
    "RTX 6000 96GB": "rtx-pro-6000",
}
SSD = frozenset({"SSD backed Local Storage", "Local SSD"})
UNITS = {"core": "h", "ram": "GiBy.h", "card": "h", "ssd": "GiBy.mo"}
# Family and group of the category; of disks the group is not documented, so any will do. N1's older SKUs have one
# group for both of its parts.
FAMILIES = {"core": ("Compute",), "ram": ("Compute",), "card": ("Compute",), "ssd": ("Storage", "Compute")}
GROUPS = {"core": ("CPU", "N1Standard"), "ram": ("RAM", "N1Standard"), "card": ("GPU",)}


@dataclass(frozen=True)
class Component:
    """A part of a machine, bought in one way: USD per hour and core, GiB or card."""

    kind: str  # core, ram, card, ssd
    family: str  # of the machine (a3), or which card
    purchase: str
    usd: float


def components(sku: Sku) -> Iterator[tuple[str, Component]]:
    """Yield what a SKU prices, region by region; nothing where it is not understood."""
    category = sku.get("category")
    if not isinstance(category, dict):
        return
    parsed = parse(str(sku.get("description") or ""), str(category.get("usageType") or ""))
    if parsed is None:
        return
    kind, family, purchase = parsed
    usd = price(sku, UNITS[kind])
    fits = category.get("resourceFamily") in FAMILIES[kind]
    if (
        usd is None
        or not fits
        or category.get("resourceGroup") not in GROUPS.get(kind, (category.get("resourceGroup"),))
    ):
        return
    regions = sku.get("serviceRegions")
    for region in regions if isinstance(regions, list) else ():
        yield str(region), Component(kind, family, purchase, usd)


def parse(description: str, usage: str) -> tuple[str, str, str] | None:
    """Return kind, family and purchase of a description, None for what is not a machine's part."""
    subject, purchase = _bought(description)
    if USAGE_OF[purchase] != usage:
        return None
    what = PLACE.sub("", subject)
    if what in CARDS:
        return "card", CARDS[what], purchase
    if what in SSD:
        return "ssd", "", purchase
    host = HOST.fullmatch(what)
    if host is None or (host["family"] is None and not purchase.startswith("reserved")):
        return None
    kind = "ram" if host["kind"] == "Ram" else "core"
    return kind, (host["family"] or "N1").lower(), purchase


def _bought(description: str) -> tuple[str, str]:
    """Take the words for the way to buy off a description, and name the way."""
    for purchase, (before, after) in WAYS.items():
        started = before.match(description)
        rest = description[started.end() :] if started else description
        ended = after.search(rest)
        if purchase.startswith("reserved"):
            if started and ended:
                return rest[: ended.start()], purchase
        elif started or ended:
            return (rest[: ended.start()] + rest[ended.end() :]) if ended else rest, purchase
    return description, "on_demand"


def price(sku: Sku, unit: str) -> float | None:
    """Return USD per hour of the newest price; None where currency or unit is another."""
    try:
        expression = sku["pricingInfo"][-1]["pricingExpression"]  # in order of time, says the API's reference
        rates = [rate["unitPrice"] for rate in expression["tieredRates"]]
        amounts = [int(rate.get("units") or 0) + int(rate.get("nanos") or 0) / 1e9 for rate in rates]
        known = expression["usageUnit"] == unit and all(rate["currencyCode"] == "USD" for rate in rates)
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    if not known or not amounts:
        return None
    usd = next((amount for amount in amounts if amount > 0), 0.0)  # the first tier that is not free
    return usd / HOURS_PER_MONTH if unit == "GiBy.mo" else usd
