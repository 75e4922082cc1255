"""Whether equal nodes have equal kernels, firmware and drivers, by their newest burn-in records."""

from __future__ import annotations

from gpufleet.boundary import Json
from gpufleet.burnin.checks.versions.read import read_parts
from gpufleet.burnin.evidence import mapping_or_empty
from gpufleet.burnin.version_consistency import NodeVersions, VersionFinding, compare_versions
from gpufleet.operations.burnin import StoredBurninResult, load_newest_burnin_results, open_results_registry
from gpufleet.operations.fleet_comparison import describe_machine


def compare_registered_versions() -> Json:
    """Return what differs among the nodes that are not retired, and how many were compared."""
    with open_results_registry() as registry:
        results = [
            stored for stored in load_newest_burnin_results(registry, None) if stored.node.state != "retired"
        ]
    nodes = [node for stored in results if (node := read_node_versions(stored))]
    findings = compare_versions(nodes)
    return {
        "agree": not findings,
        "compared_nodes": len(nodes),
        "findings": [finding.as_json() for finding in findings],
    }


def read_node_versions(stored: StoredBurninResult) -> NodeVersions | None:
    """Return a node's versions; None if its newest record has none."""
    node = stored.node
    records = map(mapping_or_empty, stored.result.records)
    raw = next((record.get("raw") for record in records if record.get("name") == "versions"), None)
    parts = read_parts(mapping_or_empty(raw))
    if not parts:
        return None
    group = f"{describe_machine(node)}, {node.template or node.pool or node.rack or 'no template'}"
    return NodeVersions(node.name, group, {part: ", ".join(versions) for part, versions in parts.items()})


def format_version_comparison(comparison: Json) -> list[str]:
    """Return a summary, then one line for each finding."""
    count = comparison["compared_nodes"]
    if not count:
        return ["no node has a record of its versions yet: gpufleet burnin run NODE"]
    if comparison["agree"]:
        return [f"all {count} nodes agree with the nodes of their machine type and template"]
    rows = [VersionFinding(**row) for row in comparison["findings"]]
    differing = len({row.node for row in rows})
    return [f"{differing} of {count} nodes differ", *(format_version_finding(row) for row in rows)]


def format_version_finding(row: VersionFinding) -> str:
    """Return one finding as a line."""
    rest = (
        f"{row.usual_count} of {row.group_size} have {row.usual}"
        if row.usual
        else f"no version has a majority of {row.group_size}"
    )
    return f"{row.node:<16} {row.part}: {row.version}; {rest} ({row.group})"
