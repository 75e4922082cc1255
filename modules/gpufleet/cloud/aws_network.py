"""The resources that AWS pools of one region share: network, gateways, and the role of private nodes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.cloud.pool_plan import build_fleet_tags
from gpufleet.errors import InputError
from gpufleet.fleet import Fleet, slugify

VPC_CIDR = "10.64.0.0/16"  # the same in every region: these networks are not peered with each other
FIRST_PRIVATE_BLOCK = 128  # third number of the first private subnet; public ones start at 0
SSM_POLICY = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"  # what the agent needs, and nothing else
MAX_ROLE_NAME = 64
EC2_MAY_ASSUME = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}


@dataclass(frozen=True)
class AwsNetworkArgs:
    fleet: Fleet
    region: str


@dataclass(frozen=True)
class AwsSubnet:
    """A subnet and the resource that must exist before its nodes can reach the internet."""

    id: pulumi.Output[str]
    route: pulumi.Resource


class AwsNetwork(pulumi.ComponentResource):
    """A VPC; subnets, NAT gateways and the node role are declared when the first pool needs them."""

    def __init__(self, name: str, args: AwsNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare VPC, internet gateway and the routes of public subnets."""
        super().__init__("gpufleet:cloud:AwsNetwork", name, {"region": args.region}, opts)
        self.region = args.region
        self.fleet = args.fleet
        self._name = name
        self._public_subnets: dict[str, AwsSubnet] = {}
        self._private_subnets: dict[str, AwsSubnet] = {}
        self._storage_endpoint: Any = None
        self._node_profile: Any = None
        self.tags = build_fleet_tags(args.fleet)
        self.vpc = aws.ec2.Vpc(
            name,
            cidr_block=VPC_CIDR,
            enable_dns_hostnames=True,
            **self._arguments(name),
            opts=self._options(),
        )
        self._gateway = aws.ec2.InternetGateway(
            name, vpc_id=self.vpc.id, **self._arguments(name), opts=self._options()
        )
        self._public_routes = self._declare_routes(name, {"gateway_id": self._gateway.id})
        self.register_outputs({"vpc_id": self.vpc.id})

    def get_or_declare_subnet(self, zone: str, *, is_private: bool = False) -> AwsSubnet:
        """Return a zone's public or private subnet; the first call declares it."""
        subnets = self._private_subnets if is_private else self._public_subnets
        if zone not in subnets:
            subnets[zone] = (
                self._declare_private_subnet(zone) if is_private else self._declare_public_subnet(zone)
            )
        return subnets[zone]

    def get_or_declare_node_profile(self) -> Any:
        """Return the instance profile of private nodes: it lets Session Manager reach them, and nothing else."""
        if self._node_profile is None:
            name = _shorten(f"gpufleet-{slugify(self.fleet.stack)}-{self._name}")
            role = aws.iam.Role(
                self._name,
                name=name,
                assume_role_policy=json.dumps(EC2_MAY_ASSUME),
                tags=self.tags,
                opts=self._options(),
            )
            attachment = aws.iam.RolePolicyAttachment(
                self._name, role=role.name, policy_arn=SSM_POLICY, opts=self._options()
            )
            self._node_profile = aws.iam.InstanceProfile(
                self._name,
                name=name,
                role=role.name,
                tags=self.tags,
                opts=self._options(depends_on=[attachment]),
            )
        return self._node_profile

    def list_zones_offering(self, machine: str) -> tuple[str, ...]:
        """Return the zones of the region that offer a machine, in order: not every zone has every GPU."""
        zones = aws.ec2.get_instance_type_offerings(
            filters=[{"name": "instance-type", "values": [machine]}],
            location_type="availability-zone",
            region=self.region,
            opts=pulumi.InvokeOptions(parent=self),
        ).locations
        if zones == []:
            remedy = "choose another region or machine"
            raise InputError(f"AWS does not offer {machine} in {self.region}", key="pools", remedy=remedy)
        # None: an evaluation without an engine, where lookups have no reply.
        return tuple(sorted(zones or [f"{self.region}a"]))

    def _declare_public_subnet(self, zone: str) -> AwsSubnet:
        return self._declare_subnet(f"{self._name}-{zone[-1]}", zone, 0, self._public_routes)

    def _declare_private_subnet(self, zone: str) -> AwsSubnet:
        """Declare a subnet whose way out is a NAT gateway in the same zone.

        One per zone: traffic between zones costs as much as the gateway saves, a zone's failure stays there, and
        a zone added to the spec moves no gateway.
        """
        name = f"{self._name}-{zone[-1]}-private"
        outside = self.get_or_declare_subnet(zone)
        address = aws.ec2.Eip(
            name, domain="vpc", **self._arguments(name), opts=self._options(depends_on=[self._gateway])
        )
        gateway = aws.ec2.NatGateway(
            name,
            allocation_id=address.id,
            subnet_id=outside.id,
            **self._arguments(name),
            opts=self._options(depends_on=[outside.route]),
        )
        routes = self._declare_routes(name, {"nat_gateway_id": gateway.id})
        aws.ec2.VpcEndpointRouteTableAssociation(
            name,
            vpc_endpoint_id=self._get_or_declare_storage_endpoint().id,
            route_table_id=routes.id,
            region=self.region,
            opts=self._options(),
        )
        return self._declare_subnet(name, zone, FIRST_PRIVATE_BLOCK, routes)

    def _get_or_declare_storage_endpoint(self) -> Any:
        """Return the gateway to S3: data sets and checkpoints through the NAT gateway would cost by the GB."""
        if self._storage_endpoint is None:
            self._storage_endpoint = aws.ec2.VpcEndpoint(
                f"{self._name}-s3",
                vpc_id=self.vpc.id,
                service_name=f"com.amazonaws.{self.region}.s3",
                vpc_endpoint_type="Gateway",
                **self._arguments(f"{self._name}-s3"),
                opts=self._options(),
            )
        return self._storage_endpoint

    def _declare_routes(self, name: str, target: dict[str, Any]) -> Any:
        return aws.ec2.RouteTable(
            name,
            vpc_id=self.vpc.id,
            routes=[{"cidr_block": "0.0.0.0/0", **target}],
            **self._arguments(name),
            opts=self._options(),
        )

    def _declare_subnet(self, name: str, zone: str, first_block: int, routes: Any) -> AwsSubnet:
        # By the zone's letter and not by order: a zone added to the spec must not move the others.
        block = first_block + 16 * (ord(zone[-1]) - ord("a"))
        subnet = aws.ec2.Subnet(
            name,
            vpc_id=self.vpc.id,
            cidr_block=f"10.64.{block}.0/20",
            availability_zone=zone,
            # Nodes request a public address themselves; a subnet cannot assign one to a node with several
            # interfaces.
            map_public_ip_on_launch=False,
            **self._arguments(name),
            opts=self._options(),
        )
        association = aws.ec2.RouteTableAssociation(
            name, route_table_id=routes.id, subnet_id=subnet.id, region=self.region, opts=self._options()
        )
        return AwsSubnet(subnet.id, association)

    def _arguments(self, name: str) -> dict[str, Any]:
        tags = {**self.tags, "Name": f"gpufleet-{slugify(self.fleet.stack)}-{name}"}
        return {"region": self.region, "tags": tags}

    def _options(self, **options: Any) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, **options)


def _shorten(name: str) -> str:
    """Return a role's name within AWS's limit, still a name of its own."""
    if len(name) <= MAX_ROLE_NAME:
        return name
    digest = sha256(name.encode()).hexdigest()[:8]
    return f"{name[: MAX_ROLE_NAME - len(digest) - 1]}-{digest}"
