"""Test that thresholds are plausible, have a source and a date."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet import burnin
from gpufleet.burnin import readings, thresholds

FLOOR = burnin.Threshold(
    applies_to="gpu_server",
    check="hbm",
    metric="mb_per_s",
    bound="floor",
    value=1_905_000.0,
    unit="MB/s",
    on_miss="fail",
    absent="not_run",
    peak=3_350_000.0,
    basis="measured",
    meaning="slow",
    source="DCGM 72fa3fe diag-skus.yaml.in H100 SXM",
    date="2026-11-01",
)
# Upstream slips that a floor's plausibility must catch: both could never fail a degraded card.
SLIPS = [
    ("H200: 3110 x 0.75, thousands lost", 2_333.0, 4_800_000.0),
    ("A100-40: a digit lost", 137_500.0, 1_560_000.0),
]


def test_shipped_thresholds_are_plausible():
    assert burnin.lint_thresholds() == []


@pytest.mark.parametrize(("what", "value", "peak"), SLIPS)
def test_known_mistakes_of_published_thresholds_are_detected(what, value, peak):
    (fault,) = burnin.lint_thresholds((replace(FLOOR, value=value, peak=peak, source=what),))
    assert "can hardly fail a bad part" in fault


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": 3_400_000.0}, "no part can reach it"),
        ({"source": ""}, "no source"),
        ({"unit": ""}, "no unit"),
        ({"date": "yesterday"}, "is not YYYY-MM-DD"),
        ({"date": ""}, "is not YYYY-MM-DD"),
        ({"peak": None}, "no peak of the part"),
        ({"value": None}, "the threshold has a bound but no value"),
        ({"applies_to": "toaster"}, "unknown kind"),
        ({"on_miss": "shrug"}, "unknown value"),
    ],
)
def test_linter_reports_each_mistake(change, message):
    assert any(message in fault for fault in burnin.lint_thresholds((replace(FLOOR, **change),)))


def test_plausible_floor_is_accepted():
    assert burnin.lint_thresholds((FLOOR,)) == []


@pytest.mark.parametrize(
    ("bound", "measured", "expected"),
    [
        ("floor", 5, True),
        ("floor", 4.9, False),
        ("ceiling", 5, True),
        ("ceiling", 5.1, False),
        ("below", 5, False),
    ],
)
def test_bound_types_compare_as_documented(bound, measured, expected):
    assert replace(FLOOR, bound=bound, value=5.0).is_met_by(measured) is expected


@pytest.mark.parametrize("kind", burnin.KINDS)
def test_every_required_check_can_pass_and_fail(kind):
    checks = burnin.list_required_checks(kind, "quick", gpus_declared=True)
    ruled = {row.check for row in burnin.select_thresholds(kind)}
    assert set(checks) <= ruled
    assert set(checks) <= set(readings.READERS)


def test_rehearsal_thresholds_replace_only_their_own_metrics():
    real = {(row.check, row.metric) for row in burnin.select_thresholds("compute_blade")}
    rehearsed = burnin.select_thresholds("compute_blade", rehearsal=True)
    assert real <= {(row.check, row.metric) for row in rehearsed}
    copies = [row for row in rehearsed if (row.check, row.metric) == ("memory", "copy_mb_per_s")]
    assert [row.applies_to for row in copies] == ["rehearsal"]


def test_every_pi_throttle_flag_has_a_threshold():
    ruled = {row.metric for row in burnin.load_thresholds() if row.check == "pi_throttled"}
    assert set(burnin.decode_throttled_flags(0)) < ruled


def row(**changed):
    plain = {
        "applies_to": "compute_blade", "check": "memory", "metric": "copy_mb_per_s", "bound": "floor", "value": 50.0,
        "unit": "MB/s", "on_miss": "fail", "absent": "not_run", "peak": 100.0, "basis": "measured", "meaning": "slow",
        "source": "a test", "date": "2026-11-21",
    }  # fmt: skip
    return thresholds.Threshold(**{**plain, **changed})


@pytest.mark.parametrize(
    ("bound", "below", "at", "above"),
    [("floor", False, True, True), ("ceiling", True, True, False), ("below", True, False, False)],
)
def test_inclusive_and_exclusive_bounds_treat_their_own_value_differently(bound, below, at, above):
    rule = row(bound=bound)
    assert [rule.is_met_by(value) for value in (49.999, 50.0, 50.001)] == [below, at, above]
    assert row(bound="unjudged", value=None).is_met_by(1e9)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({}, "at least 50 MB/s"),
        ({"bound": "ceiling", "value": 0.5, "unit": "ms"}, "at most 0.5 ms"),
        ({"bound": "below", "unit": ""}, "below 50"),
        ({"bound": "unjudged", "value": None}, "not judged"),
    ],
)
def test_bound_is_formatted_as_text(changed, text):
    assert row(**changed).bound_text == text


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({}, None),
        ({"value": 30.0}, None),
        ({"value": 29.9}, "floor 29.9 MB/s is 29.90% of the peak: it can hardly fail a bad part"),
        ({"value": 100.0}, None),
        ({"value": 101.0}, "floor 101 MB/s is 101% of the peak: no part can reach it"),
        ({"peak": 0.0}, "floor 50 MB/s is 0.00% of the peak: it can hardly fail a bad part"),
        ({"peak": None}, "the threshold has a measured floor but no peak of the part"),
        ({"peak": None, "applies_to": "rehearsal"}, None),
        ({"peak": None, "basis": "documented"}, None),
        ({"peak": None, "bound": "ceiling"}, None),
        ({"value": None}, "the threshold has a bound but no value"),
        ({"bound": "unjudged"}, "the threshold has a bound but no value"),
        ({"bound": "unjudged", "value": None}, None),
        ({"source": ""}, "no source"),
        ({"unit": ""}, "no unit"),
        ({"basis": ""}, "no basis"),
        ({"date": "2026-13-01"}, "date '2026-13-01' is not YYYY-MM-DD"),
        ({"applies_to": "toaster"}, "applies to unknown kind 'toaster'"),
        ({"applies_to": "any"}, None),
        ({"on_miss": "shout"}, "unknown value among 'floor', 'shout', 'not_run'"),
        ({"absent": "pass"}, "unknown value among 'floor', 'fail', 'pass'"),
    ],
)
def test_invalid_threshold_is_reported(changed, fault):
    mistakes = thresholds.lint_thresholds((row(**changed),))
    applies = changed.get("applies_to", "compute_blade")
    assert mistakes == ([f"{applies}: memory.copy_mb_per_s: {fault}"] if fault else [])


def test_rehearsal_rows_replace_those_of_the_same_kind():
    real = {
        (threshold.check, threshold.metric): threshold
        for threshold in thresholds.select_thresholds("compute_blade")
    }
    rehearsed = thresholds.select_thresholds("compute_blade", rehearsal=True)
    rehearsal_rows = {
        (threshold.check, threshold.metric) for threshold in rehearsed if threshold.applies_to == "rehearsal"
    }
    assert rehearsal_rows
    assert {threshold.applies_to for threshold in real.values()} == {"compute_blade", "any"}
    assert {(threshold.check, threshold.metric) for threshold in rehearsed} == {*real, *rehearsal_rows}
    assert not [
        threshold
        for threshold in rehearsed
        if (threshold.check, threshold.metric) in rehearsal_rows and threshold.applies_to != "rehearsal"
    ]


@pytest.mark.parametrize("kind", ["cloud_vm", "gpu_server"])
def test_gpus_of_a_cloud_machine_are_required_only_if_declared(kind):
    plain, declared = (
        thresholds.list_required_checks(kind, "quick", gpus_declared=declared) for declared in (False, True)
    )
    assert {"gpu_compute", "gpu_memory", "gpu_copy", "gpu_nvidia", "gpu_xid"} <= set(declared)
    assert ({"gpu_compute", "gpu_memory", "gpu_copy", "gpu_nvidia", "gpu_xid"} <= set(plain)) == (
        kind == "gpu_server"
    )
    assert plain[:5] == ("configuration", "cpu", "memory", "storage", "network")
