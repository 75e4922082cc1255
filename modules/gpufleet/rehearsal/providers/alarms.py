"""Alarms of the simulated AWS: an alarm on the machines in service of groups runs its scaling policies at once.

A real alarm waits for its evaluation periods; a rehearsal does not.
"""

from __future__ import annotations

from typing import Any

from gpufleet.rehearsal.providers.groups import AWS_GROUP, SIZE, reconcile_groups
from gpufleet.rehearsal.providers.property_values import PlainValues, unwrap_secrets
from gpufleet.rehearsal.providers.schema import CloudSchema
from gpufleet.rehearsal.providers.store import ResourceRow, ResourceStore

ALARM = "aws:cloudwatch/metricAlarm:MetricAlarm"
POLICY = "aws:autoscaling/policy:Policy"
_METRIC = "GroupInServiceInstances"
_COMPARISONS = {
    "LessThanThreshold": lambda value, threshold: value < threshold,
    "LessThanOrEqualToThreshold": lambda value, threshold: value <= threshold,
    "GreaterThanThreshold": lambda value, threshold: value > threshold,
    "GreaterThanOrEqualToThreshold": lambda value, threshold: value >= threshold,
}


def run_alarms(schema: CloudSchema, store: ResourceStore) -> None:
    """Evaluate every alarm on groups, those on few groups first, and run what it calls for."""
    alarms = [
        (list_watched_groups(unwrap_secrets(row.inputs)), row) for row in store.find_resources_by_type(ALARM)
    ]
    policies = {str(row.outputs.get("arn")): row for row in store.find_resources_by_type(POLICY)}
    for groups, row in sorted(alarms, key=lambda pair: (len(pair[0]), pair[1].id)):
        if not groups:
            continue
        inputs = unwrap_secrets(row.inputs)
        value, threshold = (
            sum(len(store.find_members(name)) for name in groups),
            float(inputs.get("threshold") or 0),
        )
        is_alarm = _COMPARISONS[inputs["comparisonOperator"]](value, threshold)
        for arn in inputs.get("alarmActions" if is_alarm else "okActions") or []:
            if policy := policies.get(str(arn)):
                _run_policy(store, policy, value - threshold)
        reconcile_groups(schema, store)


def list_watched_groups(alarm: PlainValues) -> list[str]:
    """Return the groups whose machines in service an alarm adds up."""
    metrics = [alarm, *(item.get("metric") or {} for item in alarm.get("metricQueries") or [])]
    return [
        str(metric["dimensions"]["AutoScalingGroupName"])
        for metric in metrics
        if metric.get("metricName") == _METRIC and "AutoScalingGroupName" in (metric.get("dimensions") or {})
    ]


def _run_policy(store: ResourceStore, policy: ResourceRow, distance: float) -> None:
    """Set the size of the policy's group; ``distance`` is the metric's value above the threshold."""
    inputs = unwrap_secrets(policy.inputs)
    group = store.get_resource(AWS_GROUP, str(inputs.get("autoscalingGroupName")))
    adjustment = _choose_adjustment(inputs, distance)
    if group is None or adjustment is None:
        return
    current = store.get_counter(group.id, SIZE)
    base = int(group.outputs.get("desiredCapacity") or 0) if current is None else current
    size = adjustment if inputs.get("adjustmentType") == "ExactCapacity" else base + adjustment
    least, most = int(group.inputs.get("minSize") or 0), int(group.inputs.get("maxSize") or 0)
    store.set_counter(group.id, SIZE, min(max(size, least), most))


def _choose_adjustment(policy: PlainValues, distance: float) -> int | None:
    if policy.get("policyType", "SimpleScaling") == "SimpleScaling":
        return int(policy.get("scalingAdjustment") or 0)
    for step in policy.get("stepAdjustments") or []:
        lower, upper = _bound(step, "Lower", "-inf"), _bound(step, "Upper", "inf")
        # Below a threshold AWS includes the upper bound, above it the lower one.
        if lower < distance <= upper if distance < 0 else lower <= distance < upper:
            return int(step.get("scalingAdjustment") or 0)
    return None


def _bound(step: dict[str, Any], side: str, default: str) -> float:
    value = step.get(f"metricInterval{side}Bound")
    return float(default if value in (None, "") else value)
