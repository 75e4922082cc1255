"""Test the plan of group tests on simulated clusters: who is named, who is not, and how many tests it takes."""

from __future__ import annotations

import itertools
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest

from gpufleet.burnin.isolation import (
    IsolationReport,
    advance_isolation,
    build_groups,
    build_orders,
    color_pairs,
)
from gpufleet.burnin.isolation_report import format_isolation, judge_isolated_nodes
from gpufleet.burnin.mesh import PairMeasurement
from simulated_cluster import SimulatedCluster

MOST_TESTS = {232: 60, 1000: 110}


def run_once(count, seed, options):
    """Return what a run found, compared with what is bad."""
    cluster = SimulatedCluster(count, seed, **options)
    report = cluster.isolate()
    named = {name for found in report.nodes for name in found.names}
    links = {frozenset(found.names) for found in report.links}
    return {
        "tests": cluster.tests,
        "missed": len(set(cluster.bad) - named),
        "wrong": len(named - set(cluster.bad)),
        "wrong_pairs": len(report.pairs),
        "missed_link": bool(cluster.bad_link) and cluster.bad_link not in links,
        "wrong_links": len(links - {cluster.bad_link}),
    }


def run_many(count, seeds, **options):
    """Return the runs of so many seeds."""
    with ProcessPoolExecutor() as many:
        return list(many.map(run_once, itertools.repeat(count), range(seeds), itertools.repeat(options)))


def share_of(runs, name):
    """Return the share of runs in which there is such an error."""
    return sum(bool(run[name]) for run in runs) / len(runs)


@pytest.mark.parametrize(
    ("count", "seeds", "options"),
    [
        (232, 200, {"bad": 5}),
        (232, 200, {"bad": 5, "bad_link": True, "per_rack": 18}),
        (232, 60, {"bad": 1, "bad_link": True, "per_rack": 18}),
        (232, 60, {"bad": 0, "per_rack": 18}),
        (1000, 10, {"bad": 5, "bad_link": True, "per_rack": 32}),
        (1000, 6, {"bad": 1}),
        (1000, 6, {"bad": 0}),
    ],
    ids=str,
)
def test_bad_nodes_and_links_are_named_and_no_other_with_few_tests(count, seeds, options):
    runs = run_many(count, seeds, **options)
    assert max(run["tests"] for run in runs) <= MOST_TESTS[count]
    for error in ("missed", "wrong", "wrong_pairs", "missed_link", "wrong_links"):
        assert share_of(runs, error) <= 0.01, error


def isolate_with_bad_pair(seed, pair):
    """Return the report of a healthy cluster of ten racks of ten with one slow pair."""
    cluster = SimulatedCluster(100, seed, per_rack=10)
    cluster.bad_pair = frozenset(pair)
    return cluster.isolate()


