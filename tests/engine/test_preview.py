"""Test that recorded previews become typed steps, and that other documents are refused in one line."""

from __future__ import annotations

import pytest

from gpufleet.engine import SECRET, UNKNOWN, parse_pulumi_preview
from gpufleet.errors import InputError

URN = "urn:pulumi:a::b::c::d"


def creation_step(**overrides):
    return {"op": "create", "urn": URN, "newState": {"urn": URN, **overrides}}


def operation_counts(steps):
    return {step.urn.rsplit("::", 1)[-1]: step.op for step in steps}


def test_steps_have_their_operation(load_recording):
    steps = operation_counts(parse_pulumi_preview(load_recording("preview-changes")))
    assert steps["node-0"] == "update"
    assert steps["node-1"] == "replace"
    assert steps["node-2"] == "create"
    assert steps["net"] == "same"


def test_replacement_has_its_reasons(load_recording):
    step = next(s for s in parse_pulumi_preview(load_recording("preview-changes")) if s.op == "replace")
    assert step.replace_reasons == ("ami",)
    assert step.old.inputs["ami"] != step.new.inputs["ami"]


def test_first_preview_has_no_old_states_and_unknown_ids(load_recording):
    node = next(s for s in parse_pulumi_preview(load_recording("preview-first")) if s.urn.endswith("node-0"))
    assert node.old is None
    assert node.new.inputs["subnetId"] is UNKNOWN
    assert node.new.inputs["userData"] is SECRET


def test_unchanged_resources_need_the_show_sames_option(load_recording):
    assert len(parse_pulumi_preview(load_recording("preview-unchanged"))) == 1  # the stack itself
    assert {s.op for s in parse_pulumi_preview(load_recording("preview-same"))} == {"same"}
    assert len(parse_pulumi_preview(load_recording("preview-same"))) == 6


def test_component_is_not_custom_and_is_the_parent_of_its_children(load_recording):
    steps = {s.urn.rsplit("::", 1)[-1]: s.new for s in parse_pulumi_preview(load_recording("preview-same"))}
    assert not steps["train"].custom
    assert steps["node-0"].parent == steps["train"].urn
    assert steps["node-0"].name == "node-0"
    assert steps["node-0"].type == "aws:ec2/instance:Instance"


def test_failed_preview_is_refused_with_its_cause(load_recording):
    with pytest.raises(InputError, match="ValueError: the fleet has no pool of that name"):
        parse_pulumi_preview(load_recording("preview-failed"))


def test_cause_is_preferred_to_a_generic_message():
    entries = [{"severity": "error", "message": text} for text in ("preview failed", "error: no such image")]
    with pytest.raises(InputError, match="the preview failed: no such image"):
        parse_pulumi_preview({"diagnostics": entries, "steps": []})


def test_unknown_operation_keeps_its_name(load_recording):
    document = load_recording("preview-same")
    document["steps"][2]["op"] = "teleport"
    assert parse_pulumi_preview(document)[2].op == "teleport"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "it has no 'steps'"),
        ({"deployment": {}}, "the state of a stack"),
        ({"sequence": 1, "timestamp": 2}, "one event of a stream"),
        ([], "a list or a plain value"),
        ({"steps": [{"urn": "x"}]}, "without 'op'"),
        ({"steps": [{"op": "same", "newState": {"urn": "x"}}]}, "without a URN"),
        ({"steps": [{"op": "create", "newState": {"urn": URN}}]}, "a step without a URN"),
        ({"steps": [{"op": "create", "urn": 7}]}, "a step without a URN"),
        ({"steps": [{"op": "create", "urn": URN}]}, "a step without a state"),
        (
            {"steps": [{"op": "create", "urn": URN, "newState": "x"}]},
            "the input contains a resource that is not a mapping",
        ),
        ({"steps": [creation_step(inputs="x")]}, "the properties of a resource are not a mapping: 'x'"),
        ({"steps": [creation_step(outputs=[1])]}, "the properties of a resource are not a mapping"),
        ({"steps": [creation_step(propertyDependencies=[1])]}, "propertyDependencies: is not a mapping"),
        ({"steps": [creation_step(ignoreChanges=3)]}, "ignoreChanges: is not a list"),
        ({"steps": [], "diagnostics": "x"}, "diagnostics have an unknown structure"),
    ],
)
def test_document_that_is_not_a_preview_is_refused_in_one_line(document, message):
    with pytest.raises(InputError, match=message) as excinfo:
        parse_pulumi_preview(document)
    assert "\n" not in str(excinfo.value)
