"""Resize requests: machines that a group gets for a term, through the Dynamic Workload Scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.formatting import format_number
from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Number, read_input_number, text_if_known
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.instance import TEMPLATES
from gpufleet.cost.pricing.pricers.gcp.location import last_url_segment
from gpufleet.cost.pricing.pricers.gcp.machine_inputs import parse_machine_inputs
from gpufleet.engine import StateResource

GROUPS = (
    "gcp:compute/instanceGroupManager:InstanceGroupManager",
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
)
SECONDS_PER_HOUR = Decimal(3600)


@dataclass(frozen=True)
class ResizeRequestInputs:
    """The inputs of a resize request: how many machines, for how long."""

    machine_count: Number
    duration_s: Number


def parse_resize_request_inputs(inputs: Any) -> ResizeRequestInputs:
    """Parse a resize request."""
    return ResizeRequestInputs(
        read_input_number(inputs, "resizeBy"), read_input_number(inputs, "requestedRunDuration", "seconds")
    )


def price_resize_request(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return what a request starts, without a price: no price list here has the scheduler's rates."""
    group = graph.find_referenced_resource(resource, ("instanceGroupManager",), *GROUPS)
    template = (
        graph.find_referenced_resource(group, ("versions", 0, "instanceTemplate"), *TEMPLATES)
        if group
        else None
    )
    machine_type = text_if_known(parse_machine_inputs(template.inputs).machine_type) if template else None
    request = parse_resize_request_inputs(resource.inputs)
    count, seconds = request.machine_count, request.duration_s
    number = f"{format_number(count)} x " if isinstance(count, Decimal) else ""
    machine = "machine" if machine_type is None else last_url_segment(machine_type)
    term = f" for {format_number(seconds / SECONDS_PER_HOUR)} h" if isinstance(seconds, Decimal) else ""
    reason = (
        f"{number}{machine}{term}, once, at the Dynamic Workload Scheduler's rates, which are not in the "
        "price list"
    )
    return [UnpricedComponent(reason, "machine")]