@pytest.mark.parametrize(
    "pair", [("node0013", "node0014"), ("node0010", "node0019"), ("node0000", "node0010")]
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_slow_pair_that_a_ring_has_is_named_and_no_node(pair, seed):
    report = isolate_with_bad_pair(seed, pair)
    assert [set(found.names) for found in report.pairs] == [set(pair)]
    assert (report.nodes, report.links) == ((), ())
    assert set(pair) <= set(report.cleared)


def test_slow_pair_that_no_ring_has_is_missed():
    """Rings have 200 of the 4,950 pairs: 4 % of the faults of a single pair are found, and never a wrong one."""
    report = isolate_with_bad_pair(1, ("node0013", "node0017"))
    assert (report.nodes, report.pairs, report.links) == ((), (), ())


def test_slow_link_of_a_rack_to_all_others_names_the_rack_and_no_node():
    cluster = SimulatedCluster(120, 1, per_rack=12)
    healthy = cluster.measure

    def measure(one, two):
        session = healthy(one, two)
        racks = {cluster.racks[one], cluster.racks[two]}
        if "rack03" not in racks or len(racks) == 1:
            return session
        return PairMeasurement(one, two, 4000.0, 4100.0, 0.0, 9000.0, 9000.0, 9000.0, 0.05)

    cluster.measure = measure
    report = cluster.isolate()
    assert (report.nodes, report.pairs, [found.names for found in report.links]) == ((), (), [("rack03",)])
    assert "those inside are good" in report.links[0].evidence


def test_slow_collective_alone_names_the_node():
    cluster = SimulatedCluster(36, 1, per_rack=6)

    def measure(one, two):
        rate = 158.0 if "node0007" in (one, two) else 180.0
        return PairMeasurement(one, two, 9400.0, 9400.0, 0.0, 9000.0, 9000.0, 9000.0, 0.05, rate, 0.0)

    cluster.measure = measure
    report = cluster.isolate()
    assert [found.names for found in report.nodes] == [("node0007",)]
    assert "158 GB/s of 180 (12% less)" in report.nodes[0].evidence


def test_evidence_names_partners_rates_and_counts():
    cluster = SimulatedCluster(60, 3, bad=1, per_rack=10, kinds=("slow",))
    (found,) = cluster.isolate().nodes
    assert "% less), with node" in found.evidence
    assert "bad in 2 of 2 sessions with good nodes and in 2 of 2 others" in found.evidence


@pytest.mark.parametrize("count", range(2, 34))
def test_orders_let_every_two_groups_meet(count):
    orders = build_orders(count)
    met = Counter(
        frozenset(pair) for order in orders for pair in zip(order, [*order[1:], order[0]], strict=True)
    )
    assert all(sorted(order) == list(range(count)) for order in orders)
    assert all(met[frozenset(pair)] for pair in itertools.combinations(range(count), 2))
    assert len(orders) <= count / 2


def test_groups_are_racks_parts_of_large_ones_and_what_is_left():
    names = [f"n{number:03}" for number in range(232)]
    assert {len(members) for members in build_groups(dict.fromkeys(names, "")).values()} == {16, 17}
    racks = {name: f"r{at // 18:02}" for at, name in enumerate(names)}
    assert [len(members) for members in build_groups(racks).values()] == [18] * 12 + [16]
    odd = build_groups({"a": "x", "b": "x", "c": "x", "d": "y", "e": "z", "f": "z"})
    assert odd == {"x": ("a", "b", "c"), "the other nodes": ("d", "e", "f")}
    alone = build_groups({"a": "x", "b": "x", "c": "x", "d": "y"})
    assert alone == {"x": ("a", "b", "c", "d")}


def test_no_node_has_two_partners_in_a_round():
    pairs = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "e")]
    rounds = color_pairs(pairs)
    assert [len(found) for found in rounds] == [2, 1, 1]
    assert sorted(pair for found in rounds for pair in found) == sorted(pairs)


def test_interrupted_run_goes_on_where_its_results_end():
    whole, cut = (SimulatedCluster(64, 5, bad=2, per_rack=8) for _ in range(2))
    expected = whole.isolate()
    results, launched = {}, []
    while isinstance(step := advance_isolation(cut.racks, results), list):
        for test in step:  # one test at a time, each from the results alone
            results[test.name] = [cut.measure(*pair) for pair in test.pairs]
            launched.append(test.name)
            break
    assert isinstance(step, IsolationReport)
    assert {f.names for f in step.nodes} == {f.names for f in expected.nodes} == {(name,) for name in cut.bad}
    assert len(launched) == len(set(launched))


def test_a_test_without_results_is_an_error_of_its_pairs():
    domains = {f"n{number}": "" for number in range(9)}
    results = {}
    while isinstance(step := advance_isolation(domains, results), list):
        results.update(dict.fromkeys((test.name for test in step), ()))
    assert step.nodes == ()
    assert all("no result" in found.evidence for found in step.pairs)


class UnevenCluster(SimulatedCluster):
    """A cluster of racks of any sizes, of which given nodes have a kind of fault."""

    def __init__(self, sizes, seed, faults, *, slow=0.8):
        super().__init__(sum(sizes), seed)
        racks = [f"rack{number:02}" for number, size in enumerate(sizes) for _ in range(size)]
        self.racks = dict(zip(self.names, racks, strict=True))
        self.bad = {self.names[at]: kind for at, kind in faults.items()}
        self.slow = dict.fromkeys(self.bad, slow)


