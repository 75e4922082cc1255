"""Nodes of an AWS pool in Auto Scaling groups: spot, elastic counts, ``group: true``, and ladders.

A ladder has one group per rung. The first one has the pool's count; each later one sleeps at zero nodes until an
alarm sees that nodes of the groups before it are missing (``aws_ladder``). A reservation followed by on demand
is one group, because AWS tries the two in that order by itself.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi_aws as aws

from gpufleet.cloud.aws_block_end import declare_scale_in, find_block_end
from gpufleet.cloud.aws_capacity import (
    CAPACITY_BLOCK,
    AwsCapacity,
    describe_capacity,
    get_or_declare_capacity,
)
from gpufleet.cloud.aws_fabric import build_template_interfaces
from gpufleet.cloud.aws_ladder import declare_standby_alarm
from gpufleet.cloud.aws_parts import METADATA_OPTIONS, AwsPoolParts
from gpufleet.cloud.user_data import build_cloud_init_with_keys
from gpufleet.fleet import Rung

GROUP_KIND = "autoscaling_group"
STANDBY = "standby"
DEFAULT_ALLOCATION = "price-capacity-optimized"
BILLED_ON_DEMAND = ("on_demand", "committed")


@dataclass(frozen=True)
class GroupStage:
    """One group of a pool: the rung that it buys, and whether it goes on to on-demand capacity by itself."""

    rung: Rung
    falls_to_on_demand: bool = False


def build_stages(rungs: Sequence[Rung]) -> tuple[GroupStage, ...]:
    """Return one stage per rung; an on-demand rung right after a reservation is part of the reservation's."""
    stages: list[GroupStage] = []
    for rung in rungs:
        previous = stages[-1] if stages else None
        if previous and previous.rung.kind == "reserved" and rung.kind in BILLED_ON_DEMAND:
            stages[-1] = GroupStage(previous.rung, falls_to_on_demand=True)
        else:
            stages.append(GroupStage(rung))
    return tuple(stages)


