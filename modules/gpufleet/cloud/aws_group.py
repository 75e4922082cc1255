"""Auto Scaling groups of a pool: an elastic pool, or a spot pool with an on-demand fallback.

No AWS group turns to on-demand machines by itself when spot capacity is gone: a mixed instances policy and an
EC2 fleet keep a fixed split. So a fallback is a second group that sleeps at zero nodes, and an alarm on the
first one: for each node that has been missing for five minutes, the second group starts one on demand, and
terminates them once the spot nodes are back. docs/cloud.md describes what this does and does not do.
"""

from __future__ import annotations

import base64
from typing import Any

import pulumi_aws as aws

from gpufleet.cloud.aws_fabric import build_efa_interfaces
from gpufleet.cloud.aws_parts import METADATA_OPTIONS, AwsPoolParts
from gpufleet.cloud.user_data import build_cloud_init_with_keys

ALARM_MINUTES = 5
MAX_STEPS = 20  # AWS takes no more step adjustments in one policy
STANDBY = "standby"
# A public address is the cheapest way out to packages and images; the security group still blocks all other access.
PUBLIC_ADDRESS = {"associate_public_ip_address": "true", "delete_on_termination": "true"}


class AwsAutoScalingGroups:
    """The groups of one pool; ``facts`` say where their members can be asked for."""

    def __init__(self, parts: AwsPoolParts) -> None:
        """Declare the launch template, the group, and the fallback if the pool has one."""
        self.parts, self.plan = parts, parts.plan
        self.name = parts.plan.pool.name
        self._check_eviction()
        self.template = self._declare_template()
        count, spot = self.plan.pool.count, self.plan.pool.purchase.kind == "spot"
        main = self._declare_group(
            self.name, (count.min, count.desired, count.max), self.plan.build_tags(), spot=spot
        )
        self.facts = [self._group_facts(main, self.plan.pool.purchase.tag_value)]
        if self.plan.pool.purchase.fallback == "on_demand":
            standby = self._declare_fallback(main, count.desired, count.max)
            self.facts.append(self._group_facts(standby, "on_demand"))

    def _group_facts(self, group: Any, purchase: str) -> dict[str, Any]:
        return self.plan.build_group_facts(
            "autoscaling_group", id=group.arn, name=group.name, purchase=purchase
        )

    def _declare_template(self) -> Any:
        plan = self.plan
        disk = {
            "volume_type": "gp3",
            "volume_size": plan.pool.disk.size_gib,
            "encrypted": "true",
            "delete_on_termination": "true",
        }
        return aws.ec2.LaunchTemplate(
            self.name,
            name=plan.node_name_prefix,
            image_id=self.parts.image.id,
            instance_type=plan.pool.machine,
            key_name=self.parts.network.key.key_name,
            user_data=base64.b64encode(build_cloud_init_with_keys(plan.fleet, plan.pool).encode()).decode(),
            block_device_mappings=[{"device_name": self.parts.image.root_device_name, "ebs": disk}],
            metadata_options=METADATA_OPTIONS,
            network_interfaces=self._interfaces(),
            capacity_reservation_specification=self.parts.reservation_target(),
            region=plan.pool.region,
            tags=plan.build_tags(),
            opts=self.parts.child_options(delete_before_replace=True, ignore_changes=["imageId", "userData"]),
        )

    def _interfaces(self) -> list[dict[str, Any]]:
        """Describe the cards without a subnet: an Auto Scaling group chooses it."""
        plan, groups = self.plan, [self.parts.security_group.id]
        if plan.fabric != "efa":
            return [{"device_index": 0, "security_groups": groups, **PUBLIC_ADDRESS}]
        if plan.machine.fabric_interfaces > 1:
            problem = (
                f"{plan.machine.name} has several EFA cards, and a group gives such nodes no public address"
            )
            raise plan.build_input_error("fabric", problem, "give a fixed count, or set fabric: none")
        return [{**build_efa_interfaces(plan.machine, None, groups)[0], **PUBLIC_ADDRESS}]

    def _check_eviction(self) -> None:
        if self.plan.pool.purchase.on_eviction == "stop":
            problem = (
                "on_eviction is stop, but an Auto Scaling group terminates and replaces interrupted instances"
            )
            raise self.plan.build_input_error(
                "purchase.on_eviction", problem, "set delete, or give a fixed count"
            )

    def _declare_group(
        self, name: str, bounds: tuple[int, int, int], tags: dict[str, str], *, spot: bool
    ) -> Any:
        minimum, desired, maximum = bounds
        plan, parts = self.plan, self.parts
        return aws.autoscaling.Group(
            name,
            name=f"{plan.node_name_prefix}-{STANDBY}" if name != self.name else plan.node_name_prefix,
            min_size=minimum,
            desired_capacity=desired,
            max_size=maximum,
            vpc_zone_identifiers=[parts.network.get_or_declare_subnet(zone).id for zone in parts.zones],
            placement_group=parts.placement_group.name if parts.placement_group else None,
            mixed_instances_policy=self._mixed_instances_policy(spot=spot),
            # The alarm below and the AWS console need to see how many nodes there are.
            enabled_metrics=["GroupInServiceInstances", "GroupDesiredCapacity"],
            metrics_granularity="1Minute",
            # Missing spot capacity does not fail the deployment: the group keeps trying.
            wait_for_capacity_timeout="0",
            tags=[
                {"key": key, "value": value, "propagate_at_launch": True}
                for key, value in {**tags, "Name": f"{plan.node_name_prefix}"}.items()
            ],
            region=plan.pool.region,
            opts=parts.child_options(
                delete_before_replace=True,
                # What scales the group (an alarm, a scheduler, a person) decides the number between the bounds.
                ignore_changes=["desiredCapacity"] if minimum != maximum else None,
            ),
        )

    def _mixed_instances_policy(self, *, spot: bool) -> dict[str, Any]:
        distribution: dict[str, Any] = {
            "on_demand_base_capacity": 0,
            "on_demand_percentage_above_base_capacity": 0 if spot else 100,
        }
        if spot:
            distribution["spot_allocation_strategy"] = "price-capacity-optimized"
            if self.plan.pool.purchase.max_usd_per_hour is not None:
                distribution["spot_max_price"] = str(self.plan.pool.purchase.max_usd_per_hour)
        return {
            "instances_distribution": distribution,
            "launch_template": {
                "launch_template_specification": {
                    "launch_template_id": self.template.id,
                    "version": self.template.latest_version.apply(str),
                },
                "overrides": [{"instance_type": self.plan.pool.machine}],
            },
        }

    def _declare_fallback(self, main: Any, desired: int, maximum: int) -> Any:
        """Declare the standby group, and the alarm that scales it up."""
        tags = {**self.plan.build_tags(fallback=STANDBY), "gpufleet-purchase": "on_demand"}
        standby = self._declare_group(f"{self.name}-{STANDBY}", (0, 0, maximum), tags, spot=False)
        region = self.plan.pool.region
        start = aws.autoscaling.Policy(
            f"{self.name}-start",
            name=f"{self.plan.node_name_prefix}-start",
            autoscaling_group_name=standby.name,
            policy_type="StepScaling",
            adjustment_type="ExactCapacity",
            step_adjustments=build_scaling_steps(desired),
            region=region,
            opts=self.parts.child_options(),
        )
        stop = aws.autoscaling.Policy(
            f"{self.name}-end",
            name=f"{self.plan.node_name_prefix}-end",
            autoscaling_group_name=standby.name,
            policy_type="SimpleScaling",
            adjustment_type="ExactCapacity",
            scaling_adjustment=0,
            region=region,
            opts=self.parts.child_options(),
        )
        aws.cloudwatch.MetricAlarm(
            f"{self.name}-missing",
            name=f"{self.plan.node_name_prefix}-missing",
            alarm_description=f"Spot nodes of pool {self.name} are missing",
            namespace="AWS/AutoScaling",
            metric_name="GroupInServiceInstances",
            dimensions={"AutoScalingGroupName": main.name},
            statistic="Minimum",
            period=60,
            evaluation_periods=ALARM_MINUTES,
            comparison_operator="LessThanThreshold",
            threshold=desired,
            alarm_actions=[start.arn],
            ok_actions=[stop.arn],
            region=region,
            tags=self.plan.build_tags(),
            opts=self.parts.child_options(),
        )
        return standby


def build_scaling_steps(desired_count: int) -> list[dict[str, Any]]:
    """Return one step per number of missing nodes: 1 missing starts 1, 2 missing start 2.

    Bounds are relative to the alarm's threshold, which is the desired number. Metric values are integers, so a
    step from -1.5 to -0.5 is "one missing". Past AWS's limit of steps the last one covers all the rest.
    """
    last = min(desired_count, MAX_STEPS)
    steps = []
    for missing in range(1, last + 1):
        step: dict[str, Any] = {"scaling_adjustment": desired_count if missing == last else missing}
        if missing > 1:
            step["metric_interval_upper_bound"] = str(0.5 - missing)
        else:
            step["metric_interval_upper_bound"] = "0"
        if missing < last:
            step["metric_interval_lower_bound"] = str(-0.5 - missing)
        steps.append(step)
    return steps
