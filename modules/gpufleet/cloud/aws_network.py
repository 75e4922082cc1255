"""The resources that AWS pools of one region share: network, internet gateway, key pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.cloud.pool_plan import build_fleet_tags
from gpufleet.errors import InputError
from gpufleet.fleet import Fleet, slugify

VPC_CIDR = "10.64.0.0/16"  # the same in every region: these networks are not peered with each other


@dataclass(frozen=True)
class AwsNetworkArgs:
    fleet: Fleet
    region: str


class AwsNetwork(pulumi.ComponentResource):
    """A VPC with an internet gateway, and one subnet for each zone that a pool uses."""

    def __init__(self, name: str, args: AwsNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare VPC, gateway, routes and the key pair."""
        super().__init__("gpufleet:cloud:AwsNetwork", name, {"region": args.region}, opts)
        self.region = args.region
        self.fleet = args.fleet
        self._name = name
        self._subnets: dict[str, Any] = {}
        stack = slugify(args.fleet.stack)
        self.tags = build_fleet_tags(args.fleet)
        self.vpc = aws.ec2.Vpc(
            name,
            cidr_block=VPC_CIDR,
            enable_dns_hostnames=True,
            region=self.region,
            tags=self._tags_with_name(name),
            opts=self._child_options(),
        )
        gateway = aws.ec2.InternetGateway(
            name,
            vpc_id=self.vpc.id,
            region=self.region,
            tags=self._tags_with_name(name),
            opts=self._child_options(),
        )
        self.routes = aws.ec2.RouteTable(
            name,
            vpc_id=self.vpc.id,
            routes=[{"cidr_block": "0.0.0.0/0", "gateway_id": gateway.id}],
            region=self.region,
            tags=self._tags_with_name(name),
            opts=self._child_options(),
        )
        # A fixed name, not a generated one: a new key would otherwise mean a new name, and a new name
        # means new instances. AWS takes one key; the others are in the user data (see AwsPool).
        self.key = aws.ec2.KeyPair(
            name,
            key_name=f"gpufleet-{stack}",
            public_key=args.fleet.ssh.authorized_keys[0],
            region=self.region,
            tags=self.tags,
            opts=self._child_options(delete_before_replace=True),
        )
        self.register_outputs({"vpc_id": self.vpc.id})

    def get_or_declare_subnet(self, zone: str) -> Any:
        """Return a zone's subnet; the first call declares it."""
        if zone not in self._subnets:
            self._subnets[zone] = self._declare_subnet(zone)
        return self._subnets[zone]

    def find_zone_offering(self, machine: str) -> str:
        """Return the first zone of the region that offers a machine: not every zone has every GPU."""
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
        return str(min(zones or [f"{self.region}a"]))

    def _declare_subnet(self, zone: str) -> Any:
        # By the zone's letter and not by order: a zone added to the spec must not move the others.
        number = ord(zone[-1]) - ord("a")
        name = f"{self._name}-{zone[-1]}"
        subnet = aws.ec2.Subnet(
            name,
            vpc_id=self.vpc.id,
            cidr_block=f"10.64.{16 * number}.0/20",
            availability_zone=zone,
            # Nodes request a public address themselves; a subnet cannot assign one to a node with several
            # network cards.
            map_public_ip_on_launch=False,
            region=self.region,
            tags=self._tags_with_name(name),
            opts=self._child_options(),
        )
        aws.ec2.RouteTableAssociation(
            name,
            route_table_id=self.routes.id,
            subnet_id=subnet.id,
            region=self.region,
            opts=self._child_options(),
        )
        return subnet

    def _tags_with_name(self, name: str) -> dict[str, str]:
        return {**self.tags, "Name": f"gpufleet-{slugify(self.fleet.stack)}-{name}"}

    def _child_options(self, **options: Any) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, **options)
