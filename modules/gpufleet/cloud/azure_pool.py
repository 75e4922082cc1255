"""A pool on Azure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pulumi
from pulumi_azure_native import compute, network

from gpufleet.cloud.azure_group import declare_scale_set
from gpufleet.cloud.azure_network import AzureNetwork, AzureNetworkArgs
from gpufleet.cloud.azure_parts import AzurePoolParts
from gpufleet.cloud.pool_plan import SSH_USER, PoolPlan
from gpufleet.fleet import Fleet


@dataclass(frozen=True)
class AzurePoolArgs:
    plan: PoolPlan
    network: AzureNetwork


class AzurePool(pulumi.ComponentResource):
    """Machines one by one for a fixed count; a scale set for an elastic one, or where InfiniBand joins nodes."""

    def __init__(self, name: str, args: AzurePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the pool and, as ``nodes``, the facts of its nodes."""
        super().__init__("gpufleet:cloud:AzurePool", name, args.plan.build_component_inputs(), opts)
        plan = args.plan
        self.parts = _declare_reservation(AzurePoolParts(self, plan, args.network))
        facts: list[dict[str, Any]] = []  # only Azure knows the members of a scale set
        if plan.needs_instance_group or (plan.fabric == "infiniband" and plan.has_several_nodes):
            declare_scale_set(self.parts)
        else:
            facts = [_declare_node(self.parts, index, node) for index, node in enumerate(plan.node_names)]
        self.nodes = pulumi.Output.from_input(facts)
        self.groups: pulumi.Output[list[dict[str, Any]]] = pulumi.Output.from_input([])
        self.register_outputs({"nodes": self.nodes, "groups": self.groups})


def declare_pools(
    fleet: Fleet, plans: Sequence[PoolPlan], opts: pulumi.ResourceOptions | None = None, prefix: str = ""
) -> list[AzurePool]:
    """Declare one network per region, then the pools. ``opts`` are those of each, ``prefix`` begins its name."""
    regions = sorted({plan.pool.region for plan in plans})
    networks = {
        region: AzureNetwork(f"{prefix}azure-{region}", AzureNetworkArgs(fleet, region), opts)
        for region in regions
    }
    return [
        AzurePool(plan.pool.name, AzurePoolArgs(plan, networks[plan.pool.region]), opts) for plan in plans
    ]


def _declare_reservation(parts: AzurePoolParts) -> AzurePoolParts:
    """Declare the capacity reservation and its group if the pool has one; return the parts with both."""
    if not parts.plan.needs_reservation:
        return parts
    pool, tags = parts.plan.pool, parts.plan.build_tags()
    group = compute.CapacityReservationGroup(
        pool.name,
        capacity_reservation_group_name=parts.plan.node_name_prefix,
        zones=parts.zones,
        tags=tags,
        **parts.location_arguments,
        opts=parts.child_options(),
    )
    reservation = compute.CapacityReservation(
        pool.name,
        capacity_reservation_group_name=group.name,
        capacity_reservation_name=parts.plan.node_name_prefix,
        sku={"name": pool.machine, "capacity": pool.count.max},
        zones=parts.zones,
        tags=tags,
        **parts.location_arguments,
        opts=parts.child_options(),
    )
    return replace(parts, reservation_group=group, reservation=reservation)


def _declare_node(parts: AzurePoolParts, index: int, node: str) -> dict[str, Any]:
    pool, tags = parts.plan.pool, parts.plan.build_tags(node)
    name = f"{pool.name}-{index + 1}"
    zone = parts.plan.zone_of_node(index)
    zones = [zone] if zone else None
    # The way out: new Azure networks have none by default. The security group still blocks all other access.
    public_address = network.PublicIPAddress(
        name,
        public_ip_address_name=node,
        public_ip_allocation_method="Static",
        sku={"name": "Standard"},
        zones=zones,
        tags=tags,
        **parts.location_arguments,
        opts=parts.child_options(),
    )
    interface = network.NetworkInterface(
        name,
        network_interface_name=node,
        enable_accelerated_networking=True,
        ip_configurations=[
            {
                "name": "primary",
                "primary": True,
                "private_ip_allocation_method": "Dynamic",
                "subnet": {"id": parts.network.subnet.id},
                "public_ip_address": {"id": public_address.id},
            }
        ],
        tags=tags,
        **parts.location_arguments,
        opts=parts.child_options(),
    )
    machine = compute.VirtualMachine(
        name,
        vm_name=node,
        hardware_profile={"vm_size": pool.machine},
        network_profile={"network_interfaces": [{"id": interface.id, "primary": True}]},
        os_profile={
            "computer_name": node,
            "admin_username": SSH_USER,
            "linux_configuration": parts.linux_configuration(),
            **parts.custom_data_arguments(),
        },
        storage_profile=parts.storage_profile(),
        zones=zones,
        tags=tags,
        **parts.purchase_arguments(),
        **parts.location_arguments,
        # The machine names the reservation's group, not the reservation: Pulumi cannot see that it needs it.
        opts=parts.child_options(
            depends_on=[parts.reservation] if parts.reservation else None,
            # Azure takes keys only at creation; Ansible makes later changes of keys.
            ignore_changes=["osProfile.linuxConfiguration.ssh"],
        ),
    )
    return parts.plan.build_node_facts(
        node,
        id=machine.vm_id,
        zone=zone,
        private=interface.ip_configurations[0].private_ip_address,
        public=public_address.ip_address,
    )
