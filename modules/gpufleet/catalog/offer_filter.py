"""Which machine offers to find, and how they are compared."""

from __future__ import annotations

import math
import re
from datetime import date
from functools import cache
from typing import Literal

from gpufleet.catalog.entry import MachineOffer
from gpufleet.quick_dataclass import dataclass

ComparisonUnit = Literal["machine", "accelerator"]


@dataclass(frozen=True)
class OfferFilter:
    """Which offers to find: None means any. ``count`` accelerators in total, bought as whole machines.

    Machines without accelerators are found by name, or by vCPUs and memory: there are thousands of them. Machines with
    attached cards are found by their accelerators, unless ``has_attached`` is false: to read their prices takes 0.2 s.
    """

    cloud: str | None = None
    region: str | None = None
    machine: str | None = None
    purchase: str | None = None
    accelerator: str | None = None
    count: int | None = None
    max_usd_per_hour: float | None = None
    on_date: date | None = None
    compare_by: ComparisonUnit = "machine"
    min_vcpus: int | None = None
    min_memory_gib: float | None = None
    has_attached: bool = True

    def comparison_usd_per_hour(self, offer: MachineOffer) -> float:
        """Return the USD per hour by which offers are compared."""
        usd = offer.price.usd_per_hour
        if self.count:
            return usd * math.ceil(self.count / max(offer.accelerator_count, 1e-9))
        return usd / max(offer.accelerator_count, 1e-9) if self.compare_by == "accelerator" else usd

    @property
    def needs_accelerators(self) -> bool:
        """True if only machines with accelerators can be compared."""
        return bool(self.count) or self.compare_by == "accelerator"

    @property
    def includes_attached_cards(self) -> bool:
        """True if machines with attached cards are found."""
        return self.has_attached and bool(self.accelerator or self.needs_accelerators)

    @property
    def includes_ordinary_machines(self) -> bool:
        """True if machines without accelerators are found."""
        selects_size = self.min_vcpus is not None or self.min_memory_gib is not None
        return (self.machine is not None or selects_size) and not (
            self.accelerator or self.needs_accelerators
        )

    def matches_offer(self, offer: MachineOffer) -> bool:
        """Return whether an offer fits the filter."""
        machine = offer.machine
        if (
            self.cloud not in (None, machine.cloud)
            or self.region not in (None, offer.region)
            or self.machine not in (None, machine.name)
            or self.purchase not in (None, offer.purchase)
        ):
            return False
        if self.accelerator and not any(
            matches_accelerator_name(self.accelerator, accelerator.model)
            for accelerator in machine.accelerators
        ):
            return False
        if self.needs_accelerators and not offer.accelerator_count:
            return False
        if machine.vcpus < (self.min_vcpus or 0) or machine.memory_gib < (self.min_memory_gib or 0):
            return False
        return self.max_usd_per_hour is None or self.comparison_usd_per_hour(offer) <= self.max_usd_per_hour


@cache
def matches_accelerator_name(query: str, accelerator_name: str) -> bool:
    """Return whether the query matches an accelerator: L4 does not match L40S, A100 matches every A100."""
    model_words = _split_words(accelerator_name)
    if set(_split_words(query)) <= set(model_words):
        return True
    joined_query = "".join(_split_words(query))
    return any(
        joined_query == "".join(model_words[first:last])
        for first in range(len(model_words))
        for last in range(first + 1, len(model_words) + 1)
    )


def _split_words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9.]+", text.lower())
