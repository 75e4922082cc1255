"""Test that a change of many nodes applies to all or none, also after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from gpufleet.errors import CheckFailed, InputError
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry, SourceReport
from gpufleet.nodes.model import utc_now
from gpufleet.operations import node_change

COUNT = 30
KILLED = """
import os, signal, sys
from gpufleet.nodes import Registry, journal
from gpufleet.operations import node_change
url, verb, names, word, moment = sys.argv[1:]
add_history, left = journal.add_history_entry, [int(moment)]
def add_and_kill(*args, **kwargs):
    add_history(*args, **kwargs)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
journal.add_history_entry = add_and_kill
with Registry(url) as registry:
    getattr(node_change, verb)(registry, names, word, "test")
"""


@pytest.fixture
def url(tmp_path):
    """Give a registry of many expected blades, each with a cost hold."""
    seen = [NodeObservation("rack:r", f"b{n:02}", NodeIdentity(rack="r", slot=str(n))) for n in range(COUNT)]
    url = f"sqlite:///{tmp_path}/many.db"
    with Registry(url) as registry:
        registry.apply_source_report(SourceReport("rack:r", utc_now(), seen))
        for node in registry.list_nodes():
            registry.set_node_hold(node.id, "cost", "over budget")
    return url


@pytest.mark.parametrize(
    ("verb", "target"),
    [("change_node_states", "discovered"), ("hold_nodes", "security"), ("release_nodes", "cost")],
)
@pytest.mark.parametrize("moment", [1, COUNT // 2, COUNT])
def test_killed_change_of_many_nodes_changed_none(url, verb, target, moment):
    command = [sys.executable, "-c", KILLED, url, verb, f"b[00-{COUNT - 1}]", target, str(moment)]
    result = subprocess.run(command, check=False, env=os.environ, capture_output=True, timeout=300)
    assert result.returncode == -signal.SIGKILL
    with Registry(url) as registry:
        assert {(node.state, *(hold.kind for hold in node.holds)) for node in registry.list_nodes()} == {
            ("expected", "cost")
        }
        getattr(node_change, verb)(registry, f"b[00-{COUNT - 1}]", target, "again")
        assert len({(node.state, *(hold.kind for hold in node.holds)) for node in registry.list_nodes()}) == 1


def test_change_is_refused_for_all_nodes_if_one_cannot_move(url):
    with Registry(url) as registry:
        registry.move_node("b07", "retired", "sold")
        with pytest.raises(InputError, match="retired cannot become discovered"):
            node_change.change_node_states(registry, f"b[00-{COUNT - 1}]", "discovered", "test")
        assert {node.state for node in registry.list_nodes()} == {"expected", "retired"}


@pytest.mark.parametrize(
    ("names", "held"),
    [
        ("b[01-03]:!b02", ["b01", "b03"]),
        ("b[01-03],&b[02-09]", ["b02", "b03"]),
        ("b01,r/1,b01", ["b01"]),
        ("r/[1-2]", ["b01", "b02"]),
    ],
)
def test_change_applies_to_exactly_the_nodes_of_a_pattern(url, names, held):
    with Registry(url) as registry:
        assert len(node_change.hold_nodes(registry, names, "drift", "test")) == len(held)
        nodes = [node for node in registry.list_nodes() if any(hold.kind == "drift" for hold in node.holds)]
        assert sorted(node.name for node in nodes) == held


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ("b01:!b99", InputError, "no node 'b99' in the registry"),
        ("!b01", InputError, "NODE: !b01 names no node to take"),
        ("", InputError, "NODE: names no host"),
        ("b*", InputError, r"NODE: b\* is not a name or a range of names"),
        ("b01:!b01", CheckFailed, "NODE: b01:!b01 leaves no node"),
    ],
)
def test_pattern_of_no_node_changes_none(url, names, error, message):
    with Registry(url) as registry:
        with pytest.raises(error, match=message):
            node_change.hold_nodes(registry, names, "drift", "test")
        assert not any(hold.kind == "drift" for node in registry.list_nodes() for hold in node.holds)
