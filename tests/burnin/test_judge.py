"""Test verdicts: golden cases, and properties that hold for any record."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet import burnin
from gpufleet.errors import InputError

VERDICTS = sorted((Path(__file__).resolve().parents[1] / "cases/burnin/verdicts").glob("*.json"))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)
KEYS = [
    "raw",
    "devices",
    "wrong",
    "root",
    "link",
    "text",
    "lines",
    "xml",
    "wrong_mib",
    "drives",
    "read_only",
    "sent",
]
RAW = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), JSON, max_size=6)
NAMES = st.sampled_from(
    ["configuration", *burnin.list_required_checks("compute_blade", "quick"), "smart", "gpu_xid"]
)
RECORD = st.fixed_dictionaries(
    {"type": st.sampled_from(["start", "check", "end", "begin"])},
    optional={
        "name": NAMES | JSON,
        "status": st.sampled_from(["ran", "error", "not_run"]) | JSON,
        "raw": RAW | JSON,
    }
    | {
        "reason": JSON,
        "attempt": JSON,
        "params": JSON,
        "rehearsal": JSON,
        "started_at": JSON,
        "ended_at": JSON,
    },
)


@pytest.mark.parametrize("path", VERDICTS, ids=lambda path: path.stem)
def test_verdict_matches_the_golden_file(path, judge_case):
    case = json.loads(path.read_text())
    report = judge_case(case)
    assert report.verdict == case["verdict"], report.list_unhealthy_reasons()
    assert {name: report.find_check_result(name).outcome for name in case["outcomes"]} == case["outcomes"]
    assert case.get("reason", "") in "; ".join(report.list_unhealthy_reasons())


@functools.cache
def make_report_validator():
    """Return a validator of reports: ``jsonschema.validate`` checks the schema itself each time, which takes longer."""
    schema = burnin.load_burnin_report_schema()
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    return validator(schema)


@pytest.mark.parametrize("path", VERDICTS, ids=lambda path: path.stem)
def test_reports_match_the_schema(path, judge_case):
    report = judge_case(json.loads(path.read_text())).as_json()
    make_report_validator().validate(json.loads(json.dumps(report)))


def test_every_unhealthy_verdict_has_a_reason(judge_case):
    for path in VERDICTS:
        report = judge_case(json.loads(path.read_text()))
        assert bool(report.list_unhealthy_reasons()) == (report.verdict != "healthy"), path.stem


@settings(max_examples=300)
@given(records=st.lists(RECORD | JSON, max_size=12), rehearsal=st.booleans())
def test_judge_accepts_any_record(records, rehearsal):
    report = burnin.judge_attempt(records, "compute_blade", "quick", rehearsal)
    assert report.verdict in burnin.VERDICTS
    make_report_validator().validate(report.as_json())


@settings(max_examples=200)
@given(raw=RAW, name=st.sampled_from(burnin.list_required_checks("compute_blade", "quick")))
def test_check_with_random_numbers_never_passes(judge_case, raw, name):
    case = {"base": "compute_blade", "kind": "compute_blade", "change": {name: {"raw": raw}}}
    assert judge_case(case).find_check_result(name).outcome != "pass"


@pytest.mark.parametrize("name", burnin.list_required_checks("compute_blade", "quick"))
@pytest.mark.parametrize("status", ["error", "not_run", "skipped", None])
def test_only_a_check_with_status_ran_can_pass(judge_case, name, status):
    case = {"base": "compute_blade", "kind": "compute_blade", "change": {name: {"status": status}}}
    report = judge_case(case)
    assert report.verdict == "incomplete"
    assert report.find_check_result(name).outcome == "not_run"


@pytest.mark.parametrize("name", burnin.list_required_checks("compute_blade", "quick"))
def test_missing_required_check_prevents_a_healthy_verdict(judge_case, name):
    report = judge_case({"base": "compute_blade", "kind": "compute_blade", "drop": [name]})
    assert (report.verdict, report.find_check_result(name).reason) == (
        "incomplete",
        "the records do not contain this check",
    )


def test_only_the_last_attempt_is_judged(records_of):
    broken = records_of({"base": "compute_blade", "change": {"cpu": {"raw.wrong": 9}}})
    report = burnin.judge_attempt([*broken, *records_of({"base": "compute_blade"})], "compute_blade", "quick")
    assert report.verdict == "healthy"


def test_report_names_threshold_and_source(judge_case):
    check = judge_case({"base": "compute_blade", "kind": "compute_blade"}).find_check_result("memory")
    assert (check.measured, check.unit, check.threshold) == (2700.0, "MB/s", 2080.0)
    assert "sbc-bench/issues/32" in check.threshold_source


@pytest.mark.parametrize(("kind", "profile"), [("toaster", "quick"), ("compute_blade", "eternal")])
def test_unknown_kind_or_profile_is_an_input_error(kind, profile):
    with pytest.raises(InputError, match="one of"):
        burnin.judge_attempt([], kind, profile)


def load_recorded_run(name):
    """Return the records of a recorded run."""
    return [
        json.loads(line) for line in (VERDICTS[0].parents[1] / "recorded" / name).read_text().splitlines()
    ]


@pytest.mark.parametrize(("rehearsal", "verdict"), [(True, "healthy"), (False, "incomplete")])
def test_recorded_blade_of_a_rehearsal_is_healthy_only_in_a_rehearsal(rehearsal, verdict):
    records = load_recorded_run("rehearsed-blade.jsonl")
    report = burnin.judge_attempt(records, "compute_blade", "quick", rehearsal, is_configured=True)
    assert report.verdict == verdict, report.list_unhealthy_reasons()


def test_recorded_full_disk_is_faulty():
    report = burnin.judge_attempt(
        load_recorded_run("full-disk.jsonl"), "cloud_vm", "quick", rehearsal=True, is_configured=False
    )
    assert report.verdict == "faulty"
    assert report.list_unhealthy_reasons()[1].startswith(
        "storage: the root filesystem is full (0 of size, at least 0.05 of size)"
    )
