"""A pool on Azure."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_azure_native import compute, network

from gpufleet.cloud.azure_group import scale_set
from gpufleet.cloud.azure_network import AzureNetwork
from gpufleet.cloud.images import azure_reference
from gpufleet.cloud.plan import SSH_USER, PoolPlan
from gpufleet.cloud.user_data import alone

KEY_TYPES = ("ssh-rsa", "ssh-ed25519")  # Azure refuses the others


@dataclass(frozen=True)
class AzurePoolArgs:
    plan: PoolPlan
    network: AzureNetwork


class AzurePool(pulumi.ComponentResource):
    """Machines one by one for a fixed count; a scale set for an elastic one, or where InfiniBand joins nodes."""

    def __init__(self, name: str, args: AzurePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the pool and, as ``nodes``, the facts of its nodes."""
        super().__init__("gpufleet:cloud:AzurePool", name, args.plan.props(), opts)
        self.plan = args.plan
        self.network = args.network
        self.zones = list(self.plan.pool.zones) or None
        self.reservation_group, self.reservation = self._reservation()
        facts: list[dict[str, Any]] = []  # the members of a scale set are known to the cloud alone
        if self.plan.grouped or (self.plan.fabric == "infiniband" and self.plan.several):
            scale_set(self)
        else:
            facts = [self._node(number, node) for number, node in enumerate(self.plan.node_names)]
        self.nodes = pulumi.Output.from_input(facts)
        self.register_outputs({"nodes": self.nodes})

    def child(self, **options: Any) -> pulumi.ResourceOptions:
        """Return options that make a resource ours; names are ours too, so the old one must go first."""
        return pulumi.ResourceOptions(parent=self, delete_before_replace=True, **options)

    @property
    def place(self) -> dict[str, Any]:
        """Return where everything of the pool is."""
        return {"resource_group_name": self.network.group.name, "location": self.plan.pool.region}

    def terms(self) -> dict[str, Any]:
        """Return how machines are bought; Azure refuses an eviction policy on anything but spot."""
        bought = self.plan.pool.purchase
        if bought.kind == "spot":
            return {
                "priority": "Spot",
                "eviction_policy": "Deallocate" if bought.on_eviction == "stop" else "Delete",
                # -1: pay up to the on-demand price, and never be evicted for the price.
                "billing_profile": {
                    "max_price": -1 if bought.max_usd_per_hour is None else bought.max_usd_per_hour
                },
            }
        target = self.plan.foreign_reservation or (
            self.reservation_group.id if self.reservation_group else None
        )
        return {"capacity_reservation": {"capacity_reservation_group": {"id": target}} if target else None}

    def linux(self) -> dict[str, Any]:
        """Return the login: SSH keys, no password."""
        keys = self.plan.fleet.ssh.authorized_keys
        for key in keys:
            if not key.startswith(KEY_TYPES):
                problem = f"{key.split()[0]} keys do not work on Azure"
                raise self.plan.wrong(
                    "cloud", problem, f"give {' or '.join(KEY_TYPES)} keys under ssh.authorized_keys"
                )
        path = f"/home/{SSH_USER}/.ssh/authorized_keys"
        return {
            "disable_password_authentication": True,
            "ssh": {"public_keys": [{"path": path, "key_data": key} for key in keys]},
        }

    def first_boot(self) -> dict[str, str]:
        """Return what cloud-init does beyond letting the keys in, which Azure does itself."""
        told = alone(self.plan.fleet, self.plan.pool)
        return {} if told is None else {"custom_data": base64.b64encode(told.encode()).decode()}

    def storage(self) -> dict[str, Any]:
        """Return image and disk. Azure encrypts every managed disk at rest with its own keys.

        Encryption at the host as well would need a feature that the subscription must first be registered
        for; on others it makes the deployment fail.
        """
        disk = {
            "create_option": "FromImage",
            "disk_size_gb": self.plan.pool.disk.size_gib,
            "managed_disk": {"storage_account_type": "Premium_LRS"},
            "delete_option": "Delete",
        }
        return {"image_reference": azure_reference(self.plan.pool, self.plan.machine), "os_disk": disk}

    def _reservation(self) -> tuple[Any, Any]:
        if not self.plan.created_reservation:
            return None, None
        pool, tags = self.plan.pool, self.plan.tags()
        group = compute.CapacityReservationGroup(
            pool.name,
            capacity_reservation_group_name=self.plan.prefix,
            zones=self.zones,
            tags=tags,
            **self.place,
            opts=self.child(),
        )
        reservation = compute.CapacityReservation(
            pool.name,
            capacity_reservation_group_name=group.name,
            capacity_reservation_name=self.plan.prefix,
            sku={"name": pool.machine, "capacity": pool.count.max},
            zones=self.zones,
            tags=tags,
            **self.place,
            opts=self.child(),
        )
        return group, reservation

    def _node(self, number: int, node: str) -> dict[str, Any]:
        pool, tags = self.plan.pool, self.plan.tags(node)
        name = f"{pool.name}-{number + 1}"
        zone = self.plan.zone_of(number)
        zones = [zone] if zone else None
        # The way out: new Azure networks have none by default. The security group lets nobody in by it.
        address = network.PublicIPAddress(
            name,
            public_ip_address_name=node,
            public_ip_allocation_method="Static",
            sku={"name": "Standard"},
            zones=zones,
            tags=tags,
            **self.place,
            opts=self.child(),
        )
        card = network.NetworkInterface(
            name,
            network_interface_name=node,
            enable_accelerated_networking=True,
            ip_configurations=[
                {
                    "name": "primary",
                    "primary": True,
                    "private_ip_allocation_method": "Dynamic",
                    "subnet": {"id": self.network.subnet.id},
                    "public_ip_address": {"id": address.id},
                }
            ],
            tags=tags,
            **self.place,
            opts=self.child(),
        )
        machine = compute.VirtualMachine(
            name,
            vm_name=node,
            hardware_profile={"vm_size": pool.machine},
            network_profile={"network_interfaces": [{"id": card.id, "primary": True}]},
            os_profile={
                "computer_name": node,
                "admin_username": SSH_USER,
                "linux_configuration": self.linux(),
                **self.first_boot(),
            },
            storage_profile=self.storage(),
            zones=zones,
            tags=tags,
            **self.terms(),
            **self.place,
            # The machine names the reservation's group, not the reservation: Pulumi can't see that it needs it.
            opts=self.child(
                depends_on=[self.reservation] if self.reservation else None,
                # Azure takes keys only at creation; later changes of keys are Ansible's.
                ignore_changes=["osProfile.linuxConfiguration.ssh"],
            ),
        )
        return self.plan.fact(
            node,
            id=machine.vm_id,
            zone=zone,
            private=card.ip_configurations[0].private_ip_address,
            public=address.ip_address,
        )
