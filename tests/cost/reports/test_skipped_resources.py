"""Test ``--show-skipped``: every resource has a charge, is listed without price, or is skipped with a reason."""

from __future__ import annotations

import json
from collections import Counter

import jsonschema
import pytest

from gpufleet import cost
from gpufleet.cost import evaluate_program
from gpufleet.cost.analysis.reports.json_document import load_diff_schema

SUBNET = "aws:ec2/subnet:Subnet"


@pytest.fixture
def resources(make_resource):
    return [
        make_resource("a"),
        make_resource("net", SUBNET, {}),
        make_resource("net2", SUBNET, {}),
        make_resource("group", "acme:Group", {}, custom=False),
        make_resource("read", "aws:ec2/eip:Eip", {}, external=True),
        make_resource("?", "acme:cloud:Thing", {}),
    ]


def test_each_resource_is_billed_unpriced_or_skipped(resources, book):
    bill = cost.price_resources(resources, book)
    counts = Counter({each.urn for each in bill.charges})
    counts.update({each.urn for each in bill.unpriced_resources})
    counts.update(each.urn for each in bill.skipped_resources)
    assert counts == {each.urn: 1 for each in resources}
    assert {each.name: each.reason for each in bill.skipped_resources} == {
        "net": "networks are not billed",
        "net2": "networks are not billed",
        "group": "a component: the resources in it are billed",
        "read": "managed elsewhere: the program only reads it",
    }


def test_resource_that_costs_nothing_as_declared_is_skipped(make_resource, book):
    group = make_resource("g", "aws:autoscaling/policy:Policy", {})
    (skipped,) = cost.price_resources([group], book).skipped_resources
    assert skipped.reason == "the group is billed"


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_report_lists_skipped_resources_only_on_request(resources, book, form):
    diff = cost.diff([], resources, book=book)
    kind = f"`{SUBNET}`" if form == "markdown" else SUBNET
    line = f"{kind} (net, net2): networks are not billed"
    assert line in cost.render_diff(diff, form, show_skipped=True)
    assert "networks are not billed" not in cost.render_diff(diff, form)


def test_estimate_lists_skipped_resources_only_on_request(resources, book):
    estimate = cost.estimate(resources, book=book)
    assert "networks are not billed" in cost.render_estimate(estimate, "table", show_skipped=True)
    assert "networks are not billed" not in cost.render_estimate(estimate, "table")
    document = json.loads(cost.render_estimate(estimate, "json", show_skipped=True))
    assert [each["name"] for each in document["skipped"]] == ["group", "read", "net", "net2"]  # by URN
    assert "skipped" not in json.loads(cost.render_estimate(estimate, "json"))


def test_json_of_a_difference_keeps_its_schema(resources, book):
    document = json.loads(cost.render_diff(cost.diff([], resources, book=book), "json", show_skipped=True))
    jsonschema.validate(document, load_diff_schema())
    assert len(document["skipped"]) == 4


def test_hostile_name_is_printable(make_resource, book):
    diff = cost.diff([], [make_resource("x\x1b[31m\n| y |", SUBNET, {})], book=book)
    text = cost.render_diff(diff, "markdown", show_skipped=True)
    assert "\x1b" not in text
    assert "\n| y |" not in text


def test_command_accounts_for_every_resource_of_a_program(gpufleet, project):
    result = gpufleet("cost", "estimate", "-s", "dev", "--show-skipped", "--json", cwd=project)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    listed = {each["urn"] for key in ("resources", "unpriced", "skipped") for each in document[key]}
    assert listed == {each.urn for each in evaluate_program(project, "dev")}
