"""Published facts: accelerators, machines, prices, retirements.

Input: the data files of ``catalog/data/``, each row with its source and date. Output: frozen values and queries.
A missing or stale price is ``None``, never zero and never a guess. A retired machine raises InputError with its
date and its replacements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet.catalog.accelerator import load_accelerators, with_memory_size
from gpufleet.catalog.architecture import ModelArchitecture
from gpufleet.catalog.cloud import CLOUDS, Cloud, get_cloud, join_cloud_names
from gpufleet.catalog.data_file import (
    find_part_period,
    list_accelerator_regions,
    list_parts_billed_by_month,
)
from gpufleet.catalog.entry import (
    HOURS_PER_MONTH,
    Accelerator,
    Machine,
    MachineAccelerators,
    MachineOffer,
    Price,
    Purchase,
)
from gpufleet.catalog.language_model import get_model, load_models
from gpufleet.catalog.machine_facts import MachineFacts, get_machine_facts
from gpufleet.catalog.offer import search_offers
from gpufleet.catalog.query import (
    find_machine_retirement,
    get_accelerator,
    get_machine,
)
from gpufleet.catalog.source import load_catalog_sources
from gpufleet.lazy_names import make_module_getattr

if TYPE_CHECKING:
    from gpufleet.catalog.offering import (
        find_limit,
        find_lowest_price,
        find_offering,
        is_sold_in,
        list_zones,
    )
    from gpufleet.catalog.operating_system import (
        OperatingSystem,
        find_driver_operating_system,
        load_operating_systems,
    )
    from gpufleet.catalog.price_drift import STALE_DAYS, find_price_drift
    from gpufleet.catalog.price_query import (
        find_cloud_part_price,
        find_machine,
        find_machine_price,
        find_ordinary_machine,
        list_machine_regions,
    )
    from gpufleet.catalog.price_tier import (
        PriceTier,
        find_first_tier_limit,
        find_price_tiers,
        load_price_tiers,
        match_price_tiers,
        round_unit_price,
    )
    from gpufleet.catalog.regional_price import RegionalPrice, estimate_regional_price

__all__ = [
    "CLOUDS",
    "HOURS_PER_MONTH",
    "STALE_DAYS",
    "Accelerator",
    "Cloud",
    "Machine",
    "MachineAccelerators",
    "MachineFacts",
    "MachineOffer",
    "ModelArchitecture",
    "OperatingSystem",
    "Price",
    "PriceTier",
    "Purchase",
    "RegionalPrice",
    "estimate_regional_price",
    "find_cloud_part_price",
    "find_driver_operating_system",
    "find_first_tier_limit",
    "find_limit",
    "find_lowest_price",
    "find_machine",
    "find_machine_price",
    "find_machine_retirement",
    "find_offering",
    "find_ordinary_machine",
    "find_part_period",
    "find_price_drift",
    "find_price_tiers",
    "get_accelerator",
    "get_cloud",
    "get_machine",
    "get_machine_facts",
    "get_model",
    "is_sold_in",
    "join_cloud_names",
    "list_accelerator_regions",
    "list_machine_regions",
    "list_parts_billed_by_month",
    "list_zones",
    "load_accelerators",
    "load_catalog_sources",
    "load_models",
    "load_operating_systems",
    "load_price_tiers",
    "match_price_tiers",
    "round_unit_price",
    "search_offers",
    "with_memory_size",
]

# Imported with the first use: sizing and the names of machines need none of them.
_LATER = {
    "offering": ("find_limit", "find_lowest_price", "find_offering", "is_sold_in", "list_zones"),
    "operating_system": ("OperatingSystem", "find_driver_operating_system", "load_operating_systems"),
    "price_query": (
        "find_cloud_part_price", "find_machine", "find_machine_price", "find_ordinary_machine", "list_machine_regions",
    ),
    "price_drift": ("STALE_DAYS", "find_price_drift"),
    "regional_price": ("RegionalPrice", "estimate_regional_price"),
    "price_tier": (
        "PriceTier", "find_first_tier_limit", "find_price_tiers", "load_price_tiers", "match_price_tiers",
        "round_unit_price",
    ),
}  # fmt: skip

__getattr__ = make_module_getattr(__name__, _LATER)
