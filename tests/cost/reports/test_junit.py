from __future__ import annotations

import xml.etree.ElementTree as ET
from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.cost import CostPolicy


@pytest.fixture
def suite(make_resource, book):
    """Return the one suite in the report of a new machine and an unknown type, under a policy."""

    def build(name="b", **limits):
        strange = make_resource("s", "aws:medialive/channel:Channel")
        cost_diff = cost.diff(
            [strange],
            [make_resource(name), strange],
            CostPolicy(**limits),
            book=book,
            change=cost.StackChange(stack="prod"),
        )
        root = ET.fromstring(cost.render_diff(cost_diff, "junit"))
        assert root.tag == "testsuites"
        return root[0]

    return build


def test_each_limit_is_a_case_and_a_violated_one_fails(suite):
    cost_diff = suite(budget_usd_per_month=Decimal(1), max_price_age_days=9999)
    cases = {case.get("name"): case for case in cost_diff.iter("testcase")}
    failed = cases["budget_usd_per_month: at most $1.00 a month"].find("failure")
    assert failed.get("message") == "$16,036.38 a month is over the budget of $1.00"
    assert failed.get("type") == "budget_usd_per_month"
    assert len(cases["max_price_age_days: no price older than 9999 days"]) == 0
    assert (cost_diff.get("tests"), cost_diff.get("failures"), cost_diff.get("skipped")) == ("4", "1", "1")


def test_unpriced_resource_is_a_skipped_case(suite):
    (case,) = (case for case in suite().iter("testcase") if case.get("classname") == "gpufleet.cost.unpriced")
    assert "unknown type aws:medialive/channel:Channel" in case.find("skipped").get("message")


def test_report_without_limits_has_a_nonempty_suite(suite):
    case = next(suite().iter("testcase"))
    assert case.find("system-out").text.startswith(
        "This change raises the monthly cost of prod by $16,036.38"
    )


def test_names_with_characters_that_xml_forbids_are_written(make_resource, book):
    strange = make_resource('<&">\x00\x1b\ud800', "acme:index:Thing")
    text = cost.render_diff(cost.diff([], [strange], book=book), "junit")
    (case,) = (case for case in ET.fromstring(text).iter("testcase") if case.find("skipped") is not None)
    assert case.get("name").startswith('<&">\ufffd\ufffd\ufffd')
