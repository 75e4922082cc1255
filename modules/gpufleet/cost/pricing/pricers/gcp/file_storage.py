"""Filestore, which bills its capacity by its tier; other file systems are rows of the table."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.gcp.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

FILESTORE_TIERS = {
    "STANDARD": "basic_hdd",
    "BASIC_HDD": "basic_hdd",
    "PREMIUM": "basic_ssd",
    "BASIC_SSD": "basic_ssd",
    "HIGH_SCALE_SSD": "zonal",
    "ZONAL": "zonal",
    "REGIONAL": "regional",
    "ENTERPRISE": "regional",
}


@pricer("gcp:filestore/instance:Instance")
def price_filestore(system: Reader) -> Parts:
    """Yield a Filestore instance by its tier and capacity."""
    with system.of("capacity") as capacity:
        tier = capacity.text("tier", "its tier")
        if tier not in FILESTORE_TIERS:
            raise capacity.refuse(f"no price for the Filestore tier {tier}")
        size = capacity.number("fileShares.capacityGb", "its capacity")
        yield capacity.part(f"filestore:{FILESTORE_TIERS[tier]}", size=size)
