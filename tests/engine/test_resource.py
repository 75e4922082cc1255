"""Test every field of a resource record and of a step in an event log."""

from __future__ import annotations

import json

import pytest

from gpufleet.engine import parse_stack_state
from gpufleet.engine.event_log import parse_last_phase_of_log
from gpufleet.engine.state import parse_state_resource
from gpufleet.errors import InputError

URN = "urn:pulumi:dev::p::a:b:C$aws:ec2/instance:Instance::node::1"
BARE = {"urn": URN}
FLAGS = {
    "custom": "custom", "external": "external", "protect": "protect", "retainOnDelete": "retain_on_delete",
    "delete": "delete", "pendingReplacement": "pending_replacement", "remote": "remote",
}  # fmt: skip


def test_minimal_record_has_no_flag_set():
    resource = parse_state_resource(BARE)
    assert (resource.urn, resource.type, resource.name) == (URN, "aws:ec2/instance:Instance", "node::1")
    assert not any(getattr(resource, name) for name in FLAGS.values())
    assert (resource.inputs, resource.outputs, resource.ignore_changes, resource.property_dependencies) == (
        {},
        {},
        (),
        {},
    )
    assert (resource.parent, resource.provider, resource.id, resource.view_of, resource.pending) == (
        None,
    ) * 5


@pytest.mark.parametrize(("key", "name"), FLAGS.items())
def test_each_flag_is_read_from_its_own_key(key, name):
    resource = parse_state_resource({**BARE, key: True})
    assert {flag for flag in FLAGS.values() if getattr(resource, flag)} == {name}


def test_complete_record_is_read():
    resource = parse_state_resource(
        {
            **BARE, "type": "t:u:V", "inputs": {"a": 1}, "outputs": {"b": 2}, "parent": "P", "provider": "Q",
            "id": "i-1", "viewOf": "W", "ignoreChanges": ["x", "y"],
            "propertyDependencies": {"a": ["U"], "b": None},
        },
        pending_operation="creating",
    )  # fmt: skip
    assert (resource.type, resource.inputs, resource.outputs) == ("t:u:V", {"a": 1}, {"b": 2})
    assert (resource.parent, resource.provider, resource.id, resource.view_of) == ("P", "Q", "i-1", "W")
    assert (resource.ignore_changes, resource.property_dependencies) == (("x", "y"), {"a": ("U",), "b": ()})
    assert resource.pending == "creating"


@pytest.mark.parametrize("urn", [None, 7, "", "urn:pulumi:dev::p::t"])
def test_record_without_a_urn_is_refused(urn):
    with pytest.raises(InputError, match="a resource without a URN"):
        parse_state_resource({"urn": urn})


@pytest.mark.parametrize("key", ["ignoreChanges", "propertyDependencies"])
def test_field_of_wrong_type_is_refused_by_name(key):
    with pytest.raises(InputError, match=f"{key}: is not a (list|mapping)"):
        parse_state_resource({**BARE, key: "x"})


@pytest.mark.parametrize("key", ["resources", "pending_operations"])
def test_list_of_wrong_type_is_refused_by_name(key):
    with pytest.raises(InputError, match=f"{key}: is not a list"):
        parse_stack_state({"deployment": {key: {"a": 1}}})
    with pytest.raises(InputError, match=f"{key}: is not a mapping"):
        parse_stack_state({"deployment": {key: ["x"]}})


def events(*entries):
    return "\n".join(json.dumps({"sequence": at, **event}) for at, event in enumerate(entries))


def started_event(op, **metadata):
    return {"resourcePreEvent": {"planning": False, "metadata": {"op": op, "urn": URN, **metadata}}}


def completed_event(op, **metadata):
    return {"resOutputsEvent": {"metadata": {"op": op, "urn": URN, **metadata}}}


def test_step_has_both_states_and_its_reasons():
    log = events(
        started_event("replace", old={**BARE, "id": "1"}, new=BARE, diffs=["size"], keys=["zone", "size"])
    )
    (step,) = parse_last_phase_of_log(log, "log").steps
    assert (step.op, step.urn, step.old.id, step.new.urn) == ("replace", URN, "1", URN)
    assert (step.diff_reasons, step.replace_reasons) == (("size",), ("zone", "size"))


def test_outputs_are_assigned_to_the_step_of_their_operation():
    created = {**BARE, "id": "i-2", "outputs": {"ip": "10.0.0.1"}}
    first, second = parse_last_phase_of_log(
        events(
            started_event("delete-replaced", old=BARE),
            started_event("create-replacement", new=BARE),
            completed_event("create-replacement", new=created),
        ),
        "log",
    ).steps
    assert first.new is None
    assert (second.new.id, second.new.outputs) == ("i-2", {"ip": "10.0.0.1"})


@pytest.mark.parametrize(
    "late", [completed_event("create"), completed_event("same", new={**BARE, "id": "x"})]
)
def test_outputs_without_a_matching_step_are_ignored(late):
    log = events(started_event("create", new={**BARE, "id": "i-1"}), late)
    (step,) = parse_last_phase_of_log(log, "log").steps
    assert step.new.id == "i-1"


def test_failed_resources_are_recorded_and_a_summary_starts_a_new_phase():
    summary = {"summaryEvent": {"resourceChanges": {"create": 2}}}
    failed = {"resOpFailedEvent": {"metadata": {"urn": URN}}}
    resource = parse_last_phase_of_log(
        events(
            started_event("create", new=BARE), summary, started_event("update", new=BARE), failed, summary
        ),
        "log",
    )
    assert [step.op for step in resource.steps] == ["update"]
    assert (resource.failed, resource.summary, resource.is_preview) == ([URN], {"create": 2}, False)
