"""Address ranges of the networks that a fabric on GCP needs."""

from __future__ import annotations

import ipaddress

FIRST_FABRIC_ADDRESS = int(ipaddress.IPv4Address("10.0.0.0"))
ADDRESSES_PER_SUBNET = 1024  # more than the 1,000 nodes of the largest pool, with the four that Google keeps
SUBNETS_PER_INDEX = 1024  # one for each number that a region can have


def fabric_cidr(index: int, region_number: int) -> str:
    """Return the range of a fabric's subnet. The ranges of one node's cards must not overlap."""
    offset = (index * SUBNETS_PER_INDEX + region_number) * ADDRESSES_PER_SUBNET
    return f"{ipaddress.IPv4Address(FIRST_FABRIC_ADDRESS + offset)}/22"
