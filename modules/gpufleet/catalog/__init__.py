"""Published facts: accelerators, machines, prices, retirements.

Input: the data files of ``catalog/data/``, each row with its source and date. Output: frozen values and queries.
A missing or stale price is ``None``, never zero and never a guess. A retired machine raises InputError with its
date and its replacements.
"""

from __future__ import annotations

from gpufleet.catalog.accelerator import load_accelerators, with_memory_size
from gpufleet.catalog.architecture import Experts, LatentAttention, LinearAttention, ModelArchitecture
from gpufleet.catalog.cloud import CLOUDS, Cloud, get_cloud, join_cloud_names
from gpufleet.catalog.data_file import list_regions
from gpufleet.catalog.entry import (
    HOURS_PER_MONTH,
    Accelerator,
    AcceleratorCount,
    Confidence,
    Machine,
    MachineOffer,
    Price,
    Purchase,
    Retirement,
)
from gpufleet.catalog.language_model import get_model, load_models
from gpufleet.catalog.offer import search_offers
from gpufleet.catalog.operating_system import (
    OperatingSystem,
    find_driver_system,
    load_operating_systems,
)
from gpufleet.catalog.query import (
    find_part_price,
    find_price,
    find_retirement,
    get_accelerator,
    get_machine,
    list_machine_regions,
)
from gpufleet.catalog.source import (
    FieldReport,
    FieldSource,
    Source,
    build_field_report,
    load_field_sources,
    load_sources,
)

__all__ = [
    "CLOUDS",
    "HOURS_PER_MONTH",
    "Accelerator",
    "AcceleratorCount",
    "Cloud",
    "Confidence",
    "Experts",
    "FieldReport",
    "FieldSource",
    "LatentAttention",
    "LinearAttention",
    "Machine",
    "MachineOffer",
    "ModelArchitecture",
    "OperatingSystem",
    "Price",
    "Purchase",
    "Retirement",
    "Source",
    "build_field_report",
    "find_driver_system",
    "find_part_price",
    "find_price",
    "find_retirement",
    "get_accelerator",
    "get_cloud",
    "get_machine",
    "get_model",
    "join_cloud_names",
    "list_machine_regions",
    "list_regions",
    "load_accelerators",
    "load_field_sources",
    "load_models",
    "load_operating_systems",
    "load_sources",
    "search_offers",
    "with_memory_size",
]
