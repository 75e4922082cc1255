"""What bills by use: gigabytes of traffic, if the usage file of a program has them."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.pricing.component import MachinePartContext, UsageComponent
from gpufleet.cost.pricing.pricers.part_names import EGRESS_GIB, NAT_GIB
from gpufleet.engine import StateResource


def traffic_components(
    resource: StateResource, graph: ResourceGraph, context: MachinePartContext
) -> Iterator[UsageComponent]:
    """Yield the traffic of a month that the usage file has of a resource."""
    usage = graph.usage_of_resource(resource)
    for component, item, key, gib in (
        ("processed", NAT_GIB, "processed_gib", usage.processed_gib),
        ("egress", EGRESS_GIB, "egress_gib", usage.egress_gib),
    ):
        if gib:
            yield UsageComponent(component, item, key, context.cloud, context.region, gib, pool=context.pool)
