"""The parts of an Azure pool that its single nodes and its scale set share."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from gpufleet.cloud.azure_network import AzureNetwork
from gpufleet.cloud.images import build_azure_image_reference, has_canonical_image_on_azure
from gpufleet.cloud.pool_plan import SSH_USER, PoolPlan
from gpufleet.cloud.user_data import build_cloud_init_without_keys

DEFAULT_DISK_KIND = "Premium_LRS"
# What Azure refuses to change on a running machine, so that the provider's update would fail (azure-cli #11187:
# priority; spot-vms.md: price cap; capacity-reservation-remove-vm.md: leaving a reservation).
REPLACING_PURCHASE_KEYS = ("priority", "evictionPolicy", "billingProfile", "capacityReservation")
# What Azure refuses to change as well, but a new value is for new machines only, as on the other clouds.
KEYS_OF_NEW_MACHINES = (
    "osProfile.customData",
    "osProfile.linuxConfiguration.ssh",  # Ansible makes later changes of keys
    "storageProfile.imageReference",
    "securityProfile",
)


@dataclass(frozen=True)
class AzurePoolParts:
    """What ``AzurePool`` has declared before its nodes; ``component`` becomes the parent of what follows."""

    component: pulumi.ComponentResource
    plan: PoolPlan
    network: AzureNetwork
    reservation_group: Any = None
    reservations: tuple[Any, ...] = ()

    def child_options(self, **options: Any) -> pulumi.ResourceOptions:
        """Return resource options with the pool's component as parent.

        Names are fixed, so the old resource must be deleted before its replacement is created.
        """
        return pulumi.ResourceOptions(**{"parent": self.component, "delete_before_replace": True, **options})

    def machine_options(self, prefix: str = "", **options: Any) -> pulumi.ResourceOptions:
        """Return the options of a machine, or of a scale set with its machine profile at ``prefix``."""
        ignored: Sequence[str] = options.pop("ignore_changes", None) or ()
        replacing: Sequence[str] = options.pop("replace_on_changes", None) or ()
        return self.child_options(
            # A machine names the reservations' group, not a reservation: Pulumi cannot see that it needs one.
            depends_on=list(self.reservations) or None,
            ignore_changes=[*(f"{prefix}{key}" for key in KEYS_OF_NEW_MACHINES), *ignored],
            replace_on_changes=[*(f"{prefix}{key}" for key in REPLACING_PURCHASE_KEYS), *replacing],
            **options,
        )

    @property
    def zones(self) -> list[str] | None:
        """Return the spec's zones; None leaves the zone to Azure."""
        return list(self.plan.pool.zones) or None

    @property
    def location_arguments(self) -> dict[str, Any]:
        """Return the resource group and the region of everything in the pool."""
        return {"resource_group_name": self.network.group.name, "location": self.plan.pool.region}

    def purchase_arguments(self) -> dict[str, Any]:
        """Return how machines are bought; Azure refuses an eviction policy on anything but spot.

        A commitment needs nothing: Azure applies it to the bill of any matching machine.
        """
        purchase = self.plan.rungs[0]
        if purchase.kind == "spot":
            # -1: pay up to the on-demand price, and never be evicted for the price.
            max_price = -1 if purchase.max_usd_per_hour is None else purchase.max_usd_per_hour
            return {
                "priority": "Spot",
                "eviction_policy": "Deallocate" if purchase.on_eviction == "stop" else "Delete",
                "billing_profile": {"max_price": max_price},
            }
        own_group = self.reservation_group.id if self.reservation_group else None
        target = self.plan.existing_reservation or own_group
        return {"capacity_reservation": {"capacity_reservation_group": {"id": target}} if target else None}

    def linux_configuration(self) -> dict[str, Any]:
        """Return the login: SSH keys, no password."""
        keys = self.plan.fleet.ssh.authorized_keys
        path = f"/home/{SSH_USER}/.ssh/authorized_keys"
        return {
            "disable_password_authentication": True,
            "ssh": {"public_keys": [{"path": path, "key_data": key} for key in keys]},
        }

    def custom_data_arguments(self) -> dict[str, str]:
        """Return what cloud-init does besides the SSH keys, which Azure sets up itself."""
        user_data = build_cloud_init_without_keys(self.plan.fleet, self.plan.pool)
        return {} if user_data is None else {"custom_data": base64.b64encode(user_data.encode()).decode()}

    def security_arguments(self) -> dict[str, Any]:
        """Return trusted launch, where size and image are known to take it.

        Secure boot stays off: it refuses the GPU drivers that are built on the node.
        """
        pool, facts = self.plan.pool, self.plan.facts
        if not (facts.trusted_launch and has_canonical_image_on_azure(pool, facts)):
            return {}
        settings = {"secure_boot_enabled": False, "v_tpm_enabled": True}
        return {"security_profile": {"security_type": "TrustedLaunch", "uefi_settings": settings}}

    def storage_profile(self, *, is_scale_set: bool) -> dict[str, Any]:
        """Return image and disks. Azure encrypts every managed disk at rest with its own keys.

        Encryption at the host as well would need a feature that the subscription must first be registered
        for; on others it makes the deployment fail. Disks get the machine's tags when Azure creates them.
        """
        # A Uniform set deletes the disks of its machines, and refuses the option.
        deletion = {} if is_scale_set else {"delete_option": "Delete"}
        disk_kind = (*self.plan.facts.boot_disk_kinds, DEFAULT_DISK_KIND)[0]
        system_disk = {
            "create_option": "FromImage",
            "disk_size_gb": self.plan.pool.disk.size_gib,
            "managed_disk": {"storage_account_type": disk_kind},
            **deletion,
        }
        data_disks = [
            {
                "create_option": "Empty",
                "lun": lun,
                "disk_size_gb": disk.size_gib,
                "managed_disk": {"storage_account_type": disk_kind},
                **deletion,
            }
            for lun, disk in enumerate(self.plan.volumes.disks)
        ]
        image = build_azure_image_reference(self.plan.pool, self.plan.facts)
        return {"image_reference": image, "os_disk": system_disk, "data_disks": data_disks or None}
