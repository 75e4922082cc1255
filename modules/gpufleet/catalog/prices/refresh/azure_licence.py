"""Azure's fees for Red Hat and SUSE: billed by the VM's vCPUs on top of its price, the same in all regions.

Product, SKU and meter names: public code that reads these meters (flexera-public/policy_templates@d5955aed
tools/cloud_data/azure/azure_linux_license_pricing.py, WWhaleFe/azure-cost-estimator@64a8a797 test/vm-rhel-suse.test.js)
and Microsoft's pages on RHEL and SUSE reservations. Red Hat has a meter for each number of vCPUs, SUSE three bands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gpufleet.boundary import Json
from gpufleet.catalog import data_file
from gpufleet.catalog.prices import snapshot
from gpufleet.catalog.prices.row import MachineFacts, PriceRow, split_licensed_machine

SYSTEM_BY_PRODUCT = {"Red Hat Enterprise Linux": "rhel", "SUSE Linux Enterprise Server Standard": "sles"}
LICENCE_FILTER = (
    "serviceName eq 'Virtual Machines Licenses' and priceType eq 'Consumption' and ("
    + " or ".join(f"productName eq '{product}'" for product in SYSTEM_BY_PRODUCT)
    + ")"
)
EXACT_SIZE = re.compile(r"(?P<vcpus>\d{1,4})[ -]vCPU VM")
SIZE_BANDS = {"1-2 vCPU VM": (1, 2), "3-4 vCPU VM": (3, 4), "5+ vCPU VM": (5, 10_000)}
LICENSED_PURCHASES = frozenset({"on_demand", "reserved_1y", "reserved_3y"})


@dataclass(frozen=True)
class LicenceFee:
    """USD per hour for a system on VMs of these vCPUs, both ends included."""

    system: str
    min_vcpus: int
    max_vcpus: int
    usd_per_hour: float


def read_licence_fee(item: Json, usd: float | None) -> LicenceFee | None:
    """Return the fee of an item, None for another item: a customer's own subscription is free."""
    system = SYSTEM_BY_PRODUCT.get(str(item.get("productName")))
    sku, meter = str(item.get("skuName") or ""), str(item.get("meterName") or "")
    if not system or not usd or item.get("type") != "Consumption" or item.get("unitOfMeasure") != "1 Hour":
        return None
    suffix = "License" if system == "rhel" else "Support"
    exact = EXACT_SIZE.fullmatch(sku)
    if not meter.endswith(f"vCPU VM {suffix}") or "BYOS" in meter:
        return None
    if system == "rhel":
        return LicenceFee(system, int(exact["vcpus"]), int(exact["vcpus"]), usd) if exact else None
    band = SIZE_BANDS.get(sku)
    return LicenceFee(system, *band, usd) if band else None


def build_licensed_rows(rows: Iterable[PriceRow], fees: Iterable[LicenceFee]) -> Iterator[PriceRow]:
    """Yield machines with Red Hat and SUSE: their price without a licence, and the fee for their vCPUs.

    A reservation covers the machine, not the system. A size with two fees is left out.
    """
    fees = list(fees)
    for row in rows:
        vcpus = find_vcpus(row.item)
        if row.purchase not in LICENSED_PURCHASES or split_licensed_machine(row.item)[1] or not vcpus:
            continue
        for system in dict.fromkeys(fee.system for fee in fees):
            amounts = {
                fee.usd_per_hour
                for fee in fees
                if fee.system == system and fee.min_vcpus <= vcpus <= fee.max_vcpus
            }
            if len(amounts) == 1:
                yield replace(
                    row,
                    item=f"{row.item}:{system}",
                    usd_per_hour=round(row.usd_per_hour + amounts.pop(), 6),
                    source=f"{row.source};plus-licence",
                    facts=MachineFacts() if row.facts else None,
                )


def find_vcpus(machine: str) -> int | None:
    """Return the vCPUs of a machine that the catalogue or the snapshot knows."""
    known = data_file.load_machines().get(("azure", machine)) or snapshot.find_sized_machine("azure", machine)
    return known.vcpus if known else None
