"""NAT gateways, load balancers and endpoints: by the hour, and by use where a usage file has it."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.part_names import ADDRESS, ENDPOINT, LOAD_BALANCER, NAT, UNITS
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.cost.pricing.pricers.traffic import list_traffic

BALANCER_KINDS = ("application", "network", "gateway")
ENDPOINT_KINDS = ("Gateway", "GatewayLoadBalancer", "Interface", "Resource", "ServiceNetwork")


@pricer("aws:ec2/natGateway:NatGateway")
def price_nat_gateway(gateway: Reader) -> Parts:
    """Yield a NAT gateway; its address bills where it is declared."""
    yield gateway.of("gateway").part(NAT)
    yield from list_traffic(gateway)


@pricer("aws:lb/loadBalancer:LoadBalancer", "aws:alb/loadBalancer:LoadBalancer")
def price_load_balancer(balancer: Reader) -> Parts:
    """Yield an application, network or gateway load balancer, and its public addresses."""
    kind = balancer.of("load_balancer").choice("loadBalancerType", BALANCER_KINDS, "application", "its kind")
    return _list_balancer(balancer, kind)


@pricer("aws:elb/loadBalancer:LoadBalancer")
def price_classic_load_balancer(balancer: Reader) -> Parts:
    """Yield a classic load balancer."""
    return _list_balancer(balancer, "classic")


@pricer("aws:ec2/vpcEndpoint:VpcEndpoint")
def price_vpc_endpoint(endpoint: Reader) -> Parts:
    """Yield an interface endpoint per subnet; gateway endpoints are free."""
    with endpoint.of("endpoint") as part:
        if part.choice("vpcEndpointType", ENDPOINT_KINDS, "Gateway", "its kind") != "Gateway":
            subnets = part.entries("subnetIds", "how many subnets it is in")
            yield part.part(ENDPOINT, size=Decimal(max(1, len(subnets))))


def _list_balancer(balancer: Reader, kind: str) -> Parts:
    yield balancer.of("load_balancer").part(f"{LOAD_BALANCER}:{kind}")
    yield from list_traffic(balancer)
    with balancer.of(ADDRESS) as address:
        if kind != "gateway" and not address.flag("internal"):
            mappings = address.entries("subnetMappings", "how many public addresses it takes")
            subnets = address.entries("subnets", "how many public addresses it takes")
            if not any(
                each.has("allocationId") for each in mappings
            ):  # elastic ones bill where they are declared
                yield address.part(ADDRESS, size=Decimal(len(subnets or mappings)))  # one in each subnet
    yield balancer.of("units").part(f"{UNITS}:{kind}", size=balancer.usage.load_balancer_units or Decimal(0))
