"""Public IPv4 addresses that machines get at launch; elastic ones bill attached or not (``data/charges.csv``)."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.pricers.aws.location import (
    find_subnets,
    gives_public_address,
    is_in_default_subnet,
)
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

ELASTIC_ADDRESSES = {"aws:ec2/eip:Eip": "instance", "aws:ec2/eipAssociation:EipAssociation": "instanceId"}
SETTING = "associatePublicIpAddress"
PATHS = f"{SETTING} or networkInterfaces.0.{SETTING}"  # a template has it on its first network interface only
DEFAULT_SUBNET_NOTE = "default subnets give one"


def list_public_address(launch: Reader, owner: Reader) -> Parts:
    """Yield the public address of machines: by the setting of what they launch from, else by their owner's subnets.

    An elastic address replaces it. Where only some of the subnets give one, the lower bound is none. The default
    subnets of the default VPC give one, unless somebody has changed them (Auto Scaling API reference,
    ``AssociatePublicIpAddress``).
    """
    if any(owner.find_referrers(path, type_) for type_, path in ELASTIC_ADDRESSES.items()):
        return
    with launch.of(ADDRESS) as address:
        if address.has(PATHS):
            if address.flag(PATHS, "whether it has a public address"):
                yield address.part(ADDRESS)
        elif is_in_default_subnet(owner) and is_in_default_subnet(launch):
            yield address.part(ADDRESS, note=DEFAULT_SUBNET_NOTE)
        else:
            gives = [gives_public_address(subnet) for subnet in find_subnets(owner)]
            part = address.part(ADDRESS) if any(gives) else None
            if part and not all(gives):
                part = replace(part, count=Range(ZERO, part.count.expected, part.count.high))
            yield part
