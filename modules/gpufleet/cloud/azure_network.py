"""The resources that Azure pools of one region share: resource group, network, security group, way in and out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_azure_native import network, resources

from gpufleet.cloud.pool_plan import build_fleet_tags
from gpufleet.fleet import Fleet, slugify

VNET_CIDR = "10.66.0.0/16"  # the same in every region: these networks are not peered with each other
SUBNET_CIDR = "10.66.0.0/20"
BASTION_CIDR = "10.66.16.0/26"  # Azure takes no smaller range for a Bastion
BASTION_SUBNET = "AzureBastionSubnet"  # and no other name
FIRST_RULE_PRIORITY = 1000


@dataclass(frozen=True)
class AzureNetworkArgs:
    fleet: Fleet
    region: str


class AzureNetwork(pulumi.ComponentResource):
    """One resource group per region: leftovers in it are easy to find and are deleted with it."""

    def __init__(self, name: str, args: AzureNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the group, a network with one subnet, and SSH from the spec's networks.

        With private access, nodes have no public addresses: they reach the internet through a NAT gateway,
        and people reach them through Azure Bastion. ``bastion`` then has it, else it is None.
        """
        super().__init__("gpufleet:cloud:AzureNetwork", name, {"region": args.region}, opts)
        self.key, self.fleet, self.region = name, args.fleet, args.region
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
            security_rules=build_ssh_rules(args.fleet),
            tags=self.tags,
            **self._location_arguments,
            opts=self.child_options(),
        )
        virtual_network = network.VirtualNetwork(
            name,
            virtual_network_name=self.name,
            address_space={"address_prefixes": [VNET_CIDR]},
            tags=self.tags,
            **self._location_arguments,
            opts=self.child_options(),
        )
        gateway = self._declare_nat_gateway() if self.has_private_access else None
        self.subnet = network.Subnet(
            name,
            subnet_name="nodes",
            resource_group_name=self.group.name,
            virtual_network_name=virtual_network.name,
            address_prefix=SUBNET_CIDR,
            network_security_group={"id": security_group.id},
            nat_gateway={"id": gateway.id} if gateway else None,
            opts=self.child_options(),
        )
        self.bastion = self._declare_bastion(virtual_network) if self.has_private_access else None
        self.register_outputs({"resource_group": self.group.name})

    @property
    def has_private_access(self) -> bool:
        """True if nodes get no public address."""
        return self.fleet.ssh.access == "private"

    @property
    def _location_arguments(self) -> dict[str, Any]:
        return {"resource_group_name": self.group.name, "location": self.region}

    def child_options(self, **options: Any) -> pulumi.ResourceOptions:
        """Return resource options with this component as parent.

        Names are fixed, so the old resource must be deleted before its replacement is created.
        """
        return pulumi.ResourceOptions(parent=self, delete_before_replace=True, **options)

    def _declare_public_address(self, purpose: str) -> Any:
        return network.PublicIPAddress(
            f"{self.key}-{purpose}",
            public_ip_address_name=f"{self.name}-{purpose}",
            public_ip_allocation_method="Static",  # the only method of the Standard SKU
            sku={"name": "Standard"},
            tags=self.tags,
            **self._location_arguments,
            opts=self.child_options(),
        )

    def _declare_nat_gateway(self) -> Any:
        return network.NatGateway(
            self.key,
            nat_gateway_name=self.name,
            sku={"name": "Standard"},
            public_ip_addresses=[{"id": self._declare_public_address("nat").id}],
            tags=self.tags,
            **self._location_arguments,
            opts=self.child_options(),
        )

    def _declare_bastion(self, virtual_network: Any) -> Any:
        """Declare a Bastion with tunnels, which ``az network bastion`` and so Ansible's SSH need."""
        subnet = network.Subnet(
            f"{self.key}-bastion",
            subnet_name=BASTION_SUBNET,
            resource_group_name=self.group.name,
            virtual_network_name=virtual_network.name,
            address_prefix=BASTION_CIDR,
            # Azure changes one subnet of a network at a time and refuses the second meanwhile.
            opts=self.child_options(depends_on=[self.subnet]),
        )
        return network.BastionHost(
            self.key,
            bastion_host_name=self.name,
            sku={"name": "Standard"},  # Basic has no tunnels
            enable_tunneling=True,
            ip_configurations=[
                {
                    "name": "primary",
                    "subnet": {"id": subnet.id},
                    "public_ip_address": {"id": self._declare_public_address("bastion").id},
                }
            ],
            tags=self.tags,
            **self._location_arguments,
            opts=self.child_options(),
        )


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
