"""What bills by use: gigabytes and load balancer units, where a usage file tells them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.demand import Around, Demand
from gpufleet.cost.graph import Graph
from gpufleet.cost.money import HOURS_PER_MONTH, ONE
from gpufleet.cost.pricers.part_names import EGRESS_GIB, NAT_GIB
from gpufleet.engine import Resource

_FINE = Decimal("0.000001")


def told(resource: Resource, graph: Graph, around: Around) -> Iterator[Demand]:
    """Bill the traffic that the usage file tells of a resource; gigabytes of a month, spread over its hours."""
    used, once = graph.usage(resource), replace(around, count=ONE, hours=HOURS_PER_MONTH)
    if used.processed_gib:
        yield once.part("processed", NAT_GIB, _hourly(used.processed_gib))
    if used.egress_gib:
        yield once.part("egress", EGRESS_GIB, _hourly(used.egress_gib))


def _hourly(gib: Decimal) -> Decimal:
    return (gib / HOURS_PER_MONTH).quantize(_FINE)
