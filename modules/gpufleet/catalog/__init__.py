"""Facts that others publish: accelerators, machines, prices, retirements.

In come the data files of ``catalog/data/``, each row with its source and date. Out go frozen values and
plain queries. A price that is missing or known to be stale is ``None``, never zero and never a guess; a
machine that can no longer be had is refused with its date and what takes its place.
"""

from __future__ import annotations

from gpufleet.catalog.accelerators import accelerators, sized
from gpufleet.catalog.architecture import Architecture, Experts, LatentAttention, LinearAttention
from gpufleet.catalog.model import (
    HOURS_PER_MONTH,
    Accelerator,
    AcceleratorCount,
    Cloud,
    Confidence,
    Machine,
    MachineOffer,
    Price,
    Purchase,
    Retirement,
)
from gpufleet.catalog.models import model, models
from gpufleet.catalog.offers import offers
from gpufleet.catalog.query import accelerator, machine, part_price, price, regions_with, retirement
from gpufleet.catalog.sources import FieldReport, FieldSource, Source, field_report, field_sources, sources
from gpufleet.catalog.table import regions

__all__ = [
    "HOURS_PER_MONTH",
    "Accelerator",
    "AcceleratorCount",
    "Architecture",
    "Cloud",
    "Confidence",
    "Experts",
    "FieldReport",
    "FieldSource",
    "LatentAttention",
    "LinearAttention",
    "Machine",
    "MachineOffer",
    "Price",
    "Purchase",
    "Retirement",
    "Source",
    "accelerator",
    "accelerators",
    "field_report",
    "field_sources",
    "machine",
    "model",
    "models",
    "offers",
    "part_price",
    "price",
    "regions",
    "regions_with",
    "retirement",
    "sized",
    "sources",
]
