"""Parse Google's SKUs: component, purchase, regions and price. No network access.

A machine has no SKU of its own: it consists of cores, memory and accelerators, which description and category identify.
A description must match completely, since similar ones cost half (Dynamic Workload Scheduler), nothing (reserved) or
belong to another product (sole tenancy, custom, workstation). The descriptions are those of the public catalogue as
users quote them, 2026-07 to 2026-10; of ordinary machines, disks and addresses as in build/mapping.csv of
Cyclenerd/google-cloud-pricing-cost-calculator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.boundary import Json
from gpufleet.catalog.entry import HOURS_PER_MONTH

PURCHASE_BY_USAGE = {
    "OnDemand": "on_demand",
    "Preemptible": "spot",
    "Commit1Yr": "reserved_1y",
    "Commit3Yr": "reserved_3y",
}
# The prefix and suffix of a description by purchase, tried in this order.
PURCHASE_PATTERNS = {
    "dws_flex": (re.compile(r"DWS Defined Duration "), re.compile(r" attached to DWS Defined Duration VMs")),
    "spot": (re.compile(r"(?:Spot )?Preemptible "), re.compile(r" attached to (?:Spot )?Preemptible VMs")),
    "reserved_1y": (re.compile(r"Commitment(?: v1)?: "), re.compile(r" for 1 Years?\Z")),
    "reserved_3y": (re.compile(r"Commitment(?: v1)?: "), re.compile(r" for 3 Years?\Z")),
}
USAGE_BY_PURCHASE = {
    "dws_flex": "OnDemand",
    **{purchase: usage for usage, purchase in PURCHASE_BY_USAGE.items()},
}
LOCATION_SUFFIX = re.compile(r" (?:running )?[Ii]n [^:()]+\Z| running globally\Z")
HOST_PATTERN = re.compile(
    r"(?:(?P<family>[ACEGHMNT]\d(?:[ADN]|Plus|Ultra)?|Compute optimized|Memory-optimized)"
    r"(?: AMD| Arm| Memory-optimized)? )?(?:Predefined )?(?:Instance )?(?P<kind>Core|Cpu|Ram)"
)
NAMED_FAMILIES = {"Compute optimized": "c2", "Memory-optimized": "m1"}
SHARED_CORE_DESCRIPTIONS = {"Micro Instance with burstable CPU": "f1", "Small Instance with 1 VCPU": "g1"}
DISK_DESCRIPTIONS = {
    "Storage PD Capacity": "pd-standard",
    "SSD backed PD Capacity": "pd-ssd",
    "Balanced PD Capacity": "pd-balanced",
    "Extreme PD Capacity": "pd-extreme",
    "Regional Storage PD Capacity": "regional-pd-standard",
    "Regional SSD backed PD Capacity": "regional-pd-ssd",
    "Storage PD Snapshot": "snapshot",
}
ADDRESS_DESCRIPTIONS = {"External IP Charge on a Standard VM": "public_ipv4"}
CARD_DESCRIPTIONS = {
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
    "Nvidia Tesla V100 GPU": "v100",
    "RTX 6000 96GB": "rtx-pro-6000",
}
SSD_DESCRIPTIONS = frozenset({"SSD backed Local Storage", "Local SSD"})
# By our unit and a SKU's, how many of the SKU's are one of ours: C4D bills its memory by decimal gigabyte
# (build/mapping.sql of Cyclenerd/google-cloud-pricing-cost-calculator@fd66b26). No other units are converted.
GB_PER_GIB = 1024**3 / 1000**3
TB_PER_TIB = 1024**4 / 1000**4
UNIT_FACTORS = {
    **{("GiBy" + per, "GBy" + per): GB_PER_GIB for per in ("", ".h", ".mo", ".s")},
    ("TiBy", "TBy"): TB_PER_TIB,
    ("MiBy", "MBy"): 1024**2 / 1000**2,
}
USAGE_UNITS = {"core": "h", "ram": "GiBy.h", "card": "h", "ssd": "GiBy.mo", "disk": "GiBy.mo", "address": "h"}
# Family and group of the category; the group of disks is not documented, so any is accepted. Older SKUs of N1
# have one group for cores and memory.
RESOURCE_FAMILIES = {
    "core": ("Compute",),
    "ram": ("Compute",),
    "card": ("Compute",),
    "ssd": ("Storage", "Compute"),
    "disk": ("Storage",),
    "address": ("Network",),
}
RESOURCE_GROUPS = {
    "core": ("CPU", "N1Standard", "F1Micro", "G1Small"),
    "ram": ("RAM", "N1Standard"),
    "card": ("GPU",),
}


@dataclass(frozen=True)
class PricedSkuComponent:
    """A component of a machine with its purchase: USD per hour and core, GiB or card."""

    kind: str  # core, ram, card, ssd, disk, address
    family: str  # of the machine (a3), or which card or part
    purchase: str
    usd: float


def parse_sku_components(sku: Json) -> Iterator[tuple[str, PricedSkuComponent]]:
    """Yield region and component of a SKU; nothing if it is unknown."""
    category = sku.get("category")
    if not isinstance(category, dict):
        return
    parsed = parse_sku_description(str(sku.get("description") or ""), str(category.get("usageType") or ""))
    if parsed is None:
        return
    kind, family, purchase = parsed
    usd = parse_unit_usd_per_hour(sku, USAGE_UNITS[kind])
    is_expected_family = category.get("resourceFamily") in RESOURCE_FAMILIES[kind]
    if (
        usd is None
        or not is_expected_family
        or category.get("resourceGroup") not in RESOURCE_GROUPS.get(kind, (category.get("resourceGroup"),))
    ):
        return
    regions = sku.get("serviceRegions")
    for region in regions if isinstance(regions, list) else ():
        yield str(region), PricedSkuComponent(kind, family, purchase, usd)


def parse_sku_description(description: str, usage: str) -> tuple[str, str, str] | None:
    """Return kind, family and purchase of a description, None if it is not a component of a machine."""
    subject, purchase = _split_purchase(description)
    if USAGE_BY_PURCHASE[purchase] != usage:
        return None
    subject_name = LOCATION_SUFFIX.sub("", subject)
    if subject_name in CARD_DESCRIPTIONS:
        return "card", CARD_DESCRIPTIONS[subject_name], purchase
    if subject_name in SSD_DESCRIPTIONS:
        return "ssd", "", purchase
    for kind, names in (
        ("disk", DISK_DESCRIPTIONS),
        ("address", ADDRESS_DESCRIPTIONS),
        ("core", SHARED_CORE_DESCRIPTIONS),
    ):
        if subject_name in names:
            return kind, names[subject_name], purchase
    match = HOST_PATTERN.fullmatch(subject_name)
    if match is None or (match["family"] is None and not purchase.startswith("reserved")):
        return None
    kind = "ram" if match["kind"] == "Ram" else "core"
    family = match["family"] or "N1"
    return kind, NAMED_FAMILIES.get(family, family.lower()), purchase


def _split_purchase(description: str) -> tuple[str, str]:
    """Return a description without the words for the purchase, and the purchase."""
    for purchase, (before, after) in PURCHASE_PATTERNS.items():
        prefix = before.match(description)
        remainder = description[prefix.end() :] if prefix else description
        suffix = after.search(remainder)
        if purchase.startswith("reserved"):
            if prefix and suffix:
                return remainder[: suffix.start()], purchase
        elif prefix or suffix:
            return (
                remainder[: suffix.start()] + remainder[suffix.end() :]
            ) if suffix else remainder, purchase
    return description, "on_demand"


def parse_unit_usd_per_hour(sku: Json, unit: str) -> float | None:
    """Return the newest price in USD per hour, or per use; None for another currency or unit.

    Of a price in tiers the first that is not free counts.
    """
    try:
        expression = sku["pricingInfo"][-1][
            "pricingExpression"
        ]  # in order of time according to the API reference
        rates = [rate["unitPrice"] for rate in expression["tieredRates"]]
        amounts = [int(rate.get("units") or 0) + int(rate.get("nanos") or 0) / 1e9 for rate in rates]
        factor = find_unit_factor(expression["usageUnit"], unit)
        is_usd = all(rate["currencyCode"] == "USD" for rate in rates)
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    if factor is None or not is_usd or not amounts:
        return None
    usd = next((amount for amount in amounts if amount > 0), 0.0) * factor
    return usd / HOURS_PER_MONTH if unit in {"GiBy.mo", "mo"} else usd


def find_unit_factor(sku_unit: object, unit: str) -> float | None:
    """Return how many of a SKU's unit one ``unit`` is; None if they measure different things."""
    if sku_unit == unit:
        return 1.0
    return UNIT_FACTORS.get((unit, sku_unit)) if isinstance(sku_unit, str) else None
