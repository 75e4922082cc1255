"""Test outliers by median and MAD: bad members are found, noise and equal values are not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.burnin import outliers
from gpufleet.burnin.outliers import NodeMeasurements, find_outliers, find_stragglers


def fleet(*values):
    return {f"node{number}": value for number, value in enumerate(values)}


def find(values, bad="low", relative_floor=0.01, **options):
    return [entry.name for entry in find_outliers(values, bad=bad, relative_floor=relative_floor, **options)]


def test_slow_member_is_found_with_its_evidence():
    (entry,) = find_outliers(fleet(100, 101, 99, 100, 100, 90), bad="low", relative_floor=0.01)
    assert (entry.name, entry.value, entry.median, entry.group_size) == ("node5", 90, 100, 6)
    assert entry.score == pytest.approx(10 / 1.0)  # the MAD is 0.5, its floor 1 % of 100
    assert entry.cutoff == 3.5


def test_scale_is_that_of_normal_noise():
    # The MAD is 2: the cutoff of 102 members, 3.72 deviations, is 3.72 x 1.4826 x 2 = 11.0 from the median.
    values = fleet(*[98] * 40, *[100] * 21, *[102] * 40)
    assert find({**values, "far": 100 - 11.1}, relative_floor=0) == ["far"]
    assert find({**values, "near": 100 - 10.9}, relative_floor=0) == []


def test_only_the_bad_direction_counts():
    values = fleet(100, 100, 100, 100, 100, 120)
    assert (find(values), find(values, bad="high")) == ([], ["node5"])


def test_equal_values_with_tiny_noise_are_not_outliers():
    assert find(fleet(100, 100, 100, 100, 100, 99.9)) == []
    assert find(fleet(100, 100, 100, 100, 100, 99.9), relative_floor=0) == []  # a MAD of zero without a floor
    assert find(fleet(40, 40, 40, 40, 40, 43), bad="high", relative_floor=0, absolute_floor=2) == []
    assert find(fleet(40, 40, 40, 40, 40, 48), bad="high", relative_floor=0, absolute_floor=2) == ["node5"]


def test_nearly_half_of_a_group_may_be_bad():
    assert find(fleet(100, 101, 99, 100, 100, 60, 61, 62, 59)) == ["node8", "node5", "node6", "node7"]


@pytest.mark.parametrize(("members", "found"), [(4, []), (5, ["node0"])])
def test_small_groups_are_not_compared(members, found):
    assert find(fleet(10, *[100] * (members - 1))) == found
    assert find(fleet(10, *[100] * 4), min_group=6) == []
    assert find({}, min_group=0) == []


def test_cutoff_grows_with_the_group():
    assert outliers.compute_cutoff(5) == 3.5
    assert outliers.compute_cutoff(500) == pytest.approx(4.11, abs=0.01)


def test_healthy_noise_is_rarely_named():
    generator = random.Random(1)
    alarms = sum(
        bool(find({str(number): generator.gauss(700, 7) for number in range(500)}, relative_floor=0.001))
        for _ in range(100)
    )
    assert alarms <= 5  # one in a hundred is expected


@given(
    st.dictionaries(st.text(max_size=3), st.floats(-1e9, 1e9), max_size=12),
    st.sampled_from(["low", "high"]),
    st.floats(0, 1),
)
def test_any_numbers_are_compared(values, bad, floor):
    for entry in find_outliers(values, bad=bad, relative_floor=floor):
        assert entry.score > entry.cutoff
        assert (entry.value < entry.median) == (bad == "low")


def test_every_compared_metric_has_a_source_and_a_floor():
    metrics = outliers.load_compared_metrics()
    assert len(metrics) >= 10
    assert all(metric.source and metric.date and metric.unit for metric in metrics)
    assert all(metric.bad in {"low", "high"} for metric in metrics)
    assert all(metric.relative_floor > 0 or metric.absolute_floor > 0 for metric in metrics)


def test_node_is_compared_only_within_its_groups():
    (metric, *_) = outliers.load_compared_metrics()
    nodes = [
        NodeMeasurements(f"cool{number}", {metric: 100.0 + number / 10}, {"machine": "m", "zone": "lower"})
        for number in range(9)
    ] + [
        NodeMeasurements(f"warm{number}", {metric: 85.0 + number / 10}, {"machine": "m", "zone": "upper"})
        for number in range(5)
    ]
    found = {(entry.outlier.name, entry.group_kind) for entry in find_stragglers(nodes)}
    # The warm zone stands out of the fleet; nobody stands out of the own zone.
    assert found == {(f"warm{number}", "machine") for number in range(5)}
    assert find_stragglers(nodes, min_group=20) == []


def test_metrics_come_from_records_that_ran(records_of):
    records = records_of({"base": "gpu_server"})
    measured = {
        (metric.check, metric.metric): value for metric, value in outliers.measure_records(records).items()
    }
    assert measured["gpu_memory", "shown"] > 2900
    assert measured["gpu_compute", "shown"] > 600
    broken = [{**record, "status": "error"} for record in records]
    assert outliers.measure_records([*broken, None, 3, {"type": "check", "status": "ran"}]) == {}


def test_small_groups_share_their_spread():
    (metric, *_) = outliers.load_compared_metrics()
    generator = random.Random(3)

    def build(zones):
        return [
            NodeMeasurements(
                f"{zone}-{number}", {metric: generator.gauss(100, 8)}, {"machine": "m", "zone": zone}
            )
            for zone in range(zones)
            for number in range(6)
        ]

    alarms = sum(entry.group_kind == "zone" for _ in range(20) for entry in find_stragglers(build(20)))
    assert alarms <= 8  # of 2,400 healthy nodes; with each zone's own spread it was 25
    zones = build(20)
    slow = NodeMeasurements("slow", {metric: 45.0}, {"machine": "m", "zone": 3})
    assert {
        entry.group_kind for entry in find_stragglers([*zones, slow]) if entry.outlier.name == "slow"
    } == {
        "machine",
        "zone",
    }
