"""Dedicated hosts, which bill by their family, whatever runs on them."""

from __future__ import annotations

from gpufleet.cost.inputs.values import text_if_known
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader


@pricer("aws:ec2/dedicatedHost:DedicatedHost")
def price_dedicated_host(host: Reader) -> Parts:
    """Refuse a dedicated host, which is of one instance type or of all types of a family."""
    machines = text_if_known(host.find_text("instanceFamily or instanceType")) or "its family"
    raise host.of("host").refuse(f"a dedicated host of {machines} is not in the price list")
