"""A pool on AWS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.cloud.aws_fabric import build_efa_interfaces
from gpufleet.cloud.aws_group import AwsAutoScalingGroups
from gpufleet.cloud.aws_network import AwsNetwork, AwsNetworkArgs
from gpufleet.cloud.aws_parts import METADATA_OPTIONS, AwsPoolParts
from gpufleet.cloud.aws_security import declare_security_group
from gpufleet.cloud.images import build_aws_image_query
from gpufleet.cloud.pool_plan import PoolPlan
from gpufleet.cloud.user_data import build_cloud_init_with_keys
from gpufleet.fleet import Fleet


@dataclass(frozen=True)
class AwsPoolArgs:
    plan: PoolPlan
    network: AwsNetwork


class AwsPool(pulumi.ComponentResource):
    """Instances one by one for a fixed count; Auto Scaling groups for an elastic one or one with a fallback."""

    def __init__(self, name: str, args: AwsPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the pool and, as ``nodes``, the facts of its nodes."""
        super().__init__("gpufleet:cloud:AwsPool", name, args.plan.build_component_inputs(), opts)
        self.parts = self._declare_parts(args.plan, args.network)
        groups = AwsAutoScalingGroups(self.parts).facts if args.plan.needs_instance_group else []
        nodes = [] if args.plan.needs_instance_group else declare_instances(self.parts)
        self.nodes: pulumi.Output[list[dict[str, Any]]] = pulumi.Output.from_input(nodes)
        self.groups: pulumi.Output[list[dict[str, Any]]] = pulumi.Output.from_input(groups)
        self.register_outputs({"nodes": self.nodes, "groups": self.groups})

    def _declare_parts(self, plan: PoolPlan, network: AwsNetwork) -> AwsPoolParts:
        zones = plan.pool.zones or (network.find_zone_offering(plan.pool.machine),)
        image = aws.ec2.get_ami_output(
            **build_aws_image_query(plan.pool, plan.machine),
            most_recent=True,
            region=plan.pool.region,
            opts=pulumi.InvokeOptions(parent=self),
        )
        security_group = declare_security_group(plan, network, pulumi.ResourceOptions(parent=self))
        placement_group = self._declare_placement_group(plan)
        reservation = self._declare_reservation(plan, placement_group)
        return AwsPoolParts(self, plan, network, zones, image, security_group, placement_group, reservation)

    def _declare_placement_group(self, plan: PoolPlan) -> Any:
        """Declare a cluster placement group if the fabric needs its nodes close to each other.

        A single node with EFA gets one too: it could not join later, and a pool that grows would lose it. A pool
        on an existing reservation gets none: that capacity is elsewhere, most of it out of reach.
        """
        if plan.fabric != "efa" or plan.existing_reservation:
            return None
        return aws.ec2.PlacementGroup(
            plan.pool.name,
            name=plan.node_name_prefix,
            strategy="cluster",
            region=plan.pool.region,
            tags=plan.build_tags(),
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )

    def _declare_reservation(self, plan: PoolPlan, placement_group: Any) -> Any:
        if not plan.needs_reservation:
            return None
        pool = plan.pool
        return aws.ec2.CapacityReservation(
            pool.name,
            instance_type=pool.machine,
            instance_platform="Linux/UNIX",
            availability_zone=pool.zones[0],
            instance_count=pool.count.max,
            # Only instances that name it may use it: another team's cannot take it by accident.
            instance_match_criteria="targeted",
            end_date_type="unlimited",
            # Capacity inside a placement group must be reserved inside the same one.
            placement_group_arn=placement_group.arn if placement_group else None,
            region=pool.region,
            tags=plan.build_tags(),
            opts=pulumi.ResourceOptions(parent=self),
        )


def declare_pools(
    fleet: Fleet, plans: Sequence[PoolPlan], opts: pulumi.ResourceOptions | None = None, prefix: str = ""
) -> list[AwsPool]:
    """Declare one network per region, then the pools. ``opts`` are those of each, ``prefix`` begins its name."""
    regions = sorted({plan.pool.region for plan in plans})
    networks = {
        region: AwsNetwork(f"{prefix}aws-{region}", AwsNetworkArgs(fleet, region), opts) for region in regions
    }
    return [AwsPool(plan.pool.name, AwsPoolArgs(plan, networks[plan.pool.region]), opts) for plan in plans]


