"""What bills by use: gigabytes of traffic, if the usage file of a program has them."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.inputs.usage import ResourceUsage
from gpufleet.cost.pricing.pricers.part_names import EGRESS_GIB, NAT_GIB
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

INFRACOST_PROCESSED_KEY = "monthly_data_processed_gb"


def list_traffic(reader: Reader, processed_item: str = NAT_GIB) -> Parts:
    """Yield the traffic of a month that the usage file has of a resource; its processed data bills as an item."""
    for component, item, key, gib in (
        ("processed", processed_item, "processed_gib", _read_processed_gib(reader.usage)),
        ("egress", EGRESS_GIB, "egress_gib", reader.usage.egress_gib),
    ):
        if gib:
            yield reader.of(component).derived(item, key, gib)


def _read_processed_gib(usage: ResourceUsage) -> Decimal | None:
    """Return the processed gigabytes; Infracost's key counts where ours is not given."""
    return usage.amounts.get(INFRACOST_PROCESSED_KEY) if usage.processed_gib is None else usage.processed_gib
