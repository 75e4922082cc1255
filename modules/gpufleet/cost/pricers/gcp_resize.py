"""Resize requests: machines that a group gets for a term, through the Dynamic Workload Scheduler."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.demand import Findings, Gap
from gpufleet.cost.graph import Graph
from gpufleet.cost.pricers.gcp_instance import TEMPLATES
from gpufleet.cost.values import number, text
from gpufleet.cost.wording import number as write
from gpufleet.engine import Resource

GROUPS = (
    "gcp:compute/instanceGroupManager:InstanceGroupManager",
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
)
SECONDS_PER_HOUR = Decimal(3600)


def charges(resource: Resource, graph: Graph) -> Findings:
    """Name what a resize request starts and for how long: no price list here has the scheduler's rates."""
    group = graph.target(resource, ("instanceGroupManager",), *GROUPS)
    template = graph.target(group, ("versions", 0, "instanceTemplate"), *TEMPLATES) if group else None
    kind = text(template.inputs, "machineType") if template else None
    count = number(resource.inputs, "resizeBy")
    seconds = number(resource.inputs, "requestedRunDuration", "seconds")
    many = f"{write(count)} x " if isinstance(count, Decimal) else ""
    what = kind.rsplit("/", 1)[-1] if isinstance(kind, str) else "machine"
    term = f" for {write(seconds / SECONDS_PER_HOUR)} h" if isinstance(seconds, Decimal) else ""
    reason = f"{many}{what}{term}, once, at the Dynamic Workload Scheduler's rates, which are not in the price list"
    return [Gap(reason, "machine")]
