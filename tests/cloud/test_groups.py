"""Test elastic pools (the cloud's own groups) and the AWS fallback (a second group and an alarm)."""

from __future__ import annotations

import pytest

from gpufleet.cloud.aws_group import MAX_STEPS, build_scaling_steps

ELASTIC = {"min": 1, "desired": 2, "max": 4}
FALLBACK = {"cloud": "aws", "machine": "g5.2xlarge", "purchase": {"kind": "spot", "fallback": "on_demand"}}


@pytest.mark.parametrize(("purchase", "percent"), [("spot", 0), ("on_demand", 100)])
def test_aws_group_has_its_bounds_and_purchase(evaluate, purchase, percent):
    group = evaluate({"cloud": "aws", "count": ELASTIC, "purchase": {"kind": purchase}}).find_resource(
        "Group"
    )
    assert (group["minSize"], group["desiredCapacity"], group["maxSize"]) == (1, 2, 4)
    policy = group["mixedInstancesPolicy"]
    assert policy["instancesDistribution"]["onDemandPercentageAboveBaseCapacity"] == percent
    assert policy["launchTemplate"]["overrides"] == [{"instanceType": "p4d.24xlarge"}]


def test_aws_group_propagates_tags_to_its_machines(evaluate):
    tags = evaluate({"cloud": "aws", "count": ELASTIC, "hours_per_month": 60}).find_resource("Group")["tags"]
    assert all(tag["propagateAtLaunch"] for tag in tags)
    values = {tag["key"]: tag["value"] for tag in tags}
    assert values["gpufleet-pool"] == "train"
    assert values["gpufleet-hours-per-month"] == "60"


def test_aws_fallback_is_an_on_demand_group_of_size_zero(evaluate):
    spot, standby = evaluate(FALLBACK).list_resources("Group")
    assert (standby["minSize"], standby["desiredCapacity"], standby["maxSize"]) == (0, 0, 1)
    distribution = standby["mixedInstancesPolicy"]["instancesDistribution"]
    assert distribution == {"onDemandBaseCapacity": 0, "onDemandPercentageAboveBaseCapacity": 100}
    group_tags = [{tag["key"]: tag["value"] for tag in group["tags"]} for group in (spot, standby)]
    assert [tags["gpufleet-purchase"] for tags in group_tags] == ["spot", "on_demand"]
    assert [tags["gpufleet-fallback"] for tags in group_tags] == ["on_demand", "standby"]


def test_alarm_watches_the_spot_group_and_scales_the_standby_group(evaluate):
    evaluated = evaluate(FALLBACK)
    alarm = evaluated.find_resource("MetricAlarm")
    assert alarm["dimensions"] == {"AutoScalingGroupName": "test-train"}
    assert (alarm["metricName"], alarm["comparisonOperator"], alarm["threshold"]) == (
        "GroupInServiceInstances",
        "LessThanThreshold",
        1,
    )
    assert "GroupInServiceInstances" in evaluated.list_resources("Group")[0]["enabledMetrics"]
    assert {policy["autoscalingGroupName"] for policy in evaluated.list_resources("Policy")} == {
        "test-train-standby"
    }
    assert [policy.get("scalingAdjustment") for policy in evaluated.list_resources("Policy")] == [0, None]


def simulate_scaling(desired, running):
    """Return the number of machines that AWS would start, by its rules for step adjustments."""
    difference = running - desired
    for step in build_scaling_steps(desired):
        low = float(step.get("metric_interval_lower_bound", "-inf"))
        if low < difference <= float(step["metric_interval_upper_bound"]):
            return step["scaling_adjustment"]
    return None


@pytest.mark.parametrize("desired", [1, 2, 7, 20])
def test_standby_group_starts_one_machine_for_each_missing_spot_machine(desired):
    assert [simulate_scaling(desired, desired - missing) for missing in range(1, desired + 1)] == list(
        range(1, desired + 1)
    )


def test_scaling_steps_have_no_gap_and_respect_the_limit_of_aws():
    steps = build_scaling_steps(50)
    assert len(steps) == MAX_STEPS
    assert simulate_scaling(50, 0) == 50
    lows = [step.get("metric_interval_lower_bound") for step in steps]
    assert lows[:-1] == [step["metric_interval_upper_bound"] for step in steps[1:]]
    assert lows[-1] is None


def test_gcp_group_has_its_bounds(evaluate):
    evaluated = evaluate({"cloud": "gcp", "count": ELASTIC, "purchase": {"kind": "spot"}})
    policy = evaluated.find_resource("RegionAutoscaler")["autoscalingPolicy"]
    assert (policy["minReplicas"], policy["maxReplicas"]) == (1, 4)
    assert evaluated.find_resource("RegionInstanceGroupManager")["targetSize"] == 2
    template = evaluated.find_resource("RegionInstanceTemplate")
    assert template["scheduling"]["provisioningModel"] == "SPOT"
    assert template["labels"]["gpufleet-purchase"] == "spot"


def test_azure_scale_set_has_its_bounds(evaluate):
    evaluated = evaluate(
        {"cloud": "azure", "machine": "Standard_NC4as_T4_v3", "count": ELASTIC, "purchase": {"kind": "spot"}}
    )
    (profile,) = evaluated.find_resource("AutoscaleSetting")["profiles"]
    assert profile["capacity"] == {"minimum": "1", "maximum": "4", "default": "2"}
    assert (
        evaluated.find_resource("VirtualMachineScaleSet")["virtualMachineProfile"]["evictionPolicy"]
        == "Delete"
    )


@pytest.mark.parametrize("zones", [["us-central1-a"], ["us-central1-f", "us-central1-b"]])
def test_gcp_group_uses_only_the_declared_zones(evaluate, zones):
    """Machines in other zones would be far from the data and outside the granted quota."""
    manager = evaluate({"cloud": "gcp", "count": ELASTIC, "zones": zones}).find_resource(
        "RegionInstanceGroupManager"
    )
    assert manager["distributionPolicyZones"] == zones
    assert manager["updatePolicy"]["maxUnavailableFixed"] == len(zones)


def test_gcp_group_without_zones_has_no_zone_restriction(evaluate):
    manager = evaluate({"cloud": "gcp", "count": ELASTIC, "zones": []}).find_resource(
        "RegionInstanceGroupManager"
    )
    assert "distributionPolicyZones" not in manager
    assert manager["updatePolicy"]["maxUnavailableFixed"] == 3
