"""Cloud NAT and external addresses."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.pricers.gcp.location import find_region_or_global, pricer
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, NAT
from gpufleet.cost.pricing.pricers.reader import GLOBAL, Parts, Reader
from gpufleet.cost.pricing.pricers.traffic import list_traffic

UNUSED_OR_FREE = Range(ZERO, Decimal(1), Decimal(1))  # a rule that is not in the program may use an address
FORWARDING_RULES = (
    "gcp:compute/forwardingRule:ForwardingRule",
    "gcp:compute/globalForwardingRule:GlobalForwardingRule",
)
MAX_BILLED_MACHINES = Decimal(32)  # a gateway of more costs no more (cloud.google.com/nat/pricing)
NO_MACHINES = (
    "Cloud NAT bills by the machines that use it and their traffic, which its inputs do not have; "
    "give assigned_vms and monthly_data_processed_gb in the usage file"
)


@pricer("gcp:compute/address:Address")
def price_static_address(address: Reader) -> Parts:
    """Yield a reserved external address; internal ones and those of forwarding rules are free."""
    with address.of(ADDRESS) as part:
        if _is_external(part):
            yield part.part(ADDRESS)


@pricer("gcp:compute/globalAddress:GlobalAddress")
def price_global_address(address: Reader) -> Parts:
    """Yield a global external address that no forwarding rule of the program uses; others are free."""
    with address.within(GLOBAL).of(ADDRESS) as part:
        if _is_external(part) and part.choice("ipVersion", ("IPV4", "IPV6"), "IPV4") == "IPV4":
            note = "free while a forwarding rule uses it"
            yield part.part(f"{ADDRESS}:unused", UNUSED_OR_FREE, note=note)


@pricer("gcp:compute/routerNat:RouterNat")
def price_cloud_nat(nat: Reader) -> Parts:
    """Yield a gateway by the machines that use it, of which the usage file has the number."""
    place = nat.within(find_region_or_global(nat.resource, nat.graph))
    with place.of("gateway") as gateway:
        machines = nat.usage.amounts.get("assigned_vms")
        if machines is None:
            raise gateway.refuse(NO_MACHINES)
        yield gateway.part(NAT, size=min(machines, MAX_BILLED_MACHINES))
    yield from list_traffic(place)


def _is_external(address: Reader) -> bool:
    """Return whether no forwarding rule uses an external address, which then costs nothing (cloud.google.com/vpc)."""
    if address.choice("addressType", ("EXTERNAL", "INTERNAL"), "EXTERNAL") == "INTERNAL":
        return False
    return not address.find_referrers("ipAddress", *FORWARDING_RULES)
