"""A pool on Azure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_azure_native import Provider, compute, network

from gpufleet.cloud.azure_group import declare_scale_set, needs_scale_set
from gpufleet.cloud.azure_network import AzureNetwork, AzureNetworkArgs
from gpufleet.cloud.azure_parts import AzurePoolParts
from gpufleet.cloud.azure_reservation import declare_reservation
from gpufleet.cloud.pool_plan import SSH_USER, PoolPlan
from gpufleet.fleet import Fleet


@dataclass(frozen=True)
class AzurePoolArgs:
    plan: PoolPlan
    network: AzureNetwork


class AzurePool(pulumi.ComponentResource):
    """Machines one by one for a fixed count; a scale set for an elastic one, or where InfiniBand joins nodes."""

    def __init__(self, name: str, args: AzurePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the pool, with its nodes in ``nodes`` and the sets that hold nodes in ``groups``."""
        super().__init__("gpufleet:cloud:AzurePool", name, args.plan.build_component_inputs(), opts)
        plan = args.plan
        self.parts = declare_reservation(AzurePoolParts(self, plan, args.network))
        facts: list[dict[str, Any]] = []  # only Azure knows the members of a scale set
        groups: list[dict[str, Any]] = []
        if needs_scale_set(plan):
            scale_set = declare_scale_set(self.parts)
            purchase = plan.pool.purchase.tag_value
            name = plan.node_name_prefix
            groups = [plan.build_group_facts("scale_set", id=scale_set.id, name=name, purchase=purchase)]
        else:
            facts = [_declare_node(self.parts, index, node) for index, node in enumerate(plan.node_names)]
        self.nodes = pulumi.Output.from_input(facts)
        self.groups = pulumi.Output.from_input(groups)
        self.register_outputs({"nodes": self.nodes, "groups": self.groups})


def declare_pools(
    fleet: Fleet, plans: Sequence[PoolPlan], opts: pulumi.ResourceOptions | None = None, prefix: str = ""
) -> list[AzurePool]:
    """Declare one network per region, then the pools, all in the spec's subscription.

    ``opts`` are those of each, ``prefix`` begins the names of what pools share.
    """
    if fleet.azure is not None:
        own = Provider(f"{prefix}azure", subscription_id=fleet.azure.subscription, opts=opts)
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(provider=own))
    networks = {
        region: AzureNetwork(f"{prefix}azure-{region}", AzureNetworkArgs(fleet, region), opts)
        for region in sorted({plan.pool.region for plan in plans})
    }
    return [
        AzurePool(plan.pool.name, AzurePoolArgs(plan, networks[plan.pool.region]), opts) for plan in plans
    ]


def _declare_node(parts: AzurePoolParts, index: int, node: str) -> dict[str, Any]:
    plan = parts.plan
    name = f"{plan.pool.name}-{index + 1}"
    zone = plan.zone_of_node(index)
    zones = [zone] if zone else None
    address = None if parts.network.has_private_access else _declare_public_address(parts, name, node, zones)
    interface = _declare_interface(parts, name, node, address)
    machine = compute.VirtualMachine(
        name,
        vm_name=node,
        hardware_profile={"vm_size": plan.pool.machine},
        # Address and card are in Pulumi's state, which deletes them. Azure must not do it with the machine:
        # a replacement uses them again.
        network_profile={
            "network_interfaces": [{"id": interface.id, "primary": True, "delete_option": "Detach"}]
        },
        os_profile={
            "computer_name": node,
            "admin_username": SSH_USER,
            "linux_configuration": parts.linux_configuration(),
            **parts.custom_data_arguments(),
        },
        storage_profile=parts.storage_profile(is_scale_set=False),
        zones=zones,
        tags=plan.build_tags(node),
        **parts.security_arguments(),
        **parts.purchase_arguments(),
        **parts.location_arguments,
        opts=parts.machine_options(replace_on_changes=["zones"]),
    )
    bastion = parts.network.bastion
    # What `az network bastion ssh` needs: the Bastion, and the machine by its resource id.
    access = {"access": "bastion", "bastion": bastion.id, "resource_id": machine.id} if bastion else {}
    return plan.build_node_facts(
        node,
        **access,
        id=machine.vm_id,
        zone=zone,
        private=interface.ip_configurations[0].private_ip_address,
        public=address.ip_address if address else None,
    )


def _declare_public_address(parts: AzurePoolParts, name: str, node: str, zones: list[str] | None) -> Any:
    """Declare the way out: new Azure networks have none. The security group still blocks all other access."""
    return network.PublicIPAddress(
        name,
        public_ip_address_name=node,
        public_ip_allocation_method="Static",
        sku={"name": "Standard"},
        zones=zones,
        tags=parts.plan.build_tags(node),
        **parts.location_arguments,
        opts=parts.child_options(),
    )


def _declare_interface(parts: AzurePoolParts, name: str, node: str, address: Any) -> Any:
    configuration = {
        "name": "primary",
        "primary": True,
        "private_ip_allocation_method": "Dynamic",
        "subnet": {"id": parts.network.subnet.id},
        "public_ip_address": {"id": address.id} if address else None,
    }
    return network.NetworkInterface(
        name,
        network_interface_name=node,
        enable_accelerated_networking=True,
        ip_configurations=[configuration],
        tags=parts.plan.build_tags(node),
        **parts.location_arguments,
        opts=parts.child_options(),
    )
