"""Test other inputs: event logs, states and the Automation API."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufleet import cost, engine
from gpufleet.cost.analysis.reports import DIFF_FORMATS
from gpufleet.cost.inputs.automation import change_from_automation
from gpufleet.cost.inputs.stack_change import change_from_events, change_from_preview
from gpufleet.cost.pricing.pricers import PRICERS
from gpufleet.engine import SECRET, UNKNOWN, StateResource
from gpufleet.engine.property_value import SECRET_SIGNATURE, SIGNATURE_KEY, UNKNOWN_SENTINELS

CASES = Path(__file__).resolve().parents[1] / "cases"
LOGS = CASES / "engine"
URN = "urn:pulumi:dev::p::aws:ec2/instance:Instance::a"
SECRET_TEXT = "hush-hush"


def test_event_log_is_read_from_standard_input(gpufleet, tmp_path):
    log = (LOGS / "events-preview.jsonl").read_text()
    result = gpufleet("cost", "diff", "--event-log", "-", "--json", cwd=tmp_path, stdin=log)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["stack"] == "dev"
    assert document["before"]["usd_per_month"] == 0
    assert not document["partial"]


def test_state_is_priced_and_compared(gpufleet, tmp_path):
    state = {
        "deployment": {
            "resources": [
                {"urn": URN, "custom": True, "inputs": {"instanceType": "g5.2xlarge", "region": "us-east-1"}}
            ]
        }
    }
    result = gpufleet("cost", "estimate", "--state", "-", "--json", cwd=tmp_path, stdin=json.dumps(state))
    assert result.returncode == 0, result.stderr
    assert [line["item"] for line in json.loads(result.stdout)["resources"]] == [
        "ebs:gp3",
        "g5.2xlarge",
        "public_ipv4",
    ]
    result = gpufleet(
        "cost", "diff", "--state", "-", "--project", CASES / "programs" / "spot-fleet", "-s", "dev", "--json",
        cwd=tmp_path, stdin=json.dumps(state),
    )  # fmt: skip
    ops = {line["name"]: line["op"] for line in json.loads(result.stdout)["resources"]}
    assert ops["a"] == "delete"
    assert ops["workers"] == "create"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["diff", "--event-log", "-"], "standard input: is empty: the Pulumi engine wrote no event"),
        (["diff", "--event-log", "none.jsonl"], "none.jsonl: cannot be read: No such file"),
        (["estimate", "--state", "-", "-s", "x"], "--state: cannot be combined with --stack"),
        (["estimate", "--usage", "none.yaml", "-s", "x"], "none.yaml: cannot be read: No such file"),
    ],
)
def test_mistakes_are_reported_in_one_line(gpufleet, tmp_path, arguments, message):
    result = gpufleet("cost", *arguments, cwd=tmp_path, stdin="")
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_truncated_log_is_partial():
    text = "\n".join((LOGS / "events-preview.jsonl").read_text().splitlines()[:-3])
    cost_diff = cost.diff_from_event_log(engine.parse_last_phase_of_log(text, "log"))
    assert cost_diff.partial
    assert "is cut off before the engine's summary" in cost_diff.warnings[-1]


def test_failed_update_is_partial():
    events = [
        {"resourcePreEvent": {"metadata": {"op": "create", "urn": URN, "new": {"urn": URN, "custom": True}}}},
        {"resOpFailedEvent": {"metadata": {"op": "create", "urn": URN}}},
        {"summaryEvent": {"resourceChanges": {"create": 1}}},
    ]
    assert "the update failed at 1" in change_from_automation(events).warnings[-1]


class FakePreviewResult:
    """The one thing of a ``PreviewResult`` that is read."""

    def __init__(self):
        self.change_summary = {"create": 9}


def test_automation_api_summary_replaces_a_missing_summary_event():
    from pulumi.automation.events import EngineEvent

    lines = [json.loads(line) for line in (LOGS / "events-preview.jsonl").read_text().splitlines()]
    events = [EngineEvent.from_json(line) for line in lines if "summaryEvent" not in line]
    complete_change = change_from_automation(
        [*events, EngineEvent.from_json(next(x for x in lines if "summaryEvent" in x))]
    )
    assert not complete_change.partial
    assert change_from_automation(events, FakePreviewResult()).partial
    assert change_from_automation(events).partial
    assert len(complete_change.after) == len(
        change_from_events(
            engine.parse_last_phase_of_log((LOGS / "events-preview.jsonl").read_text(), "log")
        ).after
    )


def test_no_report_shows_a_secret_of_an_event_log(book):
    secret = {SIGNATURE_KEY: SECRET_SIGNATURE, "plaintext": json.dumps(SECRET_TEXT)}
    inputs = {
        "instanceType": "g5.2xlarge",
        "region": "us-east-1",
        "userData": secret,
        "keyName": secret,
        "tags": secret,
    }
    new = {"urn": URN, "custom": True, "inputs": inputs, "outputs": {"password": SECRET_TEXT}}
    change = change_from_automation(
        [{"resourcePreEvent": {"metadata": {"op": "create", "urn": URN, "new": new}}}, {"summaryEvent": {}}]
    )
    cost_diff = cost.diff(change.before, change.after, change=change, book=book)
    for form in DIFF_FORMATS:
        assert SECRET_TEXT not in cost.render_diff(cost_diff, form)


@pytest.mark.parametrize("sentinel", sorted(UNKNOWN_SENTINELS))
def test_unknown_size_is_never_priced_as_zero(sentinel, book):
    group = {
        "minSize": 1,
        "desiredCapacity": sentinel,
        "maxSize": 4,
        "region": "us-east-1",
        "launchConfiguration": "c",
    }
    config = {"name": "c", "instanceType": "g5.2xlarge", "rootBlockDevice": {"volumeSize": sentinel}}
    steps = [
        {"op": "create", "urn": urn, "newState": {"urn": urn, "custom": True, "inputs": inputs}}
        for urn, inputs in (
            ("urn:pulumi:dev::p::aws:autoscaling/group:Group::g", group),
            ("urn:pulumi:dev::p::aws:ec2/launchConfiguration:LaunchConfiguration::c", config),
        )
    ]
    change = change_from_preview({"steps": steps, "changeSummary": {"create": 2}})
    machine = next(c for c in cost.price_resources(change.after, book).charges if c.component == "machine")
    assert (machine.quantity.low, machine.quantity.expected, machine.quantity.high) == (1, 4, 4)


CREATED = [
    (step["newState"]["type"], step["newState"]["inputs"])
    for path in sorted((CASES / "cost").glob("*.json"))
    if not path.stem.startswith("recorded")
    for step in json.loads(path.read_text())["preview"]["steps"]
    if step.get("newState") and step["newState"].get("inputs") and step["newState"].get("type")
]


def replace_randomly(value, dice):
    """Put markers and odd values in random places."""
    if dice.random() < 0.15:
        return dice.choice([UNKNOWN, SECRET, None, "", -1, [], {}, "x", 3.5, True])
    if isinstance(value, dict):
        return {key: replace_randomly(item, dice) for key, item in value.items()}
    return [replace_randomly(item, dice) for item in value] if isinstance(value, list) else value


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(seed=st.integers())
def test_any_input_can_be_priced(seed, book):
    dice = random.Random(seed)
    resources = [
        StateResource(f"urn:pulumi:s::p::{kind}::{at}", kind, str(at), replace_randomly(inputs, dice), {})
        for at, (kind, inputs) in enumerate(dice.sample(CREATED, 12))
        if kind in PRICERS or "emplate" in kind or "utoscal" in kind
    ]
    resources = [resource for resource in resources if isinstance(resource.inputs, dict)]
    bill = cost.price_resources(resources, book)
    assert bill.usd_per_month.low <= bill.usd_per_month.expected <= bill.usd_per_month.high


def test_duplicate_urn_is_a_warning():
    urn = "urn:pulumi:dev::p::aws:ec2/instance:Instance::a"
    step = {"op": "create", "urn": urn, "newState": {"urn": urn, "type": "aws:ec2/instance:Instance"}}
    warnings = change_from_preview({"steps": [step, step]}).warnings
    assert "a: 2 create steps with one URN, only the last is counted" in warnings
    assert not change_from_preview({"steps": [step]}).warnings
