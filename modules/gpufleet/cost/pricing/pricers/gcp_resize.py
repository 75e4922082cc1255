"""Resize requests: machines that a group gets for a term, through the Dynamic Workload Scheduler."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.formatting import number as write
from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.values import read_number, read_text
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp_instance import TEMPLATES
from gpufleet.engine import Resource

GROUPS = (
    "gcp:compute/instanceGroupManager:InstanceGroupManager",
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
)
SECONDS_PER_HOUR = Decimal(3600)


def charges(resource: Resource, graph: Graph) -> Components:
    """Name what a resize request starts and for how long: no price list here has the scheduler's rates."""
    group = graph.find_target(resource, ("instanceGroupManager",), *GROUPS)
    template = graph.find_target(group, ("versions", 0, "instanceTemplate"), *TEMPLATES) if group else None
    kind = read_text(template.inputs, "machineType") if template else None
    count = read_number(resource.inputs, "resizeBy")
    seconds = read_number(resource.inputs, "requestedRunDuration", "seconds")
    many = f"{write(count)} x " if isinstance(count, Decimal) else ""
    what = kind.rsplit("/", 1)[-1] if isinstance(kind, str) else "machine"
    term = f" for {write(seconds / SECONDS_PER_HOUR)} h" if isinstance(seconds, Decimal) else ""
    reason = f"{many}{what}{term}, once, at the Dynamic Workload Scheduler's rates, which are not in the price list"
    return [UnpricedComponent(reason, "machine")]
