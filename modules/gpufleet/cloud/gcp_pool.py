"""A pool on Google Cloud."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp

from gpufleet.cloud.gcp_group import declare_instance_group
from gpufleet.cloud.gcp_network import GcpNetwork, GcpNetworkArgs
from gpufleet.cloud.gcp_parts import GcpPoolParts, build_guest_accelerators
from gpufleet.cloud.images import build_gcp_image_query
from gpufleet.cloud.pool_plan import PoolPlan
from gpufleet.fleet import Fleet


@dataclass(frozen=True)
class GcpPoolArgs:
    plan: PoolPlan
    network: GcpNetwork


class GcpPool(pulumi.ComponentResource):
    """Instances one by one for a fixed count; a regional managed instance group for an elastic one."""

    def __init__(self, name: str, args: GcpPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the pool and, as ``nodes``, the facts of its nodes."""
        super().__init__("gpufleet:cloud:GcpPool", name, args.plan.build_component_inputs(), opts)
        plan = args.plan
        image = gcp.compute.get_image_output(
            **build_gcp_image_query(plan.pool, plan.machine), opts=pulumi.InvokeOutputOptions(parent=self)
        )
        reservation = self._declare_reservation(plan, args.network)
        if plan.has_several_nodes:
            self._declare_node_firewall(plan, args.network)
        self.parts = GcpPoolParts(self, plan, args.network, image, reservation)
        facts: list[dict[str, Any]] = []  # only Google knows the members of a group
        if plan.needs_instance_group:
            declare_instance_group(self.parts)
        else:
            facts = [_declare_node(self.parts, index, node) for index, node in enumerate(plan.node_names)]
        self.nodes = pulumi.Output.from_input(facts)
        self.groups: pulumi.Output[list[dict[str, Any]]] = pulumi.Output.from_input([])
        self.register_outputs({"nodes": self.nodes, "groups": self.groups})

    def _declare_reservation(self, plan: PoolPlan, network: GcpNetwork) -> Any:
        if not plan.needs_reservation:
            return None
        pool = plan.pool
        properties = {"machine_type": pool.machine, "guest_accelerators": _reserved_cards(plan) or None}
        return gcp.compute.Reservation(
            pool.name,
            name=plan.node_name_prefix,
            zone=_required_zone(plan, 0),
            specific_reservation={"count": pool.count.max, "instance_properties": properties},
            # Only machines that name it may use it: another team's cannot take it by accident.
            specific_reservation_required=True,
            description=f"gpufleet pool {pool.name} of stack {plan.fleet.stack}",
            project=network.project,
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )

    def _declare_node_firewall(self, plan: PoolPlan, network: GcpNetwork) -> None:
        """Let the pool's nodes reach each other."""
        gcp.compute.Firewall(
            f"{plan.pool.name}-among",
            name=f"{plan.node_name_prefix}-among",
            network=network.network.id,
            direction="INGRESS",
            allows=[{"protocol": "all"}],
            source_tags=[plan.node_name_prefix],
            target_tags=[plan.node_name_prefix],
            project=network.project,
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )


def declare_pools(
    fleet: Fleet, plans: Sequence[PoolPlan], opts: pulumi.ResourceOptions | None = None, prefix: str = ""
) -> list[GcpPool]:
    """Declare one network, then the pools. ``opts`` are those of each, ``prefix`` begins the network's name."""
    regions = sorted({plan.pool.region for plan in plans})
    network = GcpNetwork(f"{prefix}gcp", GcpNetworkArgs(fleet, tuple(regions)), opts)
    return [GcpPool(plan.pool.name, GcpPoolArgs(plan, network), opts) for plan in plans]


def _reserved_cards(plan: PoolPlan) -> list[dict[str, Any]]:
    return [
        {"accelerator_type": card["type"], "accelerator_count": card["count"]}
        for card in build_guest_accelerators(plan)
    ]


def _required_zone(plan: PoolPlan, index: int) -> str:
    zone = plan.zone_of_node(index)
    if zone is None:
        example = f"zones: [{plan.pool.region}-a]"
        raise plan.build_input_error(
            "zones", "the zone is missing, but a GCP node needs exactly one", f"give {example}"
        )
    return zone


def _declare_node(parts: GcpPoolParts, index: int, node: str) -> dict[str, Any]:
    plan, pool = parts.plan, parts.plan.pool
    instance = gcp.compute.Instance(
        f"{pool.name}-{index + 1}",
        name=node,
        zone=_required_zone(plan, index),
        boot_disk={
            "auto_delete": True,
            # Encrypted at rest with Google's own keys, as every disk there.
            "initialize_params": {
                "image": parts.image.self_link,
                "size": pool.disk.size_gib,
                "type": "pd-balanced",
            },
        },
        network_interfaces=[parts.network_interface()],
        labels=plan.build_tags(node),
        allow_stopping_for_update=True,
        **parts.instance_arguments(),
        opts=parts.child_options(
            delete_before_replace=True,
            # A newer image or another key is for new nodes; Ansible changes running ones.
            ignore_changes=["bootDisk.initializeParams.image", 'metadata["ssh-keys"]'],
        ),
    )
    interface = instance.network_interfaces[0]
    return plan.build_node_facts(
        node,
        id=instance.instance_id,
        zone=instance.zone,
        private=interface.network_ip,
        public=interface.access_configs[0].nat_ip,
    )
