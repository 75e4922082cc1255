"""Test that a rack's thin or bad uplink, measured in all pairs, names the link and no node of the rack."""

from __future__ import annotations

import random
from itertools import combinations
from math import exp

import pytest

from gpufleet.burnin.mesh import PairMeasurement, judge_mesh
from gpufleet.burnin.mesh_uplink import explain_uplinks


def judge(sizes, slow_between, *, seed=1, slow_nodes=(), kind="tcp"):
    """Return outcomes by node and the lines; ``slow_between`` says which racks have a slow link between them."""
    noise = random.Random(seed)
    racks = [f"rack{number}" for number, size in enumerate(sizes) for _ in range(size)]
    domains = {f"node{number:02}": rack for number, rack in enumerate(racks)}
    sessions = []
    for one, two in combinations(domains, 2):
        factor = min(0.6 if name in slow_nodes else 1 for name in (one, two))
        if domains[one] != domains[two] and slow_between({domains[one], domains[two]}):
            factor *= 0.5
        rates = [9400 * factor * exp(noise.gauss(0, 0.01)) for _ in range(2)]
        if kind == "tcp":
            sessions.append(PairMeasurement(one, two, *rates, 0.0, 9000.0, 9000.0, 9000.0, 0.05))
        else:
            sessions.append(
                PairMeasurement(
                    one, two, 9400.0, 9400.0, 0.0, 9000.0, 9000.0, 9000.0, 0.05, rates[0] / 50, 0.0
                )
            )
    nodes = judge_mesh(domains, sessions)
    lines = explain_uplinks(nodes, sessions, domains)
    return {name: node.outcome for name, node in nodes.items()}, lines, nodes


@pytest.mark.parametrize("kind", ["tcp", "collective"])
@pytest.mark.parametrize("sizes", [[4, 4, 4], [3, 5, 6, 6], [2, 10]])
def test_slow_uplink_of_a_rack_names_the_link_and_no_node(sizes, kind):
    outcomes, lines, nodes = judge(sizes, lambda racks: "rack0" in racks, kind=kind)
    assert "fail" not in outcomes.values()
    own = [node for name, node in nodes.items() if int(name[4:]) < sizes[0]]
    assert {node.outcome for node in own} == {"warn"}
    assert all(node.reasons[0].startswith("link of rack0 to the others: ") for node in own)
    assert len(lines) == 1
    assert f"its {sizes[0]} nodes are good with each other" in lines[0]


def test_slow_nodes_of_a_rack_stay_slow_nodes():
    """They are slow inside the rack too."""
    slow = {"node00", "node01", "node02"}
    outcomes, lines, _ = judge([3, 5, 6], lambda _racks: False, slow_nodes=slow)
    assert {name for name, outcome in outcomes.items() if outcome == "fail"} == slow
    assert lines == []


def test_one_slow_node_of_a_rack_is_named():
    outcomes, lines, _ = judge([4, 4, 4], lambda _racks: False, slow_nodes={"node05"})
    assert ([name for name, outcome in outcomes.items() if outcome == "fail"], lines) == (["node05"], [])


def test_node_alone_in_its_rack_fails_and_the_reason_names_the_link():
    outcomes, _, nodes = judge([1, 11], lambda _racks: True)
    assert [name for name, outcome in outcomes.items() if outcome == "fail"] == ["node00"]
    assert nodes["node00"].reasons[-1] == "it is alone in rack0, whose link may be slow in its place"


def test_without_domains_nothing_changes():
    outcomes, lines, _ = judge([12], lambda _racks: True, slow_nodes={"node05"})
    assert ([name for name, outcome in outcomes.items() if outcome == "fail"], lines) == (["node05"], [])
