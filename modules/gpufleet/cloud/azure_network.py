"""The resources that Azure pools of one region share: resource group, network, security group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_azure_native import network, resources

from gpufleet.cloud.pool_plan import build_fleet_tags
from gpufleet.fleet import Fleet, slugify

VNET_CIDR = "10.66.0.0/16"  # the same in every region: these networks are not peered with each other
SUBNET_CIDR = "10.66.0.0/20"
FIRST_RULE_PRIORITY = 1000


@dataclass(frozen=True)
class AzureNetworkArgs:
    fleet: Fleet
    region: str


class AzureNetwork(pulumi.ComponentResource):
    """One resource group per region: leftovers in it are easy to find and are deleted with it."""

    def __init__(self, name: str, args: AzureNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the group, a network with one subnet, and SSH from the spec's networks."""
        super().__init__("gpufleet:cloud:AzureNetwork", name, {"region": args.region}, opts)
        self.region = args.region
        self.stack = slugify(args.fleet.stack)
        self.name = f"gpufleet-{self.stack}-{args.region}"
        self.tags = build_fleet_tags(args.fleet)
        self.group = resources.ResourceGroup(
            name,
            resource_group_name=self.name,
            location=self.region,
            tags=self.tags,
            opts=self.child_options(),
        )
        security_group = network.NetworkSecurityGroup(
            name,
            network_security_group_name=self.name,
            resource_group_name=self.group.name,
            location=self.region,
            security_rules=build_ssh_rules(args.fleet),
            tags=self.tags,
            opts=self.child_options(),
        )
        virtual_network = network.VirtualNetwork(
            name,
            virtual_network_name=self.name,
            resource_group_name=self.group.name,
            location=self.region,
            address_space={"address_prefixes": [VNET_CIDR]},
            tags=self.tags,
            opts=self.child_options(),
        )
        self.subnet = network.Subnet(
            name,
            subnet_name="nodes",
            resource_group_name=self.group.name,
            virtual_network_name=virtual_network.name,
            address_prefix=SUBNET_CIDR,
            network_security_group={"id": security_group.id},
            opts=self.child_options(),
        )
        self.register_outputs({"resource_group": self.group.name})

    def child_options(self, **options: Any) -> pulumi.ResourceOptions:
        """Return resource options with this component as parent.

        Names are fixed, so the old resource must be deleted before its replacement is created.
        """
        return pulumi.ResourceOptions(parent=self, delete_before_replace=True, **options)


def build_ssh_rules(fleet: Fleet) -> list[dict[str, Any]]:
    """Return a rule per network of the spec; Azure denies the rest and allows traffic inside the network."""
    return [
        {
            "name": f"ssh-{number}",
            "priority": FIRST_RULE_PRIORITY + number,
            "direction": "Inbound",
            "access": "Allow",
            "protocol": "Tcp",
            "source_address_prefix": str(block),
            "source_port_range": "*",
            "destination_address_prefix": "*",
            "destination_port_range": "22",
        }
        for number, block in enumerate(fleet.ssh.allowed_cidrs)
    ]
