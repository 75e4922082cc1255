"""The parts of a GCP pool that its single nodes and its group share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi

from gpufleet.catalog.attachable_card import CARD_TYPES
from gpufleet.cloud.gcp_fabric import build_fabric_interfaces
from gpufleet.cloud.gcp_network import GcpNetwork
from gpufleet.cloud.gcp_ops_agent import build_ops_agent_settings
from gpufleet.cloud.pool_plan import SSH_USER, PoolPlan
from gpufleet.cloud.user_data import build_cloud_init_without_keys

RESERVATION_KEY = "compute.googleapis.com/reservation-name"


@dataclass(frozen=True)
class GcpPoolParts:
    """What ``GcpPool`` has declared before its nodes; ``component`` becomes the parent of what follows."""

    component: pulumi.ComponentResource
    plan: PoolPlan
    network: GcpNetwork
    image: Any
    reservation: Any = None
    placement: Any = None

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
            "service_account": self._service_account(),
            # The stack's network tag opens SSH, the pool's lets its nodes reach each other.
            "tags": [self.network.node_tag, self.plan.node_name_prefix],
            "project": self.network.project,
        }

    def count_accelerators(self) -> int:
        """Return how many accelerators each node has."""
        request = self.plan.pool.accelerators
        return request.count if request else sum(item.count for item in self.plan.machine.accelerators)

    def network_interfaces(self) -> list[dict[str, Any]]:
        """Return the network cards: the first one for everything, the others for the pool's fabric.

        A public address is the cheapest way out; the firewall still blocks access. A private node leaves through
        Cloud NAT.
        """
        subnet = self.network.subnets[self.plan.pool.region]
        first: dict[str, Any] = {"subnetwork": subnet.id, "nic_type": "GVNIC"}
        if not self.network.is_private:
            first["access_configs"] = [{"network_tier": "PREMIUM"}]
        return [first, *build_fabric_interfaces(self.plan, self.network)]

    def _reservation_affinity(self) -> dict[str, Any]:
        """Return which reservations a node may use, for every purchase.

        The provider sees no change if it is left out later: a node would keep the name of a deleted reservation.
        """
        rungs = self.plan.rungs
        if rungs[0].kind in ("flex_start", "spot"):
            return {
                "type": "NO_RESERVATION"
            }  # Google refuses flex-start with any other, and spot never uses one
        if rungs[0].kind != "reserved" or len(rungs) > 1:
            return {"type": "ANY_RESERVATION"}  # one that matches, then on demand: Google's default
        target = self.plan.existing_reservation or self.plan.node_name_prefix
        return {
            "type": "SPECIFIC_RESERVATION",
            "specific_reservation": {"key": RESERVATION_KEY, "values": [target]},
        }

    def _service_account(self) -> dict[str, Any] | None:
        """Return the nodes' identity. Without one in the spec they have none: nothing on them can call Google."""
        account = self.plan.fleet.gcp.service_account if self.plan.fleet.gcp else None
        # Its roles limit what it may do; Google advises against limiting it a second time by scopes.
        return {"email": account, "scopes": ["cloud-platform"]} if account else None


def uses_group(plan: PoolPlan) -> bool:
    """Return whether Google's group makes the nodes. A ladder is one reservation here, which single nodes can use."""
    pool = plan.pool
    is_group_purchase = pool.purchase.rungs[0].kind == "flex_start" or bool(pool.purchase.machines)
    return pool.group or pool.count.is_elastic or is_group_purchase


def build_guest_accelerators(plan: PoolPlan) -> list[dict[str, Any]]:
    """Return the cards to attach; A2, A3 and G2 machines have built-in ones and take none."""
    request = plan.pool.accelerators
    if request is None:
        return []
    return [{"type": CARD_TYPES[request.model], "count": request.count}]


def build_scheduling(plan: PoolPlan) -> dict[str, Any]:
    """Return how Google may treat the machine. One with an accelerator cannot migrate live: it must stop."""
    purchase = plan.rungs[0]
    if purchase.kind == "spot":
        return {
            "on_host_maintenance": "TERMINATE",
            "provisioning_model": "SPOT",
            "preemptible": True,
            "automatic_restart": False,
            "instance_termination_action": "STOP" if purchase.on_eviction == "stop" else "DELETE",
        }
    if purchase.kind == "flex_start":
        return {
            "on_host_maintenance": "TERMINATE",
            "provisioning_model": "FLEX_START",
            "automatic_restart": False,
            "instance_termination_action": "DELETE",
            "max_run_duration": {"seconds": max_run_seconds(plan)},
        }
    maintenance = "TERMINATE" if plan.has_accelerators else "MIGRATE"
    # The model is explicit, because the provider sees no change if it is left out after spot.
    return {
        "on_host_maintenance": maintenance,
        "provisioning_model": "STANDARD",
        "automatic_restart": True,
    }


def max_run_seconds(plan: PoolPlan) -> int:
    """Return how long a flex-start node runs."""
    return round((plan.pool.purchase.max_run_hours or 0) * 3600)


def build_instance_metadata(plan: PoolPlan) -> dict[str, str]:
    """Return the metadata that lets the spec's keys in, and only those."""
    keys = "\n".join(f"{SSH_USER}:{key}" for key in plan.fleet.ssh.authorized_keys)
    entries = {"ssh-keys": keys, "block-project-ssh-keys": "true", "enable-oslogin": "false"}
    user_data = build_cloud_init_without_keys(plan.fleet, plan.pool, build_ops_agent_settings(plan))
    return entries if user_data is None else {**entries, "user-data": user_data}


def _shielded_instance_config(plan: PoolPlan) -> dict[str, Any]:
    # Secure boot refuses NVIDIA's kernel module unless it is signed with a key of the machine's owner.
    return {
        "enable_secure_boot": not plan.has_accelerators,
        "enable_vtpm": True,
        "enable_integrity_monitoring": True,
    }
