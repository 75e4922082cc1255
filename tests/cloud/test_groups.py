"""Elastic pools are the cloud's own groups; an AWS fallback is a second group and an alarm."""

from __future__ import annotations

import pytest

from gpufleet.cloud.aws_group import MOST_STEPS, steps

ELASTIC = {"min": 1, "desired": 2, "max": 4}
FALLBACK = {"cloud": "aws", "machine": "g5.2xlarge", "purchase": {"kind": "spot", "fallback": "on_demand"}}


@pytest.mark.parametrize(("purchase", "percent"), [("spot", 0), ("on_demand", 100)])
def test_aws_group_bounds_and_purchase(evaluate, purchase, percent):
    group = evaluate({"cloud": "aws", "count": ELASTIC, "purchase": {"kind": purchase}}).one("Group")
    assert (group["minSize"], group["desiredCapacity"], group["maxSize"]) == (1, 2, 4)
    policy = group["mixedInstancesPolicy"]
    assert policy["instancesDistribution"]["onDemandPercentageAboveBaseCapacity"] == percent
    assert policy["launchTemplate"]["overrides"] == [{"instanceType": "p4d.24xlarge"}]


def test_a_group_tags_its_machines(evaluate):
    tags = evaluate({"cloud": "aws", "count": ELASTIC, "hours_per_month": 60}).one("Group")["tags"]
    assert all(tag["propagateAtLaunch"] for tag in tags)
    values = {tag["key"]: tag["value"] for tag in tags}
    assert values["gpufleet-pool"] == "train"
    assert values["gpufleet-hours-per-month"] == "60"


def test_the_fallback_sleeps_at_zero_on_demand(evaluate):
    spot, standby = evaluate(FALLBACK).all("Group")
    assert (standby["minSize"], standby["desiredCapacity"], standby["maxSize"]) == (0, 0, 1)
    distribution = standby["mixedInstancesPolicy"]["instancesDistribution"]
    assert distribution == {"onDemandBaseCapacity": 0, "onDemandPercentageAboveBaseCapacity": 100}
    purchases = [{tag["key"]: tag["value"] for tag in group["tags"]} for group in (spot, standby)]
    assert [each["gpufleet-purchase"] for each in purchases] == ["spot", "on_demand"]
    assert [each["gpufleet-fallback"] for each in purchases] == ["on_demand", "standby"]


def test_the_alarm_watches_the_spot_group_and_moves_the_other(evaluate):
    found = evaluate(FALLBACK)
    alarm = found.one("MetricAlarm")
    assert alarm["dimensions"] == {"AutoScalingGroupName": "test-train"}
    assert (alarm["metricName"], alarm["comparisonOperator"], alarm["threshold"]) == (
        "GroupInServiceInstances",
        "LessThanThreshold",
        1,
    )
    assert "GroupInServiceInstances" in found.all("Group")[0]["enabledMetrics"]
    assert {policy["autoscalingGroupName"] for policy in found.all("Policy")} == {"test-train-standby"}
    assert [policy.get("scalingAdjustment") for policy in found.all("Policy")] == [0, None]


def started(wanted, present):
    """Return how many machines AWS would start, by its rules for step adjustments."""
    beyond = present - wanted
    for step in steps(wanted):
        low = float(step.get("metric_interval_lower_bound", "-inf"))
        if low < beyond <= float(step["metric_interval_upper_bound"]):
            return step["scaling_adjustment"]
    return None


@pytest.mark.parametrize("wanted", [1, 2, 7, 20])
def test_as_many_start_as_are_missing(wanted):
    assert [started(wanted, wanted - missing) for missing in range(1, wanted + 1)] == list(
        range(1, wanted + 1)
    )


def test_steps_stay_within_what_aws_takes_and_leave_no_gap():
    found = steps(50)
    assert len(found) == MOST_STEPS
    assert started(50, 0) == 50
    lows = [step.get("metric_interval_lower_bound") for step in found]
    assert lows[:-1] == [step["metric_interval_upper_bound"] for step in found[1:]]
    assert lows[-1] is None


def test_gcp_group_between_its_bounds(evaluate):
    found = evaluate({"cloud": "gcp", "count": ELASTIC, "purchase": {"kind": "spot"}})
    policy = found.one("RegionAutoscaler")["autoscalingPolicy"]
    assert (policy["minReplicas"], policy["maxReplicas"]) == (1, 4)
    assert found.one("RegionInstanceGroupManager")["targetSize"] == 2
    template = found.one("RegionInstanceTemplate")
    assert template["scheduling"]["provisioningModel"] == "SPOT"
    assert template["labels"]["gpufleet-purchase"] == "spot"


def test_azure_set_between_its_bounds(evaluate):
    found = evaluate(
        {"cloud": "azure", "machine": "Standard_NC4as_T4_v3", "count": ELASTIC, "purchase": {"kind": "spot"}}
    )
    (profile,) = found.one("AutoscaleSetting")["profiles"]
    assert profile["capacity"] == {"minimum": "1", "maximum": "4", "default": "2"}
    assert found.one("VirtualMachineScaleSet")["virtualMachineProfile"]["evictionPolicy"] == "Delete"


@pytest.mark.parametrize("zones", [["us-central1-a"], ["us-central1-f", "us-central1-b"]])
def test_a_gcp_group_stays_in_the_declared_zones(evaluate, zones):
    """Machines elsewhere would be far from the data and outside the quota that was asked for."""
    manager = evaluate({"cloud": "gcp", "count": ELASTIC, "zones": zones}).one("RegionInstanceGroupManager")
    assert manager["distributionPolicyZones"] == zones
    assert manager["updatePolicy"]["maxUnavailableFixed"] == len(zones)


def test_a_gcp_group_without_zones_leaves_them_to_google(evaluate):
    manager = evaluate({"cloud": "gcp", "count": ELASTIC, "zones": []}).one("RegionInstanceGroupManager")
    assert "distributionPolicyZones" not in manager
    assert manager["updatePolicy"]["maxUnavailableFixed"] == 3
