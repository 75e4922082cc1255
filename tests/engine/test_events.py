"""Test that recorded event logs become typed steps, and that invalid logs are refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.engine import SECRET, UNKNOWN, parse_last_phase_of_events, parse_last_phase_of_log
from gpufleet.engine.property_value import SECRET_SIGNATURE, SIGNATURE_KEY
from gpufleet.errors import InputError

CASES = Path(__file__).resolve().parents[1] / "cases" / "engine"
URN = "urn:pulumi:dev::p::aws:ec2/instance:Instance::a"


@pytest.fixture
def read_log():
    return lambda name: (CASES / f"{name}.jsonl").read_text()


def pre(op="create", *, planning=True, **state):
    new = {"urn": URN, "type": "aws:ec2/instance:Instance", "custom": True, "inputs": {}, **state}
    return {
        "resourcePreEvent": {
            "metadata": {"op": op, "urn": URN, "old": None, "new": new},
            "planning": planning,
        }
    }


def summary(**counts):
    return {"summaryEvent": {"resourceChanges": counts}}


def test_preview_log_has_steps_and_summary(read_log):
    events = parse_last_phase_of_log(read_log("events-preview"), "log")
    assert events.is_preview
    assert not events.is_truncated
    assert events.summary == {"create": 5}
    fleet = next(step for step in events.steps if step.urn.endswith("::workers"))
    assert (
        fleet.new.inputs["launchTemplateConfigs"][0]["launchTemplateSpecification"]["launchTemplateId"]
        is UNKNOWN
    )


def test_update_log_has_the_ids_of_created_resources(read_log):
    events = parse_last_phase_of_log(read_log("events-update"), "log")
    assert not events.is_preview
    template = next(step.new for step in events.steps if step.urn.endswith("::worker"))
    fleet = next(step.new for step in events.steps if step.urn.endswith("::workers"))
    named = fleet.inputs["launchTemplateConfigs"][0]["launchTemplateSpecification"]["launchTemplateId"]
    assert template.id == named


def test_update_after_a_preview_in_one_log_is_used(read_log):
    both = read_log("events-preview") + read_log("events-update")
    assert not parse_last_phase_of_log(both, "log").is_preview


def test_truncated_log_keeps_its_complete_events(read_log):
    text = read_log("events-preview")
    events = parse_last_phase_of_log(text[: len(text) // 2], "log")
    assert events.is_truncated
    assert events.summary is None
    assert events.steps


def test_secrets_are_never_read():
    secret = {SIGNATURE_KEY: SECRET_SIGNATURE, "plaintext": '"hush"'}
    events = parse_last_phase_of_events([pre(inputs={"userData": secret}, outputs={"key": "[secret]"})])
    assert events.steps[0].new.inputs["userData"] is SECRET
    assert events.steps[0].new.outputs["key"] is SECRET
    assert "hush" not in repr(events)


def test_failed_preview_is_refused_with_its_cause_and_without_colour_codes():
    error = {
        "diagnosticEvent": {"severity": "error", "message": "<{%fg 1%}>error: no such zone<{%reset%}>\n"}
    }
    with pytest.raises(
        InputError, match=r"the preview failed: no such zone$|the preview failed: no such zone;"
    ):
        parse_last_phase_of_events([pre(), error])


def test_failed_update_lists_the_failed_resources():
    failed = {"resOpFailedEvent": {"metadata": {"op": "create", "urn": URN}}}
    events = parse_last_phase_of_events([pre(planning=False), failed, summary(create=1)])
    assert events.failed == [URN]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "log: is empty: the Pulumi engine wrote no event"),
        ("hello\n", "log:1: is not an engine event: Expecting value"),
        ('{"steps": []}\n', "log:1: is not an engine event: it contains no event"),
        ("[]\n", "log:1: is not an engine event: not an object"),
        ('{"sequence": 1}\n{\n{"sequence": 2}\n', "log:2: is not an engine event"),
        ('{"resourcePreEvent": {}}\n', "log: contains an engine event of unknown structure: KeyError"),
        (
            '{"summaryEvent": {"resourceChanges": {"create": "x"}}}\n',
            "log: contains an engine event of unknown structure: ValueError",
        ),
    ],
)
def test_invalid_log_is_refused_in_one_line(text, line):
    with pytest.raises(InputError) as excinfo:
        parse_last_phase_of_log(text, "log")
    assert str(excinfo.value).startswith(line)
    assert "\n" not in str(excinfo.value)


def test_every_event_type_of_the_sdk_is_known():
    from pulumi.automation.events import EngineEvent

    from gpufleet.engine.event_log import KINDS

    documented = {
        "cancelEvent",
        "diagnosticEvent",
        "preludeEvent",
        "summaryEvent",
        "resourcePreEvent",
        "resOutputsEvent",
    }
    for kind in documented:
        assert kind in KINDS
    event = EngineEvent.from_json(json.loads((CASES / "events-preview.jsonl").read_text().splitlines()[1]))
    assert event.resource_pre_event is not None
