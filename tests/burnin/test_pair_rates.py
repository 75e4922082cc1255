"""Test which nodes and pairs are slower than their peers, and how often noise is named.

The model of noise: each session's rate varies by 1 % (normal, in logarithms), each node's own rate by 0.5 %, and one
session in 300 loses 10 to 40 %, as a burst of other traffic does. NVIDIA/nccl-tests#106 has two healthy pairs that
differ by 1.8 % (88.36 and 86.81 GB/s).
"""

from __future__ import annotations

import itertools
import math
import random

import pytest

from gpufleet.burnin import mesh
from gpufleet.burnin.pair_rates import compare_rates

SESSION_NOISE, NODE_NOISE, BURSTS = 0.01, 0.005, 1 / 300
RUNS = 200


class SimulatedRack:
    """A rack in which a pair measures TCP in both directions and an all-reduce, with noise."""

    def __init__(self, count, seed, node_factor=None, pair_factor=None):
        self.random = random.Random(seed)
        self.names = [f"node{number:02}" for number in range(1, count + 1)]
        self.own = {name: self.random.gauss(0, NODE_NOISE) for name in self.names}
        self.node_factor, self.pair_factor = node_factor or {}, pair_factor or {}

    def draw(self, one, two, peak):
        rate = peak * math.exp(self.random.gauss(0, SESSION_NOISE) + min(self.own[one], self.own[two]))
        rate *= min(self.node_factor.get(one, 1), self.node_factor.get(two, 1))
        rate *= self.pair_factor.get(frozenset((one, two)), 1)
        return rate * (self.random.uniform(0.6, 0.9) if self.random.random() < BURSTS else 1)

    def measure(self, one, two):
        rates = [self.draw(one, two, 9400), self.draw(one, two, 9400)]
        return mesh.PairMeasurement(
            one, two, *rates, 0.0, 9000.0, 9000.0, 9000.0, 0.05, self.draw(one, two, 180), 0.0
        )

    def judge(self):
        """Return each node's outcome and reasons, as the play has them: suspect pairs are measured again."""
        pairs = [self.measure(*pair) for pair in itertools.combinations(self.names, 2)]
        pairs += [self.measure(*pair) for pair in mesh.list_suspect_pairs(self.names, pairs)]
        return {
            name: node for name, node in mesh.judge_mesh(self.names, pairs).items() if node.outcome != "pass"
        }


@pytest.mark.parametrize("count", [3, 4, 5, 8, 16])
def test_at_most_one_healthy_run_in_a_hundred_has_an_alarm(count):
    alarms = sum(bool(SimulatedRack(count, seed).judge()) for seed in range(RUNS))
    assert alarms <= RUNS // 100


@pytest.mark.parametrize(
    ("count", "drop", "found"),
    [(3, 0.08, 0.9), (3, 0.125, 0.99), (4, 0.08, 0.9), (4, 0.125, 0.99), (8, 0.08, 0.99), (16, 0.08, 0.99)],
)
def test_slow_node_is_named_and_no_other(count, drop, found):
    runs = [SimulatedRack(count, seed, node_factor={"node02": 1 - drop}).judge() for seed in range(100)]
    assert sum("node02" in alarms for alarms in runs) >= found * len(runs)
    assert sum(bool(set(alarms) - {"node02"}) for alarms in runs) <= 1


@pytest.mark.parametrize(
    ("count", "drop", "found"), [(4, 0.12, 0.93), (8, 0.08, 0.95), (16, 0.08, 0.99), (3, 0.35, 0.98)]
)
def test_slow_pair_names_both_ends_and_no_node_fails(count, drop, found):
    pair = frozenset(("node01", "node03"))
    runs = [SimulatedRack(count, seed, pair_factor={pair: 1 - drop}).judge() for seed in range(100)]
    assert sum(set(alarms) == pair for alarms in runs) >= found * len(runs)
    assert sum(any(node.outcome == "fail" for node in alarms.values()) for alarms in runs) <= 5


def judge_collectives(rates):
    """Return the outcome by node of pairs of which only the all-reduce differs."""
    pairs = [
        mesh.PairMeasurement(*ends, 9412.0, 9409.0, 0.0, 9000.0, 9000.0, 9000.0, 0.05, rate, 0.0)
        for ends, rate in rates.items()
    ]
    return mesh.judge_mesh({name for ends in rates for name in ends}, pairs)


def rack_at(count, rate, slow=None, pair=None):
    """Return the all-reduces of a rack at 86.9 to 88.4 GB/s, with a slow node or pair."""
    names = [f"node{number:02}" for number in range(1, count + 1)]
    return {
        ends: rate if slow in ends or set(ends) == set(pair or ()) else 88.4 - 0.5 * (at % 4)
        for at, ends in enumerate(itertools.combinations(names, 2))
    }


@pytest.mark.parametrize(
    ("count", "rate"), [(4, 49.3), (8, 49.3), (16, 77.3), (16, 66.0), (16, 58.0), (3, 49.3)]
)
def test_slow_node_of_nccl_tests_106_fails(count, rate):
    nodes = judge_collectives(rack_at(count, rate, slow="node02"))
    assert {name for name, node in nodes.items() if node.outcome != "pass"} == {"node02"}
    assert nodes["node02"].outcome == "fail"
    assert f"all-reduces at {rate:.4g} GB/s with most partners, its peers 87" in nodes["node02"].reasons[0]


def test_node_eight_percent_below_its_peers_warns():
    nodes = judge_collectives(rack_at(16, 80.5, slow="node02"))
    assert {name: node.outcome for name, node in nodes.items() if node.outcome != "pass"} == {
        "node02": "warn"
    }


def test_pair_of_nccl_tests_106_alone_is_a_pair():
    nodes = judge_collectives(rack_at(8, 49.3, pair=("node02", "node05")))
    assert {name: node.outcome for name, node in nodes.items() if node.outcome != "pass"} == {
        "node02": "warn", "node05": "warn",
    }  # fmt: skip
    assert nodes["node02"].reasons[0].startswith("node05: 49.3 GB/s, both ends with others 8")


def test_routing_collision_of_nccl_325_is_a_pair():
    """One pair at 25 GB/s, another pair of the same node at 39: NVIDIA's answer was a route, not a node."""
    nodes = judge_collectives({("n1", "n2"): 25.0, ("n1", "n3"): 39.0, ("n2", "n3"): 39.0})
    assert {name: node.outcome for name, node in nodes.items()} == {"n1": "warn", "n2": "warn", "n3": "pass"}


def test_five_pairs_that_nccl_tests_106_measured_name_the_slow_node():
    """The five pairs of the report as they are: 644 is slow, and so is a node that was seen once."""
    rates = {
        ("644", "699"): 49.36, ("632", "641"): 88.36, ("284", "678"): 49.28, ("641", "644"): 49.30,
        ("404", "699"): 86.81,
    }  # fmt: skip
    slow = {end.name: end for end in compare_rates(rates).senders}
    assert set(slow) == {"644"}
    assert slow["644"].drop > 0.4


def test_two_nodes_and_no_rates_name_nobody():
    assert compare_rates({}) == compare_rates({("a", "b"): 1.0})


def test_equal_rates_name_nobody_and_one_lower_pair_is_named():
    rates = dict.fromkeys(itertools.permutations("abcdef", 2), 100.0)
    assert compare_rates(rates) == compare_rates({})
    slow = compare_rates({**rates, ("a", "b"): 90.0})
    assert [pair.ends for pair in slow.pairs] == [("a", "b")]
    assert (slow.senders, slow.receivers) == ((), ())
