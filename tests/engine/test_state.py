"""Test that recorded states become typed resources."""

from __future__ import annotations

import pytest

from gpufleet.engine import SECRET, parse_stack_state
from gpufleet.errors import InputError


def by_name(resources):
    return {resource.name: resource for resource in resources}


def test_state_has_every_resource_with_its_id(load_recording):
    resources = by_name(parse_stack_state(load_recording("state")))
    assert {"gpufleet-case", "train", "net", "sub", "node-0", "node-1"} <= set(resources)
    assert resources["node-0"].id.startswith("i-")
    assert resources["node-0"].outputs["instanceType"] == "g5.2xlarge"


def test_protect_and_retain_on_delete_flags_are_read(load_recording):
    resources = by_name(parse_stack_state(load_recording("state")))
    assert resources["net"].protect
    assert resources["sub"].retain_on_delete
    assert not resources["node-0"].protect
    assert not resources["train"].custom


def test_providers_are_distinguished_from_resources(load_recording):
    providers = [r for r in parse_stack_state(load_recording("state")) if r.is_provider_resource]
    assert [p.type for p in providers] == ["pulumi:providers:aws"]


@pytest.mark.parametrize("name", ["state", "state-plaintext"])
def test_secrets_are_never_read(load_recording, name):
    resources = by_name(parse_stack_state(load_recording(name)))
    assert resources["gpufleet-case"].outputs["password"] is SECRET
    assert resources["node-0"].inputs["userData"] is SECRET


def test_unfinished_creation_is_listed_as_pending(load_recording):
    document = load_recording("state-interrupted")
    open_urns = {item["resource"]["urn"] for item in document["deployment"]["pending_operations"]}
    pending = [r for r in parse_stack_state(document) if r.pending]
    assert {r.urn for r in pending} == open_urns
    assert {r.pending for r in pending} == {"creating"}


def test_pending_deletion_and_external_are_read(load_recording):
    document = load_recording("state")
    document["deployment"]["resources"][-1] |= {"delete": True, "external": True}
    last = parse_stack_state(document)[-1]
    assert last.delete
    assert last.external


def test_empty_stack_has_no_resources():
    assert parse_stack_state({"version": 3, "deployment": {"manifest": {}}}) == []


@pytest.mark.parametrize("document", [{}, {"steps": []}, {"deployment": None}, []])
def test_document_that_is_not_a_state_is_refused(document):
    with pytest.raises(InputError, match="not the state of a stack"):
        parse_stack_state(document)


def test_pending_operation_on_a_recorded_resource_is_not_listed_twice(load_recording):
    document = load_recording("state")
    last = document["deployment"]["resources"][-1]
    document["deployment"]["pending_operations"] = [{"resource": last, "type": "updating"}]
    urns = [resource.urn for resource in parse_stack_state(document)]
    assert len(urns) == len(set(urns)) == len(document["deployment"]["resources"])
    assert parse_stack_state(document)[-1].pending == "updating"
