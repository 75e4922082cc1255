"""Test that thresholds are plausible, have a source and a date."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet import burnin, catalog
from gpufleet.burnin import check_definition, readings, threshold_lint, thresholds
from gpufleet.burnin.agent.profiles import PROFILES
from gpufleet.errors import InputError

FLOOR = burnin.Threshold(
    applies_to="gpu_server",
    check="gpu_memory",
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


def test_check_that_is_read_and_never_judged_is_reported(monkeypatch):
    rows = tuple(row for row in thresholds.load_thresholds() if row.check != "crash" or row.value is None)
    monkeypatch.setattr(threshold_lint, "load_thresholds", lambda: rows)
    (fault,) = burnin.lint_thresholds()
    assert fault == "crash: no threshold has a bound: the check would always count as not run"


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
    entries = burnin.list_required_checks(kind, "quick", {"declared", "10de", "1002"})
    checks = [name for entry in entries for name in entry.split(thresholds.ALTERNATIVE)]
    ruled = {row.check for row in burnin.select_thresholds(kind)}
    assert set(checks) <= ruled
    assert set(checks) <= set(readings.list_read_checks())


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
        ({"peak": None, "basis": "vendor"}, None),
        ({"peak": None, "bound": "ceiling"}, None),
        ({"value": None}, "the threshold has a bound but no value"),
        ({"bound": "unjudged"}, "the threshold has a bound but no value"),
        ({"bound": "unjudged", "value": None}, None),
        ({"source": ""}, "no source"),
        ({"unit": ""}, "no unit"),
        ({"basis": ""}, "no basis"),
        ({"basis": "guess"}, "unknown basis 'guess'"),
        ({"date": "2999-01-01"}, "date '2999-01-01' is not YYYY-MM-DD"),
        ({"check": "memory "}, "no check 'memory ' is read"),
        ({"meaning": ""}, "the threshold has no meaning: a report could not say what was missed"),
        ({"date": "2026-13-01"}, "date '2026-13-01' is not YYYY-MM-DD"),
        ({"applies_to": "toaster"}, "applies to unknown kind 'toaster'"),
        ({"applies_to": "any"}, None),
        ({"on_miss": "shout"}, "unknown value among 'floor', 'shout', 'not_run'"),
        ({"absent": "pass"}, "unknown value among 'floor', 'fail', 'pass'"),
    ],
)
def test_invalid_threshold_is_reported(changed, fault):
    mistakes = threshold_lint.lint_thresholds((row(**changed),))
    applies = changed.get("applies_to", "compute_blade")
    name = f"{changed.get('check', 'memory')}.copy_mb_per_s"
    assert mistakes == ([f"{applies}: {name}: {fault}"] if fault else [])


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


GPU_CHECKS = {"gpu_compute", "gpu_memory", "gpu_copy", "gpu_nvidia", "gpu_xid"}


@pytest.mark.parametrize("kind", burnin.KINDS)
def test_gpu_checks_are_required_by_the_vendor_of_the_gpus(kind):
    plain, nvidia, amd = (
        set(thresholds.list_required_checks(kind, "quick", vendors)) for vendors in ([], ["10de"], ["1002"])
    )
    assert nvidia - plain == GPU_CHECKS
    assert amd - plain == {"gpu_amd", "gpu_xid", "gpu_hip or gpu_vulkan"} - plain
    assert ("hardware" in plain) == (kind == "gpu_server")


def test_every_profile_of_the_agent_can_be_judged():
    assert list(check_definition.PROFILES) == list(PROFILES)


@pytest.mark.parametrize(
    ("first", "second", "fault"),
    [
        ({}, {}, "2 rows have the bound floor with the outcome fail"),
        ({}, {"on_miss": "warn", "value": 60.0}, None),
        ({}, {"on_miss": "warn", "value": 50.0}, "never warns: at least 50 MB/s fails first"),
        ({}, {"on_miss": "warn", "value": 40.0, "metric": "other"}, None),
        (
            {"bound": "below", "value": 85.0},
            {"on_miss": "warn", "bound": "below", "value": 86.0},
            "never warns: below 85 MB/s fails first",
        ),
        ({"bound": "below", "value": 85.0}, {"on_miss": "warn", "bound": "ceiling", "value": 80.0}, None),
    ],
)
def test_rows_that_repeat_or_hide_each_other_are_reported(first, second, fault):
    mistakes = threshold_lint.lint_thresholds((row(**first), row(**second)))
    assert mistakes == ([f"compute_blade: memory.copy_mb_per_s: {fault}"] if fault else [])


def test_peaks_of_parts_come_from_the_catalogue():
    rows = {item.metric: item for item in burnin.load_thresholds() if item.peak_source}
    assert len(rows) >= 8
    h100 = catalog.get_accelerator("H100 SXM5 80GB")
    assert rows["h100_sxm_read_gb_per_s"].peak == h100.bandwidth_gb_s
    assert rows["h100_sxm_bf16_tflops"].peak == h100.bf16_tflops_dense
    blade = next(item for item in burnin.load_thresholds() if item.peak_source.endswith("Pi 4"))
    assert blade.peak == 500 * catalog.get_accelerator("Compute Module 4 / Pi 4").bandwidth_gb_s


@pytest.mark.parametrize("peak", ["bandwidth_gb_s of a dream", "colour of H100 SXM5 80GB", "much"])
def test_peak_that_the_catalogue_does_not_have_is_refused(peak):
    with pytest.raises(InputError, match=r"checks/gpu_memory/check\.yaml|accelerator"):
        thresholds.find_peak("gpu_memory", peak)


@pytest.mark.parametrize(
    "check", sorted({item.check for item in burnin.load_thresholds()} | {*readings.list_read_checks()})
)
def test_every_check_is_explained(check):
    explanation = burnin.explain_check(check)
    assert explanation["measures"]
    assert explanation["miss"]
    assert all(isinstance(step, str) and step for step in explanation["next"])
    bounds = [item for item in burnin.load_thresholds() if item.check == check]
    text = burnin.format_explanation(explanation)
    assert all(item.source in text and item.bound_text in text for item in bounds)


def test_explanation_of_one_kind_has_only_its_bounds_and_profiles():
    explanation = burnin.explain_check("memory", "compute_blade")
    assert {bound["applies_to"] for bound in explanation["bounds"]} == {"any", "compute_blade"}
    assert {entry.partition(" ")[0] for entry in explanation["required_for"]} == {"compute_blade"}
    rehearsal = burnin.explain_check("memory", "rehearsal")
    assert {bound["applies_to"] for bound in rehearsal["bounds"]} == {"rehearsal"}


def test_unknown_check_is_not_explained():
    with pytest.raises(InputError, match="unknown check 'x'; use one of configuration, crash, clock"):
        burnin.explain_check("x")
