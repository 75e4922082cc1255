"""Resize requests: machines that a group gets for a term, through the Dynamic Workload Scheduler."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.formatting import format_number
from gpufleet.cost.pricing.pricers.gcp.group import TEMPLATE
from gpufleet.cost.pricing.pricers.gcp.instance import TEMPLATES
from gpufleet.cost.pricing.pricers.gcp.location import pricer
from gpufleet.cost.pricing.pricers.gcp.machine import find_machine_type
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

GROUPS = (
    "gcp:compute/instanceGroupManager:InstanceGroupManager",
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
)
SECONDS_PER_HOUR = Decimal(3600)


@pricer("gcp:compute/resizeRequest:ResizeRequest", "gcp:compute/regionResizeRequest:RegionResizeRequest")
def price_resize_request(request: Reader) -> Parts:
    """Refuse what a request starts: no price list here has the scheduler's rates."""
    group = request.find_resource("instanceGroupManager", *GROUPS)
    template = request.reading(group).find_resource(TEMPLATE, *TEMPLATES) if group else None
    machine = (template and find_machine_type(request.reading(template))) or "machine"
    count, seconds = request.find_number("resizeBy"), request.find_number("requestedRunDuration.seconds")
    number = f"{format_number(count)} x " if isinstance(count, Decimal) else ""
    term = f" for {format_number(seconds / SECONDS_PER_HOUR)} h" if isinstance(seconds, Decimal) else ""
    raise request.of("machine").refuse(
        f"{number}{machine}{term}, once, at the Dynamic Workload Scheduler's rates, which are not in the price list"
    )
