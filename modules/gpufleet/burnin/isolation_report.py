"""Each node's outcome after a plan of group tests, in the form of a mesh of all pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from gpufleet.burnin.isolation import IsolationReport
from gpufleet.burnin.mesh import (
    FAIL_DROP,
    NodeNetwork,
    PairMeasurement,
    merge_repeats,
    report_missing_collectives,
    summarize_pairs,
)


def judge_isolated_nodes(
    names: Iterable[str], report: IsolationReport, sessions: Iterable[PairMeasurement]
) -> dict[str, NodeNetwork]:
    """Return each node's outcome: fail if it was named, warn for a bad pair or link of it, else pass.

    A named node that loses less than ``FAIL_DROP`` of the rate warns. A node without any good session is ``not_run``.
    """
    nodes = {name: NodeNetwork(name, "pass") for name in sorted(set(names))}
    own_pairs: dict[str, list[PairMeasurement]] = defaultdict(list)
    for pair in merge_repeats(sessions):
        for end in pair.ends:
            own_pairs[end].append(pair)
    for node in nodes.values():
        summarize_pairs(node, own_pairs[node.name])
        if node.failed_pairs == node.pairs:
            node.outcome = "not_run"
    for name in report.unclear:
        if nodes[name].outcome == "pass":
            nodes[name].outcome = "not_run"
            nodes[name].reasons.append("no session with a node that was good with others")
    for name, node in report_missing_collectives(nodes).items():
        node.outcome = "warn" if nodes[name].outcome == "pass" else node.outcome
    for bad_pair in report.pairs:
        for name, other in (bad_pair.names, bad_pair.names[::-1]):
            warn(nodes[name], f"{other}: {bad_pair.evidence}")
    for link in report.links:
        groups = " to ".join(link.names) if len(link.names) > 1 else f"{link.names[0]} to the other groups"
        for name in link.seen_at:
            warn(nodes[name], f"link {groups}: {link.evidence}")
    for found in report.nodes:
        node = nodes[found.names[0]]
        node.outcome = "fail" if found.drop >= FAIL_DROP else "warn"
        node.reasons.insert(0, found.evidence)
    return nodes


def warn(node: NodeNetwork, reason: str) -> None:
    """Add a reason; a node that passed warns."""
    node.reasons.append(reason)
    if node.outcome == "pass":
        node.outcome = "warn"


def format_isolation(report: IsolationReport) -> list[str]:
    """Return lines for a person: tests and what was found, each with its evidence."""
    nodes = sum(len(members) for members in report.groups.values())
    counts = (
        f"{report.tests} tests ({report.sessions} sessions) of {nodes} nodes in {len(report.groups)} groups;"
        f" {report.links_measured} of {report.links_total} links between groups;"
        f" {nodes * (nodes - 1) // 2} pairs in all"
    )
    lines = [counts]
    for label, findings in (("node", report.nodes), ("pair", report.pairs), ("link", report.links)):
        lines += [f"{label} {' - '.join(found.names)}: {found.evidence}" for found in findings]
    if report.cleared:
        lines.append(f"cleared: {', '.join(report.cleared)}")
    if report.unclear:
        lines.append(f"not tested by a good node: {', '.join(report.unclear)}")
    return [*lines, *report.notes]
