"""Test the JUnit report: counts, outcomes, and the structure that CI servers read."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.burnin.junit import render_junit_xml

# Elements with their required attributes, other attributes, and children: junit-10.xsd of Jenkins' xUnit plugin, as
# pytest 81ae293 keeps it (testing/example_scripts/junit-10.xsd), read 2026-11-23.
SCHEMA = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {
            "group",
            "time",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
            "file",
            "log",
            "url",
            "version",
        },
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": (
        {"name"},
        {"time", "classname", "group"},
        {"skipped", "errors", "failure", "system-out", "system-err"},
    ),
    "failure": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def parse_valid(text):
    """Return the root of a document that follows the schema."""
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    for element in root.iter():
        required, optional, children = SCHEMA[element.tag]
        assert required <= set(element.attrib) <= required | optional, element.tag
        assert {child.tag for child in element} <= children, element.tag
        if element.tag in {"testcase", "testsuite", "testsuites", "properties"}:
            assert not (element.text or "").strip()
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.get("tests")) == len(cases)
        for count, tag in (("failures", "failure"), ("skipped", "skipped")):
            assert int(suite.get(count)) == sum(case.find(tag) is not None for case in cases)
    assert int(root.get("tests")) == sum(int(suite.get("tests")) for suite in root)
    assert int(root.get("failures")) == sum(int(suite.get("failures")) for suite in root)
    return root


def build_report(judge_case, **change):
    return judge_case({"base": "compute_blade", "kind": "compute_blade", **change}).as_json()


def test_each_node_is_a_suite_and_each_check_a_case(judge_case):
    reports = [build_report(judge_case) | {"node": name} for name in ("a", "b")]
    root = parse_valid(render_junit_xml(reports))
    assert [suite.get("name") for suite in root] == ["a", "b"]
    names = [case.get("name") for case in root[0].iter("testcase")]
    assert names == [*(check["name"] for check in reports[0]["checks"]), "verdict"]
    assert root.get("failures") == "0"
    properties = {entry.get("name"): entry.get("value") for entry in root[0].iter("property")}
    assert (properties["verdict"], properties["profile"]) == ("healthy", "quick")


def test_failure_names_reason_measurement_and_source(judge_case):
    report = build_report(judge_case, change={"memory": {"raw.copy_mb_per_s": 900.0}})
    (suite,) = parse_valid(render_junit_xml([report]))
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    failure = cases["memory"].find("failure")
    assert failure.get("message") == "memory copies slowly (900 MB/s, at least 2080 MB/s)"
    assert failure.text.startswith("measured 900 MB/s; threshold 2080.0; source github.com/")
    assert cases["verdict"].find("failure").get("type") == "faulty"


def test_warning_passes_and_is_reported(judge_case):
    report = build_report(judge_case, change={"pi_throttled": {"raw.text": "throttled=0x50005"}})
    (suite,) = parse_valid(render_junit_xml([report]))
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert cases["pi_throttled"].find("system-out").text.startswith("warning: under-voltage now")
    assert (cases["verdict"].find("system-out").text, suite.get("failures")) == ("degraded", "0")


def test_check_that_did_not_run_is_skipped_and_the_verdict_fails(judge_case):
    report = build_report(judge_case, drop=["memory"])
    (suite,) = parse_valid(render_junit_xml([report]))
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert cases["memory"].find("skipped").get("message") == "the records do not contain this check"
    assert cases["verdict"].find("failure").get("type") == "incomplete"


def test_report_without_nodes_is_valid():
    assert len(parse_valid(render_junit_xml([]))) == 0


@given(st.text(max_size=40), st.sampled_from(["pass", "warn", "fail", "not_run"]))
def test_hostile_text_stays_text(text, outcome):
    check = {
        "name": text, "outcome": outcome, "measured": text, "unit": text, "threshold": text,
        "threshold_source": text, "reason": text,
    }  # fmt: skip
    report = {"node": text, "attempt": text, "profile": text, "verdict": "faulty", "started_at": text}
    root = parse_valid(render_junit_xml([{**report, "ended_at": None, "checks": [check]}]))
    assert len(list(root.iter("testcase"))) == 2


@pytest.mark.parametrize("started_at", [None, "2026-11-21T11:00:00Z"])
def test_time_is_given_without_a_zone_or_not_at_all(judge_case, started_at):
    (suite,) = parse_valid(render_junit_xml([build_report(judge_case) | {"started_at": started_at}]))
    assert suite.get("timestamp") == (started_at and "2026-11-21T11:00:00")
