"""Thresholds are data that must be plausible, sourced and dated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet import burnin
from gpufleet.burnin import readings

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


def test_ours_are_plausible():
    assert burnin.lint_thresholds() == []


@pytest.mark.parametrize(("what", "value", "peak"), SLIPS)
def test_upstream_slips_are_caught(what, value, peak):
    (fault,) = burnin.lint_thresholds((replace(FLOOR, value=value, peak=peak, source=what),))
    assert "can hardly fail a bad part" in fault


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"value": 3_400_000.0}, "no part can reach it"),
        ({"source": ""}, "no source"),
        ({"unit": ""}, "no unit"),
        ({"date": "yesterday"}, "is not YYYY-MM-DD"),
        ({"date": ""}, "is not YYYY-MM-DD"),
        ({"peak": None}, "without the part's peak"),
        ({"value": None}, "a bound without a value"),
        ({"applies_to": "toaster"}, "unknown kind"),
        ({"on_miss": "shrug"}, "unknown word"),
    ],
)
def test_the_linter_names_what_is_wrong(change, says):
    assert any(says in fault for fault in burnin.lint_thresholds((replace(FLOOR, **change),)))


def test_a_plausible_floor_is_accepted():
    assert burnin.lint_thresholds((FLOOR,)) == []


@pytest.mark.parametrize(
    ("bound", "measured", "holds"),
    [
        ("floor", 5, True),
        ("floor", 4.9, False),
        ("ceiling", 5, True),
        ("ceiling", 5.1, False),
        ("below", 5, False),
    ],
)
def test_bounds(bound, measured, holds):
    assert replace(FLOOR, bound=bound, value=5.0).holds(measured) is holds


@pytest.mark.parametrize("kind", burnin.KINDS)
def test_every_required_check_can_pass_and_fail(kind):
    checks = burnin.required_checks(kind, "quick", gpus_declared=True)
    ruled = {row.check for row in burnin.thresholds_for(kind)}
    assert set(checks) <= ruled
    assert set(checks) <= set(readings.READERS)


def test_a_rehearsal_replaces_only_what_it_names():
    real = {(row.check, row.metric) for row in burnin.thresholds_for("compute_blade")}
    rehearsed = burnin.thresholds_for("compute_blade", rehearsal=True)
    assert real <= {(row.check, row.metric) for row in rehearsed}
    copies = [row for row in rehearsed if (row.check, row.metric) == ("memory", "copy_mb_per_s")]
    assert [row.applies_to for row in copies] == ["rehearsal"]


def test_pi_flags_all_have_a_rule():
    ruled = {row.metric for row in burnin.load_thresholds() if row.check == "pi_throttled"}
    assert set(burnin.decode_throttled(0)) < ruled
