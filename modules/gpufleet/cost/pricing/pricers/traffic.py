"""What bills by use: gigabytes of traffic, if the usage file of a program has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.money import HOURS_PER_MONTH, ONE
from gpufleet.cost.pricing.component import CostComponent, MachinePartContext
from gpufleet.cost.pricing.pricers.part_names import EGRESS_GIB, NAT_GIB
from gpufleet.engine import StateResource

_STEP = Decimal("0.000001")


def traffic_components(
    resource: StateResource, graph: ResourceGraph, context: MachinePartContext
) -> Iterator[CostComponent]:
    """Yield the traffic that the usage file has of a resource: GiB of a month, spread over its hours."""
    usage = graph.usage_of_resource(resource)
    monthly = replace(context, count=ONE, hours_per_month=HOURS_PER_MONTH)
    if usage.processed_gib:
        yield monthly.make_part_component("processed", NAT_GIB, _hourly_gib(usage.processed_gib))
    if usage.egress_gib:
        yield monthly.make_part_component("egress", EGRESS_GIB, _hourly_gib(usage.egress_gib))


def _hourly_gib(gib: Decimal) -> Decimal:
    return (gib / HOURS_PER_MONTH).quantize(_STEP)
