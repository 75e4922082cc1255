"""The ground that Azure pools of one region stand on: resource group, network, security group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_azure_native import network, resources

from gpufleet.fleet import Fleet, slug

VNET_BLOCK = "10.66.0.0/16"  # the same in every region: none of our networks is joined to another
SUBNET_BLOCK = "10.66.0.0/20"
FIRST_PRIORITY = 1000


@dataclass(frozen=True)
class AzureNetworkArgs:
    fleet: Fleet
    region: str


class AzureNetwork(pulumi.ComponentResource):
    """One resource group per region: what is forgotten in it is easy to find and goes with it."""

    def __init__(self, name: str, args: AzureNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the group, a network with one subnet, and SSH from the spec's networks."""
        super().__init__("gpufleet:cloud:AzureNetwork", name, {"region": args.region}, opts)
        self.region = args.region
        self.stack = slug(args.fleet.stack)
        self.name = f"gpufleet-{self.stack}-{args.region}"
        self.tags = {"gpufleet-stack": self.stack, "gpufleet-owner": args.fleet.owner}
        self.group = resources.ResourceGroup(
            name, resource_group_name=self.name, location=self.region, tags=self.tags, opts=self.child()
        )
        guard = network.NetworkSecurityGroup(
            name,
            network_security_group_name=self.name,
            resource_group_name=self.group.name,
            location=self.region,
            security_rules=ssh_rules(args.fleet),
            tags=self.tags,
            opts=self.child(),
        )
        space = network.VirtualNetwork(
            name,
            virtual_network_name=self.name,
            resource_group_name=self.group.name,
            location=self.region,
            address_space={"address_prefixes": [VNET_BLOCK]},
            tags=self.tags,
            opts=self.child(),
        )
        self.subnet = network.Subnet(
            name,
            subnet_name="nodes",
            resource_group_name=self.group.name,
            virtual_network_name=space.name,
            address_prefix=SUBNET_BLOCK,
            network_security_group={"id": guard.id},
            opts=self.child(),
        )
        self.register_outputs({"resource_group": self.group.name})

    def child(self, **options: Any) -> pulumi.ResourceOptions:
        """Return options that make a resource ours; names are ours too, so the old one must go first."""
        return pulumi.ResourceOptions(parent=self, delete_before_replace=True, **options)


def ssh_rules(fleet: Fleet) -> list[dict[str, Any]]:
    """Return a rule per network of the spec; Azure itself denies the rest and lets the network talk inside."""
    return [
        {
            "name": f"ssh-{number}",
            "priority": FIRST_PRIORITY + number,
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