class AwsAutoScalingGroups:
    """The groups of one pool; ``facts`` say where their members can be asked for."""

    def __init__(self, parts: AwsPoolParts) -> None:
        """Declare a group per stage, and the alarms that start the later ones."""
        self.parts, self.plan = parts, parts.plan
        count = parts.plan.pool.count
        self.facts: list[dict[str, Any]] = []
        groups: list[Any] = []
        for number, stage in enumerate(build_stages(parts.plan.rungs)):
            bounds = (0, 0, count.max) if number else (count.min, count.desired, count.max)
            suffix = f"-{STANDBY}{number if number > 1 else ''}" if number else ""
            capacity = get_or_declare_capacity(parts, stage.rung)
            group = self._declare_group(stage, suffix, bounds, capacity.reservation)
            if stage.rung.kind == "capacity_block":
                self._declare_block_end(stage.rung, suffix, group, capacity)
            if number and count.desired:  # of no nodes none can be missing
                declare_standby_alarm(parts, suffix, earlier=groups, standby=group)
            groups.append(group)
            self.facts.append(
                parts.plan.build_group_facts(
                    GROUP_KIND, id=group.arn, name=group.name, purchase=stage.rung.tag_value
                )
            )

    def _declare_block_end(self, rung: Rung, suffix: str, group: Any, capacity: AwsCapacity) -> None:
        end = find_block_end(self.parts, rung.reservation) if rung.reservation else capacity.end
        if end is not None:
            declare_scale_in(self.parts, suffix, group, end)

    def _declare_group(
        self, stage: GroupStage, suffix: str, bounds: tuple[int, int, int], reservation: Any
    ) -> Any:
        minimum, desired, maximum = bounds
        plan, parts = self.plan, self.parts
        name = f"{plan.pool.name}{suffix}"
        is_in_one_zone = plan.fabric is not None or stage.rung.kind in ("reserved", "capacity_block")
        zones = parts.zones[:1] if is_in_one_zone else parts.zones
        subnets = [parts.get_subnet(zone) for zone in zones]
        template = self._declare_template(stage, suffix, reservation)
        return aws.autoscaling.Group(
            name,
            name=f"{plan.node_name_prefix}{suffix}",
            min_size=minimum,
            desired_capacity=desired,
            max_size=maximum,
            vpc_zone_identifiers=[subnet.id for subnet in subnets],
            placement_group=parts.placement_group.name if parts.placement_group else None,
            **self._capacity_arguments(stage, template, reservation),
            # Moving nodes between zones would end running work for the sake of symmetry.
            suspended_processes=["AZRebalance"],
            # Alarms and the AWS console need to see how many nodes there are.
            enabled_metrics=["GroupInServiceInstances", "GroupDesiredCapacity"],
            metrics_granularity="1Minute",
            # Missing capacity does not fail the deployment: the group keeps trying.
            wait_for_capacity_timeout="0",
            tags=[
                {"key": key, "value": value, "propagate_at_launch": True}
                for key, value in self._build_tags(stage, is_standby=bool(suffix)).items()
            ],
            region=plan.pool.region,
            opts=parts.child_options(
                depends_on=[subnet.route for subnet in subnets],
                delete_before_replace=True,
                # A group would keep its running nodes as they were bought.
                replacement_trigger=describe_capacity(
                    stage.rung, plan.pool.machine, *(zones if is_in_one_zone else ())
                ),
                # What scales the group (an alarm, a scheduler, a person) decides the number between the bounds.
                ignore_changes=["desiredCapacity"] if minimum != maximum else None,
            ),
        )

    def _build_tags(self, stage: GroupStage, *, is_standby: bool) -> dict[str, str]:
        tags = self.plan.build_tags(fallback=STANDBY) if is_standby else self.plan.build_tags()
        return {**tags, "gpufleet-purchase": stage.rung.tag_value, "Name": self.plan.node_name_prefix}

    def _declare_template(self, stage: GroupStage, suffix: str, reservation: Any) -> Any:
        plan, parts = self.plan, self.parts
        target = None
        if reservation is not None and not stage.falls_to_on_demand:
            target = {"capacity_reservation_target": {"capacity_reservation_id": reservation}}
        market = {"market_type": CAPACITY_BLOCK} if stage.rung.kind == "capacity_block" else None
        profile = {"name": parts.network.get_or_declare_node_profile().name} if parts.is_private else None
        return aws.ec2.LaunchTemplate(
            f"{plan.pool.name}{suffix}",
            name=f"{plan.node_name_prefix}{suffix}",
            image_id=parts.image.id,
            instance_type=plan.pool.machine,
            user_data=base64.b64encode(build_cloud_init_with_keys(plan.fleet, plan.pool).encode()).decode(),
            block_device_mappings=self._build_disks(),
            metadata_options=METADATA_OPTIONS,
            network_interfaces=build_template_interfaces(
                plan, parts.security_group.id, is_private=parts.is_private
            ),
            iam_instance_profile=profile,
            instance_market_options=market,
            capacity_reservation_specification=target,
            tag_specifications=parts.build_tag_specifications("instance", "volume", "network-interface"),
            region=plan.pool.region,
            tags=plan.build_tags(),
            opts=parts.child_options(ignore_changes=["imageId", "userData"]),
        )

    def _build_disks(self) -> list[dict[str, Any]]:
        ebs = {"volume_type": "gp3", "encrypted": "true", "delete_on_termination": "true"}
        disks = [(self.parts.image.root_device_name, self.plan.pool.disk.size_gib)]
        disks += [(device, size_gib) for _, device, size_gib in self.parts.list_data_volumes()]
        return [
            {"device_name": device, "ebs": {**ebs, "volume_size": size_gib}} for device, size_gib in disks
        ]

    def _capacity_arguments(self, stage: GroupStage, template: Any, reservation: Any) -> dict[str, Any]:
        version = template.latest_version.apply(str)
        if stage.rung.kind == "spot":
            return {"mixed_instances_policy": self._mixed_instances_policy(stage.rung, template.id, version)}
        arguments: dict[str, Any] = {"launch_template": {"id": template.id, "version": version}}
        if reservation is not None and stage.falls_to_on_demand:
            arguments["capacity_reservation_specification"] = {
                "capacity_reservation_preference": "capacity-reservations-first",
                "capacity_reservation_target": {"capacity_reservation_ids": [reservation]},
            }
        return arguments

    def _mixed_instances_policy(self, rung: Rung, template_id: Any, version: Any) -> dict[str, Any]:
        distribution: dict[str, Any] = {
            "on_demand_base_capacity": 0,
            "on_demand_percentage_above_base_capacity": 0,
            "spot_allocation_strategy": rung.allocation or DEFAULT_ALLOCATION,
        }
        if rung.max_usd_per_hour is not None:
            distribution["spot_max_price"] = str(rung.max_usd_per_hour)
        machines = (self.plan.pool.machine, *rung.machines)
        specification = {"launch_template_id": template_id, "version": version}
        return {
            "instances_distribution": distribution,
            "launch_template": {
                "launch_template_specification": specification,
                "overrides": [{"instance_type": machine} for machine in dict.fromkeys(machines)],
            },
        }
