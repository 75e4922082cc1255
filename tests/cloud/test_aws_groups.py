"""Test Auto Scaling groups on AWS: bounds, fixed groups, fallback and ladders."""

from __future__ import annotations

import pytest

from gpufleet.cloud.aws_group import build_stages
from gpufleet.cloud.aws_ladder import ALARM_MINUTES, MAX_STEPS, build_scaling_steps

ELASTIC = {"min": 1, "desired": 2, "max": 4}
FALLBACK = {"cloud": "aws", "machine": "g5.2xlarge", "purchase": {"kind": "spot", "fallback": "on_demand"}}
BLOCK = {"kind": "capacity_block", "reservation": "cr-0123456789abcdef0"}
EXISTING = {"kind": "reserved", "reservation": "cr-0fedcba9876543210"}
LADDER = {
    "cloud": "aws",
    "count": 4,
    "purchase": {"ladder": [BLOCK, EXISTING, {"kind": "spot"}, {"kind": "on_demand"}]},
}


def tags_of(group):
    return {tag["key"]: tag["value"] for tag in group["tags"]}


def test_aws_group_has_its_bounds_and_buys_only_spot(evaluate):
    pool = {"cloud": "aws", "count": ELASTIC, "purchase": {"kind": "spot"}}
    group = evaluate(pool).find_resource("Group")
    assert (group["minSize"], group["desiredCapacity"], group["maxSize"]) == (1, 2, 4)
    policy = group["mixedInstancesPolicy"]
    assert policy["instancesDistribution"]["onDemandPercentageAboveBaseCapacity"] == 0
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
    assert "mixedInstancesPolicy" not in standby
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


def test_fixed_group_has_exactly_its_count(evaluate):
    evaluated = evaluate({"cloud": "aws", "count": 100, "group": True})
    group = evaluated.find_resource("Group")
    assert (group["minSize"], group["desiredCapacity"], group["maxSize"]) == (100, 100, 100)
    assert evaluated.list_options("Group")[0]["ignore_changes"] == []
    assert "Instance" not in evaluated.kinds


def test_group_does_not_move_nodes_between_zones(evaluate):
    assert evaluate({"cloud": "aws", "count": ELASTIC}).find_resource("Group")["suspendedProcesses"] == [
        "AZRebalance"
    ]


def test_group_without_spot_has_its_template_directly(evaluate):
    """A mixed instances policy takes neither Capacity Blocks nor a reservation preference per group."""
    group = evaluate({"cloud": "aws", "count": 2, "group": True}).find_resource("Group")
    assert group["launchTemplate"] == {"id": "train-id", "version": "1"}
    assert "mixedInstancesPolicy" not in group


def test_reserved_group_launches_only_into_its_reservation(evaluate):
    evaluated = evaluate({"cloud": "aws", "count": 2, "group": True, "purchase": EXISTING})
    target = evaluated.find_resource("LaunchTemplate")["capacityReservationSpecification"]
    assert target == {"capacityReservationTarget": {"capacityReservationId": "cr-0fedcba9876543210"}}


def test_reservation_then_on_demand_is_one_group(evaluate):
    evaluated = evaluate({**LADDER, "purchase": {"ladder": [EXISTING, {"kind": "on_demand"}]}})
    group = evaluated.find_resource("Group")
    assert group["capacityReservationSpecification"] == {
        "capacityReservationPreference": "capacity-reservations-first",
        "capacityReservationTarget": {"capacityReservationIds": ["cr-0fedcba9876543210"]},
    }
    assert not {"MetricAlarm", "Policy"} & evaluated.kinds


def test_stages_join_a_reservation_with_the_on_demand_rung_after_it(declare):
    rungs = declare(LADDER).pools[0].purchase.rungs
    kinds = [(stage.rung.kind, stage.falls_to_on_demand) for stage in build_stages(rungs)]
    assert kinds == [("capacity_block", False), ("reserved", False), ("spot", False), ("on_demand", False)]
    assert [stage.falls_to_on_demand for stage in build_stages([rungs[1], rungs[3]])] == [True]


def test_ladder_has_a_group_per_rung_and_only_the_first_one_starts(evaluate):
    evaluated = evaluate(LADDER)
    groups = evaluated.list_resources("Group")
    assert [group["name"] for group in groups] == [
        "test-train",
        "test-train-standby",
        "test-train-standby2",
        "test-train-standby3",
    ]
    assert [group["desiredCapacity"] for group in groups] == [4, 0, 0, 0]
    assert [group["maxSize"] for group in groups] == [4, 4, 4, 4]
    assert [tags_of(group)["gpufleet-purchase"] for group in groups] == [
        "capacity_block",
        "reserved",
        "spot",
        "on_demand",
    ]
    assert [group["purchase"] for group in evaluated.groups] == [
        "capacity_block",
        "reserved",
        "spot",
        "on_demand",
    ]


def test_each_rung_counts_the_nodes_of_all_rungs_before_it_and_waits_for_them(evaluate):
    first, second, third = evaluate(LADDER).list_resources("MetricAlarm")
    assert first["dimensions"] == {"AutoScalingGroupName": "test-train"}
    for alarm, names in ((second, 2), (third, 3)):
        *parts, total = alarm["metricQueries"]
        assert [part["metric"]["dimensions"]["AutoScalingGroupName"] for part in parts] == [
            "test-train",
            "test-train-standby",
            "test-train-standby2",
        ][:names]
        assert total["expression"] == " + ".join(f"FILL(rung{number}, 0)" for number in range(names))
        assert total["returnData"] is True
        assert "metricName" not in alarm
    assert [alarm["evaluationPeriods"] for alarm in (first, second, third)] == [
        ALARM_MINUTES,
        2 * ALARM_MINUTES,
        3 * ALARM_MINUTES,
    ]