def declare_instances(parts: AwsPoolParts) -> list[dict[str, Any]]:
    """Declare one instance per node of a fixed count; return the nodes' facts."""
    template = _declare_card_template(parts) if parts.plan.fabric == "efa" else None
    names = parts.plan.node_names
    return [_declare_node(parts, index, node, template) for index, node in enumerate(names)]


def _declare_card_template(parts: AwsPoolParts) -> Any:
    """Declare a launch template for the network cards alone: an instance cannot describe EFA itself.

    Everything else stays with the instance, because a new template version replaces all instances.
    """
    plan = parts.plan
    subnet = parts.network.get_or_declare_subnet(parts.zones[0])  # one: EFA does not leave its zone
    return aws.ec2.LaunchTemplate(
        f"{plan.pool.name}-cards",
        name=f"{plan.node_name_prefix}-cards",
        network_interfaces=build_efa_interfaces(plan.machine, subnet.id, [parts.security_group.id]),
        region=plan.pool.region,
        tags=plan.build_tags(),
        opts=parts.child_options(delete_before_replace=True),
    )


def _declare_node(parts: AwsPoolParts, index: int, node: str, template: Any) -> dict[str, Any]:
    plan = parts.plan
    instance = _declare_instance(parts, index, node, template)
    public_address = instance.public_ip
    if template is not None:
        # The only way to a public address with several cards; without one the node cannot fetch packages.
        elastic_ip = aws.ec2.Eip(
            f"{plan.pool.name}-{index + 1}",
            domain="vpc",
            network_interface=instance.primary_network_interface_id,
            region=plan.pool.region,
            tags={**plan.build_tags(node), "Name": node},
            opts=parts.child_options(),
        )
        public_address = elastic_ip.public_ip
    return plan.build_node_facts(
        node,
        id=instance.id,
        zone=instance.availability_zone,
        private=instance.private_ip,
        public=public_address,
    )


def _declare_instance(parts: AwsPoolParts, index: int, node: str, template: Any) -> Any:
    plan, pool = parts.plan, parts.plan.pool
    return aws.ec2.Instance(
        f"{pool.name}-{index + 1}",
        ami=parts.image.id,
        instance_type=pool.machine,
        key_name=parts.network.key.key_name,
        user_data=build_cloud_init_with_keys(plan.fleet, pool),
        root_block_device=_root_disk(plan, node),
        metadata_options=METADATA_OPTIONS,
        instance_market_options=_market_options(plan),
        capacity_reservation_specification=parts.reservation_target(),
        placement_group=parts.placement_group.name if parts.placement_group else None,
        **_network_arguments(parts, index, template),
        region=pool.region,
        tags={**plan.build_tags(node), "Name": node},
        opts=parts.child_options(
            # A newer image or another key is for new nodes; Ansible changes running ones.
            ignore_changes=["ami", "userData"],
            # A reserved slot must be free before its new instance can have it.
            delete_before_replace=pool.purchase.kind == "reserved" or None,
        ),
    )


def _root_disk(plan: PoolPlan, node: str) -> dict[str, Any]:
    disk = {"volume_type": "gp3", "volume_size": plan.pool.disk.size_gib, "encrypted": True}
    return {**disk, "delete_on_termination": True, "tags": {**plan.build_tags(node), "Name": node}}


def _market_options(plan: PoolPlan) -> dict[str, Any] | None:
    purchase = plan.pool.purchase
    if purchase.kind != "spot":
        return None
    stops = purchase.on_eviction == "stop"
    options: dict[str, Any] = {
        "instance_interruption_behavior": "stop" if stops else "terminate",
        # AWS stops (and starts again) only what a persistent request has launched.
        "spot_instance_type": "persistent" if stops else "one-time",
    }
    if purchase.max_usd_per_hour is not None:
        options["max_price"] = str(purchase.max_usd_per_hour)
    return {"market_type": "spot", "spot_options": options}


def _network_arguments(parts: AwsPoolParts, index: int, template: Any) -> dict[str, Any]:
    if template is not None:
        return {"launch_template": {"id": template.id, "version": template.latest_version.apply(str)}}
    subnet = parts.network.get_or_declare_subnet(parts.zones[index % len(parts.zones)])
    # A public address is the cheapest way out to packages and images; the security group still blocks all other access.
    return {
        "subnet_id": subnet.id,
        "vpc_security_group_ids": [parts.security_group.id],
        "associate_public_ip_address": True,
    }
