"""A pool on AWS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.cloud.aws_fabric import efa_interfaces
from gpufleet.cloud.aws_group import AwsGroups
from gpufleet.cloud.aws_network import AwsNetwork
from gpufleet.cloud.aws_security import security_group
from gpufleet.cloud.images import aws_lookup
from gpufleet.cloud.plan import PoolPlan
from gpufleet.cloud.user_data import cloud_init

# IMDSv2 only, and not one hop further than the node: a container can't ask for the node's credentials.
METADATA = {"http_endpoint": "enabled", "http_tokens": "required", "http_put_response_hop_limit": 1}


@dataclass(frozen=True)
class AwsPoolArgs:
    plan: PoolPlan
    network: AwsNetwork


class AwsPool(pulumi.ComponentResource):
    """Instances one by one for a fixed count; Auto Scaling groups for an elastic one or one with a fallback."""

    def __init__(self, name: str, args: AwsPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Declare the pool and, as ``nodes``, the facts of its nodes."""
        super().__init__("gpufleet:cloud:AwsPool", name, args.plan.props(), opts)
        self.plan = args.plan
        self.network = args.network
        self.zones = self.plan.pool.zones or (self.network.zone_offering(self.plan.pool.machine),)
        self.image = self._image()
        self.group = security_group(self.plan, self.network, self.child())
        self.placement = self._placement()
        self.reservation = self._reservation()
        if self.plan.grouped:
            self.nodes = AwsGroups(self).nodes
        else:
            template = self._cards() if self.plan.fabric == "efa" else None
            facts = [self._node(number, node, template) for number, node in enumerate(self.plan.node_names)]
            self.nodes = pulumi.Output.from_input(facts)
        self.register_outputs({"nodes": self.nodes})

    def child(self, **options: Any) -> pulumi.ResourceOptions:
        """Return options that make a resource ours."""
        return pulumi.ResourceOptions(parent=self, **options)

    def capacity(self) -> dict[str, Any] | None:
        """Return which reservation the nodes draw on; None lets AWS match open ones."""
        target = self.plan.foreign_reservation or (self.reservation.id if self.reservation else None)
        return {"capacity_reservation_target": {"capacity_reservation_id": target}} if target else None

    def _image(self) -> Any:
        return aws.ec2.get_ami_output(
            **aws_lookup(self.plan.pool, self.plan.machine),
            most_recent=True,
            region=self.plan.pool.region,
            opts=pulumi.InvokeOptions(parent=self),
        )

    def _placement(self) -> Any:
        """Declare a cluster placement group where the fabric needs its nodes close to each other.

        A lone node with EFA gets one too: it could not join later, and a pool that grows would lose it. Never
        around a reservation that is not ours: its capacity lies elsewhere, most of it out of reach.
        """
        if self.plan.fabric != "efa" or self.plan.foreign_reservation:
            return None
        return aws.ec2.PlacementGroup(
            self.plan.pool.name,
            name=self.plan.prefix,
            strategy="cluster",
            region=self.plan.pool.region,
            tags=self.plan.tags(),
            opts=self.child(delete_before_replace=True),
        )

    def _reservation(self) -> Any:
        if not self.plan.created_reservation:
            return None
        pool = self.plan.pool
        return aws.ec2.CapacityReservation(
            pool.name,
            instance_type=pool.machine,
            instance_platform="Linux/UNIX",
            availability_zone=pool.zones[0],
            instance_count=pool.count.max,
            # Only instances that name it may use it: another team's can't take it by accident.
            instance_match_criteria="targeted",
            end_date_type="unlimited",
            # Capacity inside a placement group must be reserved inside the same one.
            placement_group_arn=self.placement.arn if self.placement else None,
            region=pool.region,
            tags=self.plan.tags(),
            opts=self.child(),
        )

    def _cards(self) -> Any:
        """Declare a launch template for the network cards alone: an instance can't describe EFA itself.

        Everything else stays with the instance, because a new template version replaces all instances.
        """
        subnet = self.network.subnet(self.zones[0])  # one: EFA does not leave its zone
        return aws.ec2.LaunchTemplate(
            f"{self.plan.pool.name}-cards",
            name=f"{self.plan.prefix}-cards",
            network_interfaces=efa_interfaces(self.plan.machine, subnet.id, [self.group.id]),
            region=self.plan.pool.region,
            tags=self.plan.tags(),
            opts=self.child(delete_before_replace=True),
        )

    def _node(self, number: int, node: str, template: Any) -> dict[str, Any]:
        instance = self._instance(number, node, template)
        public = instance.public_ip
        if template is not None:
            # The only way to a public address with several cards; without one the node can't fetch packages.
            address = aws.ec2.Eip(
                f"{self.plan.pool.name}-{number + 1}",
                domain="vpc",
                network_interface=instance.primary_network_interface_id,
                region=self.plan.pool.region,
                tags={**self.plan.tags(node), "Name": node},
                opts=self.child(),
            )
            public = address.public_ip
        return self.plan.fact(
            node,
            id=instance.id,
            zone=instance.availability_zone,
            private=instance.private_ip,
            public=public,
        )

    def _instance(self, number: int, node: str, template: Any) -> Any:
        plan, pool = self.plan, self.plan.pool
        return aws.ec2.Instance(
            f"{pool.name}-{number + 1}",
            ami=self.image.id,
            instance_type=pool.machine,
            key_name=self.network.key.key_name,
            user_data=cloud_init(plan.fleet, pool),
            root_block_device=self._root_disk(node),
            metadata_options=METADATA,
            instance_market_options=self._market(),
            capacity_reservation_specification=self.capacity(),
            placement_group=self.placement.name if self.placement else None,
            **self._attachment(number, template),
            region=pool.region,
            tags={**plan.tags(node), "Name": node},
            opts=self.child(
                # A newer image or another key is for new nodes: running ones are Ansible's to change.
                ignore_changes=["ami", "userData"],
                # A reserved slot must be free before its new instance can have it.
                delete_before_replace=pool.purchase.kind == "reserved" or None,
            ),
        )

    def _root_disk(self, node: str) -> dict[str, Any]:
        disk = {"volume_type": "gp3", "volume_size": self.plan.pool.disk.size_gib, "encrypted": True}
        return {**disk, "delete_on_termination": True, "tags": {**self.plan.tags(node), "Name": node}}

    def _market(self) -> dict[str, Any] | None:
        purchase = self.plan.pool.purchase
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

    def _attachment(self, number: int, template: Any) -> dict[str, Any]:
        if template is not None:
            return {"launch_template": {"id": template.id, "version": template.latest_version.apply(str)}}
        subnet = self.network.subnet(self.zones[number % len(self.zones)])
        # A public address is the cheapest way out to packages and images; the security group lets nobody in by it.
        return {
            "subnet_id": subnet.id,
            "vpc_security_group_ids": [self.group.id],
            "associate_public_ip_address": True,
        }
