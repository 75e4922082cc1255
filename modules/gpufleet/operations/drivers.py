"""Whether the fleet's drivers agree, from what the last runs left in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet import paths
from gpufleet.drivers import consistency
from gpufleet.nodes import Node, Registry


def run() -> consistency.Report:
    """Compare the drivers of the project's nodes."""
    with Registry(paths.database_url(paths.project_root())) as registry:
        return consistency.check(host(node, registry) for node in registry.list() if node.state != "retired")


def host(node: Node, registry: Registry) -> consistency.Host:
    """Return a node as the check takes it: what it should agree with is its template, its pool or its rack."""
    found = [value.value for value in registry.values(node.id) if value.key == "observed.drivers"]
    state: Mapping[str, Any] | None = found[-1] if found and isinstance(found[-1], Mapping) else None
    cards = any(card.get("count") for card in node.accelerators)
    return consistency.Host(node.name, node.template or node.pool or node.rack or "(none)", cards, state)


def lines(report: consistency.Report) -> list[str]:
    """Return the report for a terminal."""
    if not report.hosts:
        return ["no node has cards or a driver"]
    skewed = {finding.host for finding in report.findings if finding.kind == "skew"}
    total = len(report.hosts)
    end = f"{len(skewed)} of {total} nodes do not agree" if skewed else f"all {total} nodes agree"
    remedies = dict.fromkeys(one.remedy for one in report.findings if one.kind == "skew" and one.remedy)
    return [*consistency.table(report), "", end, *(f"hint: {remedy}" for remedy in remedies)]
