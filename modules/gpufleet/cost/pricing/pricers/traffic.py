"""What bills by use: gigabytes of traffic, if the usage file of a program has them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.usage import ResourceUsage
from gpufleet.cost.pricing.component import MachinePartContext, UsageComponent
from gpufleet.cost.pricing.pricers.part_names import EGRESS_GIB, NAT_GIB
from gpufleet.engine import StateResource

INFRACOST_PROCESSED_KEY = "monthly_data_processed_gb"


def traffic_components(
    resource: StateResource,
    graph: ResourceGraph,
    context: MachinePartContext,
    processed_item: str = NAT_GIB,
) -> Iterator[UsageComponent]:
    """Yield the traffic of a month that the usage file has of a resource; its processed data bills as an item."""
    usage = graph.usage_of_resource(resource)
    for component, item, key, gib in (
        ("processed", processed_item, "processed_gib", _read_processed_gib(usage)),
        ("egress", EGRESS_GIB, "egress_gib", usage.egress_gib),
    ):
        if gib:
            yield UsageComponent(component, item, key, context.cloud, context.region, gib, pool=context.pool)


def _read_processed_gib(usage: ResourceUsage) -> Decimal | None:
    """Return the processed gigabytes; Infracost's key counts where ours is not given."""
    return usage.amounts.get(INFRACOST_PROCESSED_KEY) if usage.processed_gib is None else usage.processed_gib
