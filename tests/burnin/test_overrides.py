"""Test site overrides: looser or stricter, each with a reason, shown in every report that it touched."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet import burnin
from gpufleet.burnin.override_file import parse_overrides
from gpufleet.errors import InputError

ENTRY = {
    "check": "pi_temperature", "metric": "celsius", "instead_of": 80, "value": 60,
    "reason": "blades of this closet throttle early", "by": "Ada", "date": "2026-11-20",
}  # fmt: skip
NOTE = "(Ada, 2026-11-20: blades of this closet throttle early)"


def write(*entries):
    lines = [
        f"  {'-' if number == 0 else ' '} {key}: {value}"
        for entry in entries
        for number, (key, value) in enumerate(entry.items())
    ]
    return "\n".join(["overrides:", *lines])


def parse(*entries):
    return parse_overrides(write(*entries), "burn-in-thresholds.yaml")


def judge(records_of, overrides, kind="compute_blade", rehearsal=False):
    records = records_of({"base": kind, "change": {"pi_temperature": {"raw.text": "temp=65.0'C"}}})
    return burnin.judge_attempt(records, kind, "quick", rehearsal, overrides=overrides)


def test_stricter_override_changes_the_verdict_and_is_shown(records_of):
    assert judge(records_of, ()).verdict == "healthy"
    report = judge(records_of, parse(ENTRY))
    check = report.find_check_result("pi_temperature")
    assert (report.verdict, check.outcome, check.threshold) == ("degraded", "warn", 60)
    assert check.threshold_source.startswith("site override by Ada, 2026-11-20")
    assert check.reason.endswith(
        f"site override (stricter): celsius below 60 °C instead of below 80 °C {NOTE}"
    )


def test_looser_override_is_shown_on_a_check_that_passes(records_of):
    entry = {**ENTRY, "check": "memory", "metric": "copy_mb_per_s", "instead_of": 2080, "value": 2000}
    check = judge(records_of, parse(entry)).find_check_result("memory")
    assert check.outcome == "pass"
    assert (
        check.reason
        == f"site override (looser): copy_mb_per_s at least 2000 MB/s instead of at least 2080 MB/s {NOTE}"
    )


def test_override_can_change_the_outcome_of_a_miss(records_of):
    report = judge(records_of, parse({**ENTRY, "on_miss": "fail"}))
    assert report.verdict == "faulty"
    assert "below 60 °C, fail on a miss instead of" in report.find_check_result("pi_temperature").reason


def test_override_of_one_kind_leaves_other_kinds_alone(records_of):
    overrides = parse({**ENTRY, "kind": "pi_gpu_bench"})
    assert judge(records_of, overrides).verdict == "healthy"
    assert judge(records_of, overrides, "pi_gpu_bench").verdict == "degraded"


def test_reports_without_a_touched_check_do_not_mention_the_override(records_of):
    report = judge(records_of, parse(ENTRY))
    assert [check.name for check in report.checks if "override" in check.reason] == ["pi_temperature"]


def test_explanation_shows_the_override():
    text = burnin.format_explanation(burnin.explain_check("pi_temperature", "compute_blade", parse(ENTRY)))
    assert f"  site override (stricter): celsius below 60 °C instead of below 80 °C {NOTE}" in text


BAD = [
    ("", "must be a mapping with the key overrides"),
    ("[]", "must be a mapping"),
    ("overrides: 3", "overrides: Input should be a valid list, got 3"),
    ("overrides: [{}]", "overrides.0.check: is missing"),
    ("a: [", "burn-in-thresholds.yaml:2: is not valid YAML"),
    (write({**ENTRY, "extra": 1}), "overrides.0.extra: unknown key"),
    (write({**ENTRY, "reason": "no"}), "overrides.0.reason: String should have at least 10 characters"),
    (write({**ENTRY, "by": "''"}), "overrides.0.by: String should have at least 1 character"),
    (write({**ENTRY, "date": "2999-01-01"}), "overrides.0.date: '2999-01-01' is not a past date"),
    (write({**ENTRY, "date": "soon"}), "overrides.0.date: 'soon' is not a past date"),
    (write({**ENTRY, "value": ".inf"}), "is not a number"),
    (write({**ENTRY, "value": "'1'"}), "overrides.0.value: Input should be a valid number"),
    (write({**ENTRY, "value": 80}), "overrides.0: the override changes nothing"),
    (write({**ENTRY, "value": 86}), "celsius: never warns: below 85 °C fails first"),
    (
        write({**ENTRY, "instead_of": 81}),
        "has no bound of 81; it has: below 85 °C, below 80 °C, at least -40 °C",
    ),
    (write({**ENTRY, "metric": "kelvin"}), "no threshold bounds pi_temperature.kelvin"),
    (write({**ENTRY, "kind": "toaster"}), "overrides.0.kind: unknown node kind 'toaster'"),
    (write(ENTRY, ENTRY), "two overrides replace pi_temperature.celsius below 80 °C"),
    (write(ENTRY, {**ENTRY, "kind": "compute_blade"}), "two overrides replace pi_temperature.celsius"),
    (
        write(
            {
                **ENTRY,
                "check": "gpu_memory",
                "metric": "h200_sxm_read_gb_per_s",
                "instead_of": 3926,
                "value": 3.9,
            }
        ),
        "floor 3.9 GB/s is 0.08% of the peak: it can hardly fail a bad part",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_wrong_file_is_one_line(text, message):
    with pytest.raises(InputError) as caught:
        parse_overrides(text, "burn-in-thresholds.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("burn-in-thresholds.yaml")


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60), st.sampled_from(sorted(ENTRY)))
def test_any_text_in_a_field_is_accepted_or_one_line(text, key):
    try:
        parse_overrides(write({**ENTRY, key: text}), "f.yaml")
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize(
    ("change", "direction"),
    [
        ({"value": 60}, "stricter"),
        ({"value": 84}, "looser"),
        ({"value": 80, "on_miss": "fail"}, "stricter"),
        ({"value": 60, "on_miss": "fail"}, "stricter"),
        ({"value": 84, "on_miss": "fail"}, "changed"),
        ({"instead_of": -40, "value": -20}, "stricter"),
        ({"instead_of": -40, "value": -50}, "looser"),
        ({"instead_of": -40, "value": -40, "on_miss": "warn"}, "looser"),
    ],
)
def test_override_says_whether_it_is_looser_or_stricter(change, direction):
    (override,) = parse({**ENTRY, **change})
    assert override.site.override.startswith(f"site override ({direction}): celsius ")
