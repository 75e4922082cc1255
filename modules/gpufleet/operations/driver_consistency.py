"""Whether the fleet's drivers agree, from what the last runs left in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet import paths
from gpufleet.drivers import consistency
from gpufleet.nodes import Node, Registry

OBSERVED_KEY = "observed.drivers"
READ_COMMAND = "gpufleet configure --play driver_check"


def compare_registered_drivers() -> consistency.DriverConsistencyReport:
    """Compare the drivers of the project's nodes."""
    with Registry(paths.registry_database_url(paths.find_project_root())) as registry:
        nodes, drivers = registry.list_nodes(), registry.list_newest_values(OBSERVED_KEY)
    return consistency.check_driver_consistency(
        build_host_driver_state(node, drivers.get(node.id)) for node in nodes if node.state != "retired"
    )


def build_host_driver_state(node: Node, drivers: Any) -> consistency.HostDriverState:
    """Return a node as the check takes it: what it should agree with is its template, its pool or its rack."""
    state: Mapping[str, Any] | None = drivers if isinstance(drivers, Mapping) else None
    cards = any(card.get("count") for card in node.accelerators)
    return consistency.HostDriverState(
        node.name, node.template or node.pool or node.rack or "(none)", cards, state
    )


def _summary(total: int, *, unread: int, skewed: int) -> str:
    if unread == total:
        return f"no driver was read yet: {READ_COMMAND} ({unread} nodes)"
    agreement = f"{skewed} of {total} nodes do not agree" if skewed else f"all {total - unread} nodes agree"
    return f"{agreement}; {unread} were never read: {READ_COMMAND}" if unread else agreement


def format_consistency_lines(report: consistency.DriverConsistencyReport) -> list[str]:
    """Return a summary, then one line for each finding and its remedy."""
    if not report.hosts:
        return ["no node has cards or a driver"]
    skewed = {finding.host for finding in report.findings if finding.kind == "skew"}
    unread = sum(host.state is None for host in report.hosts)
    summary = _summary(len(report.hosts), unread=unread, skewed=len(skewed))
    remedies = dict.fromkeys(
        finding.remedy for finding in report.findings if finding.kind == "skew" and finding.remedy
    )
    return [
        *consistency.format_consistency_report(report),
        "",
        summary,
        *(f"hint: {remedy}" for remedy in remedies),
    ]
