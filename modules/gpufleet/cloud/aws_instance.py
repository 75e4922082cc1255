"""AWS nodes as resources one by one: a fixed count that is not spot."""

from __future__ import annotations

from typing import Any

import pulumi_aws as aws

from gpufleet.cloud.aws_capacity import CAPACITY_BLOCK, describe_capacity, get_or_declare_capacity
from gpufleet.cloud.aws_fabric import build_template_interfaces
from gpufleet.cloud.aws_parts import METADATA_OPTIONS, AwsPoolParts
from gpufleet.cloud.user_data import build_cloud_init_with_keys

GP3 = "gp3"


class AwsInstances:
    """The nodes of one pool; ``nodes`` are their facts."""

    def __init__(self, parts: AwsPoolParts) -> None:
        """Declare the reservation if the purchase has one, the template, and one instance per node."""
        self.parts, self.plan = parts, parts.plan
        self.purchase = parts.plan.pool.purchase
        names = parts.plan.node_names
        self.reservation = get_or_declare_capacity(parts, self.purchase.rungs[0]).reservation
        self.template: Any = self._declare_template() if names else None
        self.nodes = [self._declare_node(index, name) for index, name in enumerate(names)]

    def _declare_template(self) -> Any:
        """Declare a template for what an instance cannot describe itself: EFA, and tags of its interfaces.

        Everything else stays with the instance, so that a change of it is seen in the preview.
        """
        parts, plan = self.parts, self.plan
        interfaces = None
        if plan.fabric_plan is not None:
            interfaces = build_template_interfaces(
                plan,
                parts.security_group.id,
                is_private=parts.is_private,
                subnet_id=parts.get_subnet(parts.zones[0]).id,
            )
        return aws.ec2.LaunchTemplate(
            f"{plan.pool.name}-nodes",
            name=f"{plan.node_name_prefix}-nodes",
            network_interfaces=interfaces,
            tag_specifications=parts.build_tag_specifications("network-interface"),
            region=plan.pool.region,
            tags=plan.build_tags(),
            opts=parts.child_options(),
        )

    def _declare_node(self, index: int, node: str) -> dict[str, Any]:
        parts, zone = self.parts, self.parts.zone_of_node(index)
        instance = self._declare_instance(index, node, zone)
        for volume, device, size_gib in parts.list_data_volumes():
            self._declare_volume(index, node, instance, (volume, device, size_gib))
        return self.plan.build_node_facts(
            node,
            id=instance.id,
            zone=zone,
            private=instance.private_ip,
            public=None if parts.is_private else instance.public_ip,
            **({"access": "ssm"} if parts.is_private else {}),
        )

    def _declare_instance(self, index: int, node: str, zone: str) -> Any:
        plan, pool, parts = self.plan, self.plan.pool, self.parts
        subnet = parts.get_subnet(zone)
        return aws.ec2.Instance(
            f"{pool.name}-{index + 1}",
            ami=parts.image.id,
            instance_type=pool.machine,
            user_data=build_cloud_init_with_keys(plan.fleet, pool),
            root_block_device=self._root_disk(node),
            metadata_options=METADATA_OPTIONS,
            **self._purchase_arguments(),
            placement_group=parts.placement_group.name if parts.placement_group else None,
            launch_template={"id": self.template.id, "version": self.template.latest_version.apply(str)},
            iam_instance_profile=parts.network.get_or_declare_node_profile().name
            if parts.is_private
            else None,
            **self._network_arguments(subnet),
            region=pool.region,
            tags={**plan.build_tags(node), "Name": node},
            opts=parts.child_options(
                # Removed first, a gateway with addresses behind it cannot be detached.
                depends_on=[subnet.route],
                # A newer image, another key or another template version is for new nodes; Ansible changes
                # running ones.
                ignore_changes=["ami", "userData", "launchTemplate.version"],
                # The zone: a fabric's subnet is in the template, whose changes running nodes ignore. The machine
                # can be resized in place, unless its capacity is reserved.
                replacement_trigger=describe_capacity(
                    self.purchase.rungs[0], zone, pool.machine if self.reservation is not None else ""
                ),
                # A reserved slot must be free before its new instance can have it.
                delete_before_replace=self.reservation is not None or None,
            ),
        )

    def _purchase_arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        if self.purchase.kind == "capacity_block":
            arguments["instance_market_options"] = {"market_type": CAPACITY_BLOCK}
        if self.reservation is not None:
            target = {"capacity_reservation_id": self.reservation}
            arguments["capacity_reservation_specification"] = {"capacity_reservation_target": target}
        return arguments

    def _network_arguments(self, subnet: Any) -> dict[str, Any]:
        if self.plan.fabric_plan is not None:
            return {}  # the template has the interfaces
        return {
            "subnet_id": subnet.id,
            "vpc_security_group_ids": [self.parts.security_group.id],
            # The cheapest way out to packages and images; the security group still blocks all other access.
            "associate_public_ip_address": not self.parts.is_private,
        }

    def _root_disk(self, node: str) -> dict[str, Any]:
        disk = {"volume_type": GP3, "volume_size": self.plan.pool.disk.size_gib, "encrypted": True}
        return {**disk, "delete_on_termination": True, "tags": {**self.plan.build_tags(node), "Name": node}}

    def _declare_volume(self, index: int, node: str, instance: Any, volume: tuple[str, str, int]) -> None:
        """Declare a volume of its own: it grows in place and outlives the instance, which a nested one does not."""
        volume_name, device, size_gib = volume
        name = f"{self.plan.pool.name}-{index + 1}-{volume_name}"
        disk = aws.ebs.Volume(
            name,
            # Not the instance's output: unknown during a replacement, it would replace the data as well.
            availability_zone=self.parts.zone_of_node(index),
            size=size_gib,
            type=GP3,
            encrypted=True,
            region=self.plan.pool.region,
            tags={**self.plan.build_tags(node), "Name": f"{node}-{volume_name}"},
            opts=self.parts.child_options(),
        )
        aws.ec2.VolumeAttachment(
            name,
            device_name=device,
            instance_id=instance.id,
            volume_id=disk.id,
            # A mounted volume would never detach.
            stop_instance_before_detaching=True,
            region=self.plan.pool.region,
            # A volume cannot be attached to the new instance before it is detached from the old one.
            opts=self.parts.child_options(delete_before_replace=True),
        )
