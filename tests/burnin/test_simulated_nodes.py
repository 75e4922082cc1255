"""Test the judge with 500 simulated healthy nodes and with degraded ones; simulated numbers are no measurements."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import simulated_nodes
from gpufleet import burnin
from gpufleet.burnin.outliers import NodeMeasurements, find_stragglers, measure_records
from simulated_nodes import CLASSES, DEGRADATIONS, KINDS

SEED = 20261123
SAMPLES, ADDED = 20, 5  # degraded nodes of each kind; how many of them join a healthy fleet at a time


def judge(node_class, records):
    return burnin.judge_attempt(records, KINDS[node_class], "quick")


@pytest.fixture(scope="module")
def fleet():
    return simulated_nodes.simulate_fleet(SEED)


@pytest.fixture(scope="module")
def measured(fleet):
    """Return the healthy nodes' measurements by class."""
    by_class = {node_class: [] for node_class in CLASSES}
    for name, node_class, records in fleet:
        rack, slot = divmod(len(by_class[node_class]), 20)
        groups = {"slot": f"{node_class} {slot}", "zone": f"{node_class} {rack} {slot // 7}"}
        measured = measure_records(records)
        by_class[node_class].append(NodeMeasurements(name, measured, {"machine": node_class, **groups}))
    return by_class


def test_no_healthy_node_of_500_is_faulty(fleet):
    verdicts = Counter()
    for name, node_class, records in fleet:
        report = judge(node_class, records)
        verdicts[report.verdict] += 1
        assert report.verdict in {"healthy", "degraded"}, (name, report.list_unhealthy_reasons())
    assert sum(verdicts.values()) == 500
    # Noise that must warn: applications' XIDs on 2 % of GPU nodes, lost round trips on 0.5 % of all.
    assert verdicts["degraded"] <= 20


def test_healthy_nodes_are_rarely_named_as_stragglers(measured):
    named = {entry.outlier.name for nodes in measured.values() for entry in find_stragglers(nodes)}
    # Student noise has real stragglers: GPUs that are slower by 5 % and more.
    assert len(named) <= 15, named


def find_share_named(node_class, measured, degraded):
    """Return the share of degraded nodes that a comparison names, a few at a time among the healthy ones."""
    named = 0
    for start in range(0, len(degraded), ADDED):
        added = [
            NodeMeasurements(f"degraded-{number}", measure_records(records), {"machine": node_class})
            for number, records in enumerate(degraded[start : start + ADDED])
        ]
        found = {entry.outlier.name for entry in find_stragglers([*measured[node_class], *added])}
        named += sum(node.name in found for node in added)
    return named / len(degraded)


def test_share_of_degradations_that_is_found(measured, golden, repo_root):
    rows = [
        "| degradation | size | nodes | faulty | degraded | named by compare |",
        "|---|---|---|---|---|---|",
    ]
    for number, (name, size, node_class, degrade) in enumerate(DEGRADATIONS):
        generator = random.Random(SEED + number)
        nodes = [simulated_nodes.simulate_healthy_node(node_class, generator) for _ in range(SAMPLES)]
        for records in nodes:
            degrade(records)
        verdicts = Counter(judge(node_class, records).verdict for records in nodes)
        shares = [verdicts[verdict] / SAMPLES for verdict in ("faulty", "degraded")]
        shares.append(find_share_named(node_class, measured, nodes))
        rows.append(f"| {name} | {size} | {node_class} | {' | '.join(f'{share:.0%}' for share in shares)} |")
    assert len({name for name, *_ in DEGRADATIONS}) >= 12
    # The table is the last part of the page; --regenerate writes it.
    page = repo_root / "docs/burn-in-reports.md"
    golden(page, page.read_text().partition("| degradation |")[0] + "\n".join(rows) + "\n")
