"""What bills by use: gigabytes and load balancer units, where a usage file tells them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.money import HOURS_PER_MONTH, ONE
from gpufleet.cost.pricing.component import CostComponent, PartContext
from gpufleet.cost.pricing.pricers.part_names import EGRESS_GIB, NAT_GIB
from gpufleet.engine import Resource

_FINE = Decimal("0.000001")


def traffic_components(resource: Resource, graph: Graph, around: PartContext) -> Iterator[CostComponent]:
    """Bill the traffic that the usage file tells of a resource; gigabytes of a month, spread over its hours."""
    used, once = graph.usage_of(resource), replace(around, count=ONE, hours_per_month=HOURS_PER_MONTH)
    if used.processed_gib:
        yield once.part_component("processed", NAT_GIB, _hourly(used.processed_gib))
    if used.egress_gib:
        yield once.part_component("egress", EGRESS_GIB, _hourly(used.egress_gib))


def _hourly(gib: Decimal) -> Decimal:
    return (gib / HOURS_PER_MONTH).quantize(_FINE)
