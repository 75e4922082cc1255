"""The parts of a GCP pool that its single nodes and its group share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi

from gpufleet.cloud.gcp_network import GcpNetwork
from gpufleet.cloud.pool_plan import SSH_USER, PoolPlan
from gpufleet.cloud.user_data import build_cloud_init_without_keys

# Google's names of the cards that n1 machines take; other machines have built-in ones.
ATTACHABLE = {
    "T4": "nvidia-tesla-t4",
    "V100": "nvidia-tesla-v100",
    "P100": "nvidia-tesla-p100",
    "P4": "nvidia-tesla-p4",
}
RESERVATION_KEY = "compute.googleapis.com/reservation-name"


@dataclass(frozen=True)
class GcpPoolParts:
    """What ``GcpPool`` has declared before its nodes; ``component`` becomes the parent of what follows."""

    component: pulumi.ComponentResource
    plan: PoolPlan
    network: GcpNetwork
    image: Any
    reservation: Any = None

    def child_options(self, **options: Any) -> pulumi.ResourceOptions:
        """Return resource options with the pool's component as parent."""
        return pulumi.ResourceOptions(parent=self.component, **options)

    def instance_arguments(self) -> dict[str, Any]:
        """Return the arguments that an instance and an instance template have in common."""
        return {
            "machine_type": self.plan.pool.machine,
            "guest_accelerators": build_guest_accelerators(self.plan) or None,
            "scheduling": build_scheduling(self.plan),
            "metadata": build_instance_metadata(self.plan),
            "shielded_instance_config": _shielded_instance_config(self.plan),
            "reservation_affinity": self._reservation_affinity(),
            # The stack's network tag opens SSH, the pool's lets its nodes reach each other.
            "tags": [self.network.node_tag, self.plan.node_name_prefix],
            "project": self.network.project,
        }

    def network_interface(self) -> dict[str, Any]:
        """Return the network card. A public address is the cheapest way out; the firewall still blocks access."""
        subnet = self.network.subnets[self.plan.pool.region]
        return {"subnetwork": subnet.id, "nic_type": "GVNIC", "access_configs": [{"network_tier": "PREMIUM"}]}

    def _reservation_affinity(self) -> dict[str, Any] | None:
        target = self.plan.existing_reservation or (self.reservation.name if self.reservation else None)
        if target is None:
            return None
        return {
            "type": "SPECIFIC_RESERVATION",
            "specific_reservation": {"key": RESERVATION_KEY, "values": [target]},
        }


def build_guest_accelerators(plan: PoolPlan) -> list[dict[str, Any]]:
    """Return the cards to attach; A2, A3 and G2 machines have built-in ones and take none."""
    request = plan.pool.accelerators
    if request is None:
        return []
    if request.model not in ATTACHABLE:
        raise plan.build_input_error(
            "accelerators.model", f"is {request.model}", f"give {' or '.join(ATTACHABLE)}"
        )
    return [{"type": ATTACHABLE[request.model], "count": request.count}]


def build_scheduling(plan: PoolPlan) -> dict[str, Any]:
    """Return how Google may treat the machine. One with an accelerator cannot migrate live: it must stop."""
    maintenance = {"on_host_maintenance": "TERMINATE" if plan.has_accelerators else "MIGRATE"}
    purchase = plan.pool.purchase
    if purchase.kind != "spot":
        return {**maintenance, "automatic_restart": True}
    return {
        "on_host_maintenance": "TERMINATE",
        "provisioning_model": "SPOT",
        "preemptible": True,
        "automatic_restart": False,
        "instance_termination_action": "STOP" if purchase.on_eviction == "stop" else "DELETE",
    }


def build_instance_metadata(plan: PoolPlan) -> dict[str, str]:
    """Return the metadata that lets the spec's keys in, and only those."""
    keys = "\n".join(f"{SSH_USER}:{key}" for key in plan.fleet.ssh.authorized_keys)
    entries = {"ssh-keys": keys, "block-project-ssh-keys": "true", "enable-oslogin": "false"}
    user_data = build_cloud_init_without_keys(plan.fleet, plan.pool)
    return entries if user_data is None else {**entries, "user-data": user_data}


def _shielded_instance_config(plan: PoolPlan) -> dict[str, Any]:
    # Secure boot refuses NVIDIA's kernel module unless it is signed with a key of the machine's owner.
    return {
        "enable_secure_boot": not plan.has_accelerators,
        "enable_vtpm": True,
        "enable_integrity_monitoring": True,
    }
