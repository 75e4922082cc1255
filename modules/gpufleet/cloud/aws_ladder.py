"""Later rungs of a ladder on AWS: an alarm on the groups before a standby group, and what it does.

No AWS group turns to another kind of purchase by itself when the first has no capacity: a mixed instances policy
and an EC2 fleet keep a fixed split. So each later rung is a group that sleeps at zero nodes. For each node that
the groups before it have been missing for five minutes, it starts one; when they are complete again, it
terminates its own. docs/cloud.md describes what this does and does not do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi_aws as aws

from gpufleet.cloud.aws_parts import AwsPoolParts

ALARM_MINUTES = 5
MAX_STEPS = 20  # AWS takes no more step adjustments in one policy
METRIC = {"namespace": "AWS/AutoScaling", "metric_name": "GroupInServiceInstances"}


def declare_standby_alarm(parts: AwsPoolParts, suffix: str, *, earlier: Sequence[Any], standby: Any) -> None:
    """Declare the alarm that watches the groups before ``standby``, and the two policies that it calls."""
    plan = parts.plan
    name, prefix = f"{plan.pool.name}{suffix}", f"{plan.node_name_prefix}{suffix}"
    desired, region = plan.pool.count.desired, plan.pool.region
    start = aws.autoscaling.Policy(
        f"{name}-start",
        name=f"{prefix}-start",
        autoscaling_group_name=standby.name,
        policy_type="StepScaling",
        adjustment_type="ExactCapacity",
        step_adjustments=build_scaling_steps(desired),
        region=region,
        opts=parts.child_options(),
    )
    stop = aws.autoscaling.Policy(
        f"{name}-end",
        name=f"{prefix}-end",
        autoscaling_group_name=standby.name,
        policy_type="SimpleScaling",
        adjustment_type="ExactCapacity",
        scaling_adjustment=0,
        region=region,
        opts=parts.child_options(),
    )
    aws.cloudwatch.MetricAlarm(
        f"{name}-missing",
        name=f"{prefix}-missing",
        alarm_description=f"Nodes of pool {plan.pool.name} are missing in the groups before {prefix}",
        **_build_metric(earlier),
        # A rung waits until the one before it has had time to start nodes.
        evaluation_periods=ALARM_MINUTES * len(earlier),
        comparison_operator="LessThanThreshold",
        threshold=desired,
        alarm_actions=[start.arn],
        ok_actions=[stop.arn],
        region=region,
        tags=plan.build_tags(),
        opts=parts.child_options(),
    )


def _build_metric(groups: Sequence[Any]) -> dict[str, Any]:
    """Return the number of nodes in service in the groups together."""
    if len(groups) == 1:
        dimensions = {"AutoScalingGroupName": groups[0].name}
        return {**METRIC, "dimensions": dimensions, "statistic": "Minimum", "period": 60}
    queries = [
        {
            "id": f"rung{number}",
            "metric": {
                **METRIC,
                "dimensions": {"AutoScalingGroupName": group.name},
                "stat": "Minimum",
                "period": 60,
            },
        }
        for number, group in enumerate(groups)
    ]
    total = " + ".join(f"FILL({query['id']}, 0)" for query in queries)
    in_service = {"id": "nodes", "expression": total, "label": "nodes in service", "return_data": True}
    return {"metric_queries": [*queries, in_service]}


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
