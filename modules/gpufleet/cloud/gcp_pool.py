"""A pool on Google Cloud."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp

from gpufleet.cloud.gcp_group import group
from gpufleet.cloud.gcp_network import GcpNetwork
from gpufleet.cloud.images import gcp_lookup
from gpufleet.cloud.plan import SSH_USER, PoolPlan
from gpufleet.cloud.user_data import alone

# Google's names of the cards that n1 machines take; other machines bring their own.
ATTACHABLE = {
    "T4": "nvidia-tesla-t4",
    "V100": "nvidia-tesla-v100",
    "P100": "nvidia-tesla-p100",
    "P4": "nvidia-tesla-p4",
}
RESERVATION_KEY = "compute.googleapis.com/reservation-name"


@dataclass(frozen=True)
class GcpPoolArgs:
    plan: PoolPlan
    network: GcpNetwork


class GcpPool(pulumi.ComponentResource):
    """Instances one by one for a fixed count; a regional managed instance group for an elastic one."""

    def __init__(self, name: str, args: GcpPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the pool and, as ``nodes``, the facts of its nodes."""
        super().__init__("gpufleet:cloud:GcpPool", name, args.plan.props(), opts)
        self.plan = args.plan
        self.network = args.network
        self.image = self._image()
        self.reservation = self._reservation()
        if self.plan.several:
            self._among()
        facts: list[dict[str, Any]] = []  # the members of a group are known to the cloud alone
        if self.plan.grouped:
            group(self)
        else:
            facts = [self._node(number, node) for number, node in enumerate(self.plan.node_names)]
        self.nodes = pulumi.Output.from_input(facts)
        self.register_outputs({"nodes": self.nodes})

    def child(self, **options: Any) -> pulumi.ResourceOptions:
        """Return options that make a resource ours."""
        return pulumi.ResourceOptions(parent=self, **options)

    @property
    def tags(self) -> list[str]:
        """Return the network tags: the stack's, for SSH, and the pool's, for its nodes among each other."""
        return [self.network.node_tag, self.plan.prefix]

    def description(self) -> dict[str, Any]:
        """Return what an instance and an instance template describe alike."""
        return {
            "machine_type": self.plan.pool.machine,
            "guest_accelerators": self.accelerators() or None,
            "scheduling": scheduling(self.plan),
            "metadata": metadata(self.plan),
            "shielded_instance_config": self._shield(),
            "reservation_affinity": self._affinity(),
            "tags": self.tags,
            "project": self.network.project,
        }

    def interface(self) -> dict[str, Any]:
        """Return the network card. A public address is the cheapest way out; the firewall lets nobody in by it."""
        subnet = self.network.subnets[self.plan.pool.region]
        return {"subnetwork": subnet.id, "nic_type": "GVNIC", "access_configs": [{"network_tier": "PREMIUM"}]}

    def accelerators(self) -> list[dict[str, Any]]:
        """Return the cards to attach; A2, A3 and G2 machines bring theirs and take none."""
        wanted = self.plan.pool.accelerators
        if wanted is None:
            return []
        if wanted.model not in ATTACHABLE:
            raise self.plan.wrong(
                "accelerators.model", f"is {wanted.model}", f"give {' or '.join(ATTACHABLE)}"
            )
        return [{"type": ATTACHABLE[wanted.model], "count": wanted.count}]

    def _image(self) -> Any:
        found = gcp_lookup(self.plan.pool, self.plan.machine)
        return gcp.compute.get_image_output(**found, opts=pulumi.InvokeOutputOptions(parent=self))

    def _reservation(self) -> Any:
        if not self.plan.created_reservation:
            return None
        pool = self.plan.pool
        properties = {"machine_type": pool.machine, "guest_accelerators": self._reserved_cards() or None}
        return gcp.compute.Reservation(
            pool.name,
            name=self.plan.prefix,
            zone=self._zone(0),
            specific_reservation={"count": pool.count.max, "instance_properties": properties},
            # Only machines that name it may use it: another team's can't take it by accident.
            specific_reservation_required=True,
            description=f"gpufleet pool {pool.name} of stack {self.plan.fleet.stack}",
            project=self.network.project,
            opts=self.child(delete_before_replace=True),
        )

    def _reserved_cards(self) -> list[dict[str, Any]]:
        return [
            {"accelerator_type": card["type"], "accelerator_count": card["count"]}
            for card in self.accelerators()
        ]

    def _affinity(self) -> dict[str, Any] | None:
        target = self.plan.foreign_reservation or (self.reservation.name if self.reservation else None)
        if target is None:
            return None
        return {
            "type": "SPECIFIC_RESERVATION",
            "specific_reservation": {"key": RESERVATION_KEY, "values": [target]},
        }

    def _shield(self) -> dict[str, Any]:
        # Secure boot refuses NVIDIA's kernel module unless it is signed with a key of the machine's owner.
        return {
            "enable_secure_boot": not self.plan.accelerated,
            "enable_vtpm": True,
            "enable_integrity_monitoring": True,
        }

    def _among(self) -> None:
        gcp.compute.Firewall(
            f"{self.plan.pool.name}-among",
            name=f"{self.plan.prefix}-among",
            network=self.network.network.id,
            direction="INGRESS",
            allows=[{"protocol": "all"}],
            source_tags=[self.plan.prefix],
            target_tags=[self.plan.prefix],
            project=self.network.project,
            opts=self.child(delete_before_replace=True),
        )

    def _zone(self, number: int) -> str:
        zone = self.plan.zone_of(number)
        if zone is None:
            example = f"zones: [{self.plan.pool.region}-a]"
            raise self.plan.wrong("zones", "is missing, but a GCP node lives in one zone", f"say {example}")
        return zone

    def _node(self, number: int, node: str) -> dict[str, Any]:
        plan, pool = self.plan, self.plan.pool
        instance = gcp.compute.Instance(
            f"{pool.name}-{number + 1}",
            name=node,
            zone=self._zone(number),
            boot_disk={
                "auto_delete": True,
                # Encrypted at rest with Google's own keys, as every disk there is.
                "initialize_params": {
                    "image": self.image.self_link,
                    "size": pool.disk.size_gib,
                    "type": "pd-balanced",
                },
            },
            network_interfaces=[self.interface()],
            labels=plan.tags(node),
            allow_stopping_for_update=True,
            **self.description(),
            opts=self.child(
                delete_before_replace=True,
                # A newer image or another key is for new nodes: running ones are Ansible's to change.
                ignore_changes=["bootDisk.initializeParams.image", 'metadata["ssh-keys"]'],
            ),
        )
        card = instance.network_interfaces[0]
        return plan.fact(
            node,
            id=instance.instance_id,
            zone=instance.zone,
            private=card.network_ip,
            public=card.access_configs[0].nat_ip,
        )


def scheduling(plan: PoolPlan) -> dict[str, Any]:
    """Return how Google may treat the machine. One with an accelerator can't migrate live: it must stop."""
    maintenance = {"on_host_maintenance": "TERMINATE" if plan.accelerated else "MIGRATE"}
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


def metadata(plan: PoolPlan) -> dict[str, str]:
    """Return the metadata that lets the spec's keys in, and only those."""
    keys = "\n".join(f"{SSH_USER}:{key}" for key in plan.fleet.ssh.authorized_keys)
    told = {"ssh-keys": keys, "block-project-ssh-keys": "true", "enable-oslogin": "false"}
    more = alone(plan.fleet, plan.pool)
    return told if more is None else {**told, "user-data": more}