def find_wrong_and_missed(cluster):
    report = cluster.isolate()
    named = {name for found in report.nodes for name in found.names}
    return report, named - set(cluster.bad), set(cluster.bad) - named


@pytest.mark.parametrize(
    ("sizes", "dead"),
    [
        ([8] * 8, range(0, 64, 2)),
        ([8] * 8, range(8, 16)),
        ([8] * 8, range(8, 15)),
        ([8, 8], range(8, 16)),
        ([6], range(3)),
        ([1, 1, 1, 2, 3, 15, 17], range(0, 40, 3)),
        ([8] * 4, range(30)),
    ],
    ids=["every second", "a rack", "a rack but one", "one of two racks", "three of six", "odd racks", "all but two"],
)  # fmt: skip
@pytest.mark.parametrize("seed", range(3))
def test_many_dead_nodes_are_named_and_no_good_one(sizes, dead, seed):
    """Where a good node meets only dead ones, a session says nothing until one of its ends was good once."""
    report, wrong, missed = find_wrong_and_missed(UnevenCluster(sizes, seed, dict.fromkeys(dead, "dead")))
    assert (wrong, missed, report.links, report.pairs) == (set(), set(), (), ())


def test_nodes_of_which_none_answers_are_neither_named_nor_cleared():
    cluster = UnevenCluster([8] * 4, 1, dict.fromkeys(range(32), "dead"))
    report, _, _ = find_wrong_and_missed(cluster)
    assert (report.nodes, report.links, report.pairs, report.cleared) == ((), (), (), ())
    assert set(report.unclear) == set(cluster.names)
    outcomes = judge_isolated_nodes(cluster.names, report, [])
    assert {node.outcome for node in outcomes.values()} == {"not_run"}
    assert "not tested by a good node: node0000" in "\n".join(format_isolation(report))


@pytest.mark.parametrize("count", [3, 4, 5, 8])
@pytest.mark.parametrize("seed", range(5))
def test_slow_node_of_few_is_named(count, seed):
    _, wrong, missed = find_wrong_and_missed(UnevenCluster([count], seed, {0: "slow"}, slow=0.88))
    assert (wrong, missed) == (set(), set())


@pytest.mark.parametrize("seed", range(10))
def test_rates_of_two_usual_levels_name_no_node(seed):
    """Three sessions of ten take a route that is 7 % slower, each for itself (NVIDIA/nccl#325 has two levels too)."""
    cluster = SimulatedCluster(64, seed, per_rack=8)
    healthy = cluster.measure

    def measure(one, two):
        found = healthy(one, two)
        return replace(found, sent_mbit=found.sent_mbit * (0.93 if cluster.random.random() < 0.3 else 1))

    cluster.measure = measure
    report = cluster.isolate()
    assert (report.nodes, report.links) == ((), ())


@pytest.mark.parametrize(
    ("faults", "note"),
    [
        (dict.fromkeys(range(0, 64, 2), "slow"), "rates between groups are from"),
        (dict.fromkeys(range(32), "slow"), "rates inside groups are from"),
    ],
)
def test_half_a_slow_cluster_is_reported_as_two_levels(faults, note):
    report, wrong, _ = find_wrong_and_missed(UnevenCluster([8] * 8, 1, faults, slow=0.7))
    assert wrong == set()
    assert any(text.startswith(note) and "set a bound" in text for text in report.notes), report.notes


def test_uplink_of_one_of_two_racks_is_reported_as_a_difference_of_place():
    cluster = SimulatedCluster(16, 1, per_rack=8)
    cluster.bad_link = frozenset(("rack00", "rack01"))
    report = cluster.isolate()
    assert report.nodes == ()
    assert any("inside groups" in text and "by design, or most links" in text for text in report.notes)
