"""Nodes that AWS keeps in number: an elastic pool, or a spot pool with on-demand machines to fall back on.

No AWS group turns to on-demand machines by itself when spot capacity is gone: a mixed instances policy and an
EC2 fleet keep a fixed split. So a fallback is a second group that sleeps at zero nodes, and an alarm on the
first one: for each node that has been missing for five minutes, the second group starts one on demand, and
ends them once the spot nodes are back. docs/cloud.md says what this does and does not do.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_aws as aws

from gpufleet.cloud.aws_fabric import efa_interfaces
from gpufleet.cloud.user_data import cloud_init

if TYPE_CHECKING:
    from gpufleet.cloud.aws_pool import AwsPool

MINUTES_MISSING = 5
MOST_STEPS = 20  # AWS takes no more step adjustments in one policy
STANDBY = "standby"
# A public address is the cheapest way out to packages and images; the security group lets nobody in by it.
ONE_CARD = {"associate_public_ip_address": "true", "delete_on_termination": "true"}


class AwsGroups:
    """The groups of one pool; ``nodes`` are the members that AWS reports at the time of the deployment."""

    def __init__(self, pool: AwsPool) -> None:
        """Declare the launch template, the group, and the fallback where one is wanted."""
        self.pool, self.plan = pool, pool.plan
        self.name = pool.plan.pool.name
        self._refuse_stop()
        self.template = self._template()
        count, spot = self.plan.pool.count, self.plan.pool.purchase.kind == "spot"
        main = self._group(self.name, (count.min, count.desired, count.max), self.plan.tags(), spot=spot)
        members = [self._members(main, self.plan.pool.purchase.label)]
        if self.plan.pool.purchase.fallback == "on_demand":
            members.append(self._members(self._fallback(main, count.desired, count.max), "on_demand"))
        self.nodes = pulumi.Output.all(*members).apply(
            lambda parts: [fact for part in parts for fact in part]
        )

    def _template(self) -> Any:
        from gpufleet.cloud.aws_pool import METADATA

        pool, plan = self.pool, self.plan
        disk = {
            "volume_type": "gp3",
            "volume_size": plan.pool.disk.size_gib,
            "encrypted": "true",
            "delete_on_termination": "true",
        }
        return aws.ec2.LaunchTemplate(
            self.name,
            name=plan.prefix,
            image_id=pool.image.id,
            instance_type=plan.pool.machine,
            key_name=pool.network.key.key_name,
            user_data=base64.b64encode(cloud_init(plan.fleet, plan.pool).encode()).decode(),
            block_device_mappings=[{"device_name": pool.image.root_device_name, "ebs": disk}],
            metadata_options=METADATA,
            network_interfaces=self._interfaces(),
            capacity_reservation_specification=pool.capacity(),
            region=plan.pool.region,
            tags=plan.tags(),
            opts=pool.child(delete_before_replace=True, ignore_changes=["imageId", "userData"]),
        )

    def _interfaces(self) -> list[dict[str, Any]]:
        """Describe the cards without a subnet: an Auto Scaling group chooses it."""
        plan, groups = self.plan, [self.pool.group.id]
        if plan.fabric != "efa":
            return [{"device_index": 0, "security_groups": groups, **ONE_CARD}]
        if plan.machine.fabric_interfaces > 1:
            problem = (
                f"{plan.machine.name} has several EFA cards, and a group gives such nodes no public address"
            )
            raise plan.wrong("fabric", problem, "give a fixed count, or say fabric: none")
        return [{**efa_interfaces(plan.machine, None, groups)[0], **ONE_CARD}]

    def _refuse_stop(self) -> None:
        if self.plan.pool.purchase.on_eviction == "stop":
            problem = "is stop, but an Auto Scaling group ends what AWS takes back and starts another"
            raise self.plan.wrong("purchase.on_eviction", problem, "say delete, or give a fixed count")

    def _group(self, name: str, sizes: tuple[int, int, int], tags: dict[str, str], *, spot: bool) -> Any:
        least, wanted, most = sizes
        plan, pool = self.plan, self.pool
        return aws.autoscaling.Group(
            name,
            name=f"{plan.prefix}-{STANDBY}" if name != self.name else plan.prefix,
            min_size=least,
            desired_capacity=wanted,
            max_size=most,
            vpc_zone_identifiers=[pool.network.subnet(zone).id for zone in pool.zones],
            placement_group=pool.placement.name if pool.placement else None,
            mixed_instances_policy=self._policy(spot=spot),
            # The alarm below and the AWS console need to see how many nodes there are.
            enabled_metrics=["GroupInServiceInstances", "GroupDesiredCapacity"],
            metrics_granularity="1Minute",
            # Missing spot capacity is no failure of the deployment: the group goes on trying.
            wait_for_capacity_timeout="0",
            tags=[
                {"key": key, "value": value, "propagate_at_launch": True}
                for key, value in {**tags, "Name": f"{plan.prefix}"}.items()
            ],
            region=plan.pool.region,
            opts=pool.child(
                delete_before_replace=True,
                # Whoever scales the group (an alarm, a scheduler, a person) owns the number between the bounds.
                ignore_changes=["desiredCapacity"] if least != most else None,
            ),
        )

    def _policy(self, *, spot: bool) -> dict[str, Any]:
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

    def _fallback(self, main: Any, wanted: int, most: int) -> Any:
        """Declare the sleeping group, and the alarm that wakes it."""
        tags = {**self.plan.tags(fallback=STANDBY), "gpufleet-purchase": "on_demand"}
        standby = self._group(f"{self.name}-{STANDBY}", (0, 0, most), tags, spot=False)
        region = self.plan.pool.region
        start = aws.autoscaling.Policy(
            f"{self.name}-start",
            name=f"{self.plan.prefix}-start",
            autoscaling_group_name=standby.name,
            policy_type="StepScaling",
            adjustment_type="ExactCapacity",
            step_adjustments=steps(wanted),
            region=region,
            opts=self.pool.child(),
        )
        end = aws.autoscaling.Policy(
            f"{self.name}-end",
            name=f"{self.plan.prefix}-end",
            autoscaling_group_name=standby.name,
            policy_type="SimpleScaling",
            adjustment_type="ExactCapacity",
            scaling_adjustment=0,
            region=region,
            opts=self.pool.child(),
        )
        aws.cloudwatch.MetricAlarm(
            f"{self.name}-missing",
            name=f"{self.plan.prefix}-missing",
            alarm_description=f"Spot nodes of pool {self.name} are missing",
            namespace="AWS/AutoScaling",
            metric_name="GroupInServiceInstances",
            dimensions={"AutoScalingGroupName": main.name},
            statistic="Minimum",
            period=60,
            evaluation_periods=MINUTES_MISSING,
            comparison_operator="LessThanThreshold",
            threshold=wanted,
            alarm_actions=[start.arn],
            ok_actions=[end.arn],
            region=region,
            tags=self.plan.tags(),
            opts=self.pool.child(),
        )
        return standby

    def _members(self, group: Any, purchase: str) -> Any:
        found = aws.ec2.get_instances_output(
            filters=[{"name": "tag:aws:autoscaling:groupName", "values": [group.name]}],
            instance_state_names=["pending", "running"],
            region=self.plan.pool.region,
            opts=pulumi.InvokeOutputOptions(parent=self.pool, depends_on=[group]),
        )
        return found.apply(lambda answer: self._facts(answer, purchase))

    def _facts(self, found: Any, purchase: str) -> list[dict[str, Any]]:
        identities = found.ids or []
        # Public addresses come as a list of their own, without those of machines that have none (yet).
        public = (
            found.public_ips if len(found.public_ips or []) == len(identities) else [None] * len(identities)
        )
        return [
            self.plan.fact(
                _member_name(self.plan.prefix, each), id=each, private=inner, public=outer, purchase=purchase
            )
            for each, inner, outer in zip(identities, found.private_ips or [], public, strict=False)
        ]


def _member_name(prefix: str, identity: str) -> str:
    return f"{prefix}-{identity.removeprefix('i-')[:8]}"


def steps(wanted: int) -> list[dict[str, Any]]:
    """Return one step per number of missing nodes: 1 missing starts 1, 2 missing start 2.

    Bounds are relative to the alarm's threshold, which is the wanted number; metric values are whole, so a
    step from -1.5 to -0.5 is "one missing". Past AWS's limit of steps the last one stands for all the rest.
    """
    last = min(wanted, MOST_STEPS)
    found = []
    for missing in range(1, last + 1):
        step: dict[str, Any] = {"scaling_adjustment": wanted if missing == last else missing}
        if missing > 1:
            step["metric_interval_upper_bound"] = str(0.5 - missing)
        else:
            step["metric_interval_upper_bound"] = "0"
        if missing < last:
            step["metric_interval_lower_bound"] = str(-0.5 - missing)
        found.append(step)
    return found
