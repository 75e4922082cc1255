"""Test that every list of node fields knows every field of ``Node``."""

from __future__ import annotations

from dataclasses import fields

import pytest

from gpufleet.nodes import Node, merge, schema
from gpufleet.nodes.host import build_node_variables
from gpufleet.nodes.identifier_check import IDENTIFIER_KINDS
from gpufleet.operations import node_view

FIELDS = {field.name for field in fields(Node)}
RELATED = {"holds", "sources", "hardware"}  # tables of their own
REVISIONS = {"state_revision", "reachable_revision"}


@pytest.fixture
def node(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    return registry.get_node("blade01")


def test_registry_table_has_a_column_for_every_field():
    assert set(schema.node.c.keys()) == FIELDS - RELATED | REVISIONS


def test_every_reported_field_has_a_merge_rule():
    derived = {name for name in FIELDS if name.startswith(("state", "reachable"))}
    assert set(merge.FIELDS) == FIELDS - RELATED - derived - {"id", "attempt", "verdict"}


def test_show_prints_every_field(node):
    details = node_view.build_node_details(node, [], [])
    assert FIELDS - details.keys() == {
        "stack",
        "hardware",
        "attempt",
        "verdict",
    }  # among its values; in burnin report


def test_identifier_fields_are_checked():
    text = {"name", "usd_per_hour", "accelerators"}
    assert set(merge.FIELDS) - text <= set(IDENTIFIER_KINDS)


def test_ansible_variables_are_named_after_fields(node):
    names = {
        name.removeprefix("gpufleet_") for name in build_node_variables(node) if name.startswith("gpufleet_")
    }
    assert names <= FIELDS | {"is_new", "is_busy"}
