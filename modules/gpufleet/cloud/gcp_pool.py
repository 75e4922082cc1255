"""A pool on Google Cloud."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pulumi
import pulumi_gcp as gcp

from gpufleet.cloud.gcp_disks import (
    build_boot_disk,
    build_scratch_disks,
    declare_volume_disks,
    has_fixed_local_disks,
)
from gpufleet.cloud.gcp_fabric import find_network_mtu
from gpufleet.cloud.gcp_group import declare_instance_group
from gpufleet.cloud.gcp_network import GcpNetwork, GcpNetworkArgs
from gpufleet.cloud.gcp_parts import GcpPoolParts, build_guest_accelerators, uses_group
from gpufleet.cloud.gcp_placement import declare_placement
from gpufleet.cloud.images import build_gcp_image_query
from gpufleet.cloud.pool_plan import PoolPlan
from gpufleet.fleet import Fleet


@dataclass(frozen=True)
class GcpPoolArgs:
    plan: PoolPlan
    network: GcpNetwork


class GcpPool(pulumi.ComponentResource):
    """Instances one by one for a fixed count; a regional managed instance group otherwise."""

    def __init__(self, name: str, args: GcpPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the pool. ``nodes`` are the facts of its separate nodes, ``groups`` its managed group."""
        super().__init__("gpufleet:cloud:GcpPool", name, args.plan.build_component_inputs(), opts)
        plan = args.plan
        image = gcp.compute.get_image_output(
            **build_gcp_image_query(plan.pool, plan.machine), opts=pulumi.InvokeOutputOptions(parent=self)
        )
        if plan.has_several_nodes:
            self._declare_node_firewall(plan, args.network)
        parts = GcpPoolParts(self, plan, args.network, image, _declare_reservation(self, plan, args.network))
        self.parts = replace(parts, placement=declare_placement(parts, in_group=uses_group(plan)))
        nodes: list[dict[str, Any]] = []
        groups: list[dict[str, Any]] = []
        if uses_group(plan):
            groups = [declare_instance_group(self.parts)]
        else:
            nodes = [_declare_node(self.parts, index, node) for index, node in enumerate(plan.node_names)]
        self.nodes = pulumi.Output.from_input(nodes)
        self.groups = pulumi.Output.from_input(groups)
        self.register_outputs({"nodes": self.nodes, "groups": self.groups})

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
    if fleet.account and fleet.gcp:  # lookups of images too belong to the account
        own = gcp.Provider(f"{prefix}gcp", project=fleet.gcp.project, opts=opts)
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(provider=own))
    regions = sorted({plan.pool.region for plan in plans})
    network = GcpNetwork(f"{prefix}gcp", GcpNetworkArgs(fleet, tuple(regions), find_network_mtu(plans)), opts)
    return [GcpPool(plan.pool.name, GcpPoolArgs(plan, network), opts) for plan in plans]


def _declare_reservation(component: pulumi.ComponentResource, plan: PoolPlan, network: GcpNetwork) -> Any:
    if not plan.needs_reservation:
        return None
    pool = plan.pool
    local_disks = [
        {"disk_size_gb": disk["size"], "interface": disk["interface"]} for disk in build_scratch_disks(plan)
    ]
    properties = {
        "machine_type": pool.machine,
        "guest_accelerators": _reserved_cards(plan) or None,
        "local_ssds": local_disks or None,  # a node matches only with the same local disks
    }
    return gcp.compute.Reservation(
        pool.name,
        name=plan.node_name_prefix,
        zone=pool.zones[0],
        specific_reservation={"count": pool.count.max, "instance_properties": properties},
        # Only machines that name it may use it: another team's cannot take it by accident.
        specific_reservation_required=True,
        description=f"gpufleet pool {pool.name} of stack {plan.fleet.stack}",
        project=network.project,
        opts=pulumi.ResourceOptions(parent=component, delete_before_replace=True),
    )


def _reserved_cards(plan: PoolPlan) -> list[dict[str, Any]]:
    return [
        {"accelerator_type": card["type"], "accelerator_count": card["count"]}
        for card in build_guest_accelerators(plan)
    ]


def _declare_node(parts: GcpPoolParts, index: int, node: str) -> dict[str, Any]:
    plan, pool = parts.plan, parts.plan.pool
    zone = pool.zones[index % len(pool.zones)]
    scratch_disks = build_scratch_disks(plan)
    instance = gcp.compute.Instance(
        f"{pool.name}-{index + 1}",
        name=node,
        zone=zone,
        boot_disk=build_boot_disk(parts, plan.build_tags(node)),
        scratch_disks=scratch_disks or None,
        attached_disks=declare_volume_disks(parts, index, node, zone) or None,
        network_interfaces=parts.network_interfaces(),
        labels=plan.build_tags(node),
        allow_stopping_for_update=True,
        resource_policies=parts.placement.self_link if parts.placement else None,
        **parts.instance_arguments(),
        opts=parts.child_options(
            delete_before_replace=True,
            # A newer image or another key is for new nodes; Ansible changes running ones.
            ignore_changes=[
                "bootDisk.initializeParams.image",
                'metadata["ssh-keys"]',
                # The provider takes disks that Google attached by itself for a change, and replaces the node
                # (hashicorp/terraform-provider-google #19648).
                *(["scratchDisks"] if has_fixed_local_disks(plan) else []),
            ],
            # Google stops no node with local SSDs for a change: what they hold would be lost.
            replace_on_changes=["machineType"] if scratch_disks or has_fixed_local_disks(plan) else None,
            # A node names its reservation as a text, which tells Pulumi nothing of the order.
            depends_on=[parts.reservation] if parts.reservation else None,
        ),
    )
    interface = instance.network_interfaces[0]
    return plan.build_node_facts(
        node,
        id=instance.instance_id,
        zone=instance.zone,
        **({"access": "iap"} if parts.network.is_private else {}),
        private=interface.network_ip,
        public=None if parts.network.is_private else interface.access_configs[0].nat_ip,
    )
