"""Test that the stack output ``fabric`` reaches each node of a pool, and what is expected of it."""

from __future__ import annotations

import pytest

from gpufleet.engine import parse_stack_state
from gpufleet.nodes import (
    NodeIdentity,
    NodeObservation,
    SourceReport,
    build_expected_hardware,
    declare_pool_fabrics,
    read_stack_fabrics,
)
from gpufleet.nodes.host import make_inventory_host
from gpufleet.nodes.model import utc_now

PLAN = {"pool": "train", "kind": "efa", "adapters": 4, "expected_gbit_per_s": 400.0, "interfaces": []}


def read(*entries):
    outputs = {"fabric": list(entries)}
    stack = {
        "urn": "urn:pulumi:p::x::pulumi:pulumi:Stack::x-p",
        "type": "pulumi:pulumi:Stack",
        "custom": False,
    }
    state = {"version": 3, "deployment": {"resources": [{**stack, "outputs": outputs}]}}
    return read_stack_fabrics(parse_stack_state(state))


def test_output_gives_the_fabric_of_each_pool():
    unknown = {**PLAN, "pool": "b", "kind": "infiniband", "adapters": None, "expected_gbit_per_s": None}
    assert read(PLAN, unknown) == {
        "train": {"kind": "efa", "adapters": 4, "expected_gbit_per_s": 400.0},
        "b": {"kind": "infiniband"},
    }


@pytest.mark.parametrize(
    "entry", [None, {}, "x", {**PLAN, "kind": "magic"}, {**PLAN, "pool": 7}, {**PLAN, "pool": ""}]
)
def test_malformed_entry_is_left_out(entry):
    assert read(entry) == {}


@pytest.mark.parametrize("figure", ["4", True, -1, 0, float("inf"), [], {}])
def test_malformed_figure_is_left_out(figure):
    assert read({**PLAN, "adapters": figure})["train"] == {"kind": "efa", "expected_gbit_per_s": 400.0}


@pytest.mark.parametrize("aspect", ["declared", "observed"])
def test_fabric_of_a_pool_is_expected_of_its_nodes(registry, aspect):
    """A node of the state declares its pool; a member of a group is observed in it."""
    facts = {"kind": "cloud_vm", "cloud": "aws", "machine": "p4d.24xlarge"}
    seen = [
        NodeObservation(
            "aws:x:us-east-1",
            name,
            NodeIdentity(instance_id=f"i-{name}"),
            **{aspect: {**facts, "pool": pool}},
        )
        for name, pool in (("a", "train"), ("b", "other"))
    ]
    report = declare_pool_fabrics(SourceReport("aws:x:us-east-1", utc_now(), seen), read(PLAN))
    registry.apply_source_report(report)
    expected = build_expected_hardware(registry.get_node("a"))
    assert expected["expect_fabric"] == "efa"
    assert (expected["expect_fabric_adapters"], expected["expect_fabric_gbit_per_s"]) == (4, 400.0)
    assert "expect_fabric" not in build_expected_hardware(registry.get_node("b"))
    hosts = {name: make_inventory_host(name, registry.get_node(name)).vars for name in ("a", "b")}
    assert hosts["a"]["gpufleet_fabric"] == "efa"  # the play fabrics.yml selects its hosts by it
    assert "gpufleet_fabric" not in hosts["b"]
