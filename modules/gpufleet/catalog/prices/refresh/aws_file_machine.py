"""Machines of Amazon's price files: rows of EC2's file with their operating system and terms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

from gpufleet.boundary import CsvRow
from gpufleet.catalog.prices.refresh import aws
from gpufleet.catalog.prices.row import MachineFacts, PriceRow, Upfront

COLUMNS = (
    "LeaseContractLength", "PurchaseOption", "OfferingClass", "Instance Type", "Instance Family", "vCPU",
    "Physical Processor", "Memory", "GPU", "Tenancy", "Operating System", "License Model", "CapacityStatus",
    "MarketOption", "Pre Installed S/W",
)  # fmt: skip
PRODUCT_FAMILY = "Compute Instance"  # also "Compute Instance (bare metal)"
EXPECTED_CELLS = {
    "Tenancy": "Shared",
    "CapacityStatus": "Used",
    "Pre Installed S/W": "NA",
    "MarketOption": "OnDemand",  # else Capacity Blocks, at 0.00
    "License Model": "No License required",  # else one's own licence of Windows
}
SUFFIX_BY_SYSTEM = {"Linux": "", "Windows": ":windows", "RHEL": ":rhel", "SUSE": ":sles"}
LEASE_TERMS = {"1yr": "1y", "3yr": "3y", "1 yr": "1y", "3 yr": "3y"}
ACCELERATED_FAMILIES = frozenset(
    {"GPU instance", "Machine Learning ASIC Instances", "FPGA Instances", "Media Accelerator Instances"}
)
MACHINE_NAME = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]+\Z")
MEMORY_GIB = re.compile(r"([\d,.]+) GiB\Z")
OfferKey = tuple[str, str, str]  # machine with its system, purchase, payment option


class AwsMachineCollector:
    """Collects the terms of a region's machines. ``left_out`` lists machines with two prices."""

    def __init__(self, region: str, day: str, source: str) -> None:
        self.region = region
        self.day = day
        self.source = source
        self.left_out: list[str] = []
        self._amounts: dict[OfferKey, dict[str, list[float | None]]] = {}  # by SKU and term: fixed, hourly
        self._facts: dict[str, MachineFacts | None] = {}

    def add_row(self, row: CsvRow) -> None:
        """Keep a row that is a price of a shared machine without other software."""
        suffix = SUFFIX_BY_SYSTEM.get(row["Operating System"])
        machine = row["Instance Type"]
        if suffix is None or any(row[column] != cell for column, cell in EXPECTED_CELLS.items()):
            return
        offer = parse_offer(row)
        if offer is None or not MACHINE_NAME.match(machine):
            return
        if machine not in self._facts:
            self._facts[machine] = parse_row_facts(row)
        terms = self._amounts.setdefault((f"{machine}{suffix}", *offer), {})
        amounts = terms.setdefault(f"{row['SKU']}.{row['OfferTermCode']}", [None, None])
        position = ("Quantity", "Hrs").index(row["Unit"])
        amounts[position] = (amounts[position] or 0.0) + row.get_number("PricePerUnit")

    def build_price_rows(self) -> Iterator[PriceRow]:
        """Yield one price for each machine, system, purchase and payment option."""
        for (item, purchase, upfront), terms in sorted(self._amounts.items()):
            prices = {(fixed or 0.0, hourly or 0.0) for fixed, hourly in terms.values()}
            if len(prices) > 1:
                self.left_out.append(
                    f"aws {self.region} {item} {purchase}: {len(prices)} prices for one purchase option"
                )
                continue
            fixed, hourly = next(iter(prices))
            if purchase != "on_demand" and not (fixed or hourly):
                continue
            hours = aws.TERM_HOURS.get(purchase[-2:], 1)
            yield PriceRow(
                "aws", self.region, item, purchase, round(hourly + fixed / hours, 6), self.day, self.source,
                upfront=_as_upfront(upfront), upfront_usd=fixed, facts=self._facts[item.partition(":")[0]],
            )  # fmt: skip


def parse_offer(row: CsvRow) -> tuple[str, str] | None:
    """Return purchase and payment option of a row; None for another unit or offering class."""
    if row["TermType"] == "OnDemand":
        return ("on_demand", "none") if row["Unit"] == "Hrs" else None
    lease, upfront = (
        LEASE_TERMS.get(row["LeaseContractLength"]),
        aws.UPFRONT_OPTIONS.get(row["PurchaseOption"]),
    )
    if row["TermType"] != "Reserved" or row["OfferingClass"] != "standard" or not lease or not upfront:
        return None
    return (f"reserved_{lease}", upfront) if row["Unit"] in {"Hrs", "Quantity"} else None


def parse_row_facts(row: CsvRow) -> MachineFacts | None:
    """Return the machine's facts, None if the list does not state its accelerators."""
    return build_machine_facts(
        row["Instance Family"], row["vCPU"], row["Memory"], row["GPU"], row["Physical Processor"]
    )


def build_machine_facts(family: str, vcpu: str, memory: str, gpu: str, processor: str) -> MachineFacts | None:
    """Return facts from a price list's texts, None if the accelerators are not stated."""
    match = MEMORY_GIB.match(memory)
    is_accelerated = family in ACCELERATED_FAMILIES
    try:
        vcpus, accelerators = int(vcpu), float(gpu) if is_accelerated else 0.0
        memory_gib = float(match[1].replace(",", "")) if match else 0.0
    except ValueError:
        return None
    arch = "arm64" if "Graviton" in processor else "x86_64"
    return MachineFacts(vcpus, memory_gib, arch, "", accelerators)


def _as_upfront(text: str) -> Upfront:
    option: Upfront = next(option for option in get_args(Upfront) if option == text)
    return option
