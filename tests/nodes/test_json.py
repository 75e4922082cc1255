"""Test the printed JSON of nodes against its schema and the documented keys."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest
from jsonschema import Draft202012Validator

from gpufleet.nodes import HOLDS, STATES, NodeIdentity, NodeObservation

SCHEMA = json.loads(files("gpufleet.nodes").joinpath("data/nodes-list.schema.json").read_text())
PLACE = ("id", "name", "kind", "cloud", "region", "pool", "rack", "slot", "template", "address")
KEYS = [*PLACE, "reachable", "state", "why", "holds", "accelerators", "usd_per_hour", "sources"]


@pytest.fixture
def listed_nodes(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    registry.set_node_hold("blade01", "cost", "test")
    card = {"model": "A10G", "memory_gib": 24.0, "count": 1}
    values = {"kind": "cloud_vm", "cloud": "aws", "accelerators": [card], "usd_per_hour": 1.212}
    registry.apply_observation(
        NodeObservation("pulumi:dev", "dev-a-1", NodeIdentity(instance_id="i-1"), declared=values)
    )
    return json.loads(json.dumps([node.as_json() for node in registry.list_nodes()]))


def test_schema_is_valid():
    Draft202012Validator.check_schema(SCHEMA)


def test_printed_json_matches_the_schema(listed_nodes):
    assert list(Draft202012Validator(SCHEMA).iter_errors(listed_nodes)) == []


def test_printed_json_has_the_documented_keys(listed_nodes):
    assert all(list(node) == KEYS for node in listed_nodes)


def test_schema_lists_every_state_and_hold():
    properties = SCHEMA["items"]["properties"]
    assert properties["state"]["enum"] == list(STATES)
    assert properties["holds"]["items"]["enum"] == list(HOLDS)


def test_slot_is_a_number_and_unknown_values_are_null(listed_nodes):
    blade = next(node for node in listed_nodes if node["name"] == "blade01")
    assert (blade["slot"], blade["cloud"], blade["reachable"], blade["holds"]) == (1, None, None, ["cost"])


@pytest.mark.parametrize("broken", [{"state": "asleep"}, {"extra": 1}, {"id": "7"}, {"holds": ["lunch"]}])
def test_schema_refuses_unknown_values(listed_nodes, broken):
    assert list(Draft202012Validator(SCHEMA).iter_errors([{**listed_nodes[0], **broken}]))
