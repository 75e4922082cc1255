"""The endpoints of the fleet's exporters in the format of Prometheus' file-based service discovery.

Format: https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.nodes import Node
from gpufleet.operations import node_view
from gpufleet.operations.export import raise_write_errors_as_input_errors, write_file_atomically

OBSERVED_KEY = "observed.configuration_monitoring"
SCHEMES = ("http", "https")
MAX_PORT = 65535
MAX_ENDPOINTS = 16
"""More exporters than a node of ours can have: a longer list is not what the role reported."""
MAX_NAME = 32
HIDDEN_STATES = ("retired",)


@dataclass(frozen=True)
class ExporterEndpoint:
    """An exporter that answered when it was installed. ``scheme`` is http or https."""

    name: str
    port: int
    scheme: str


@dataclass(frozen=True)
class TargetGroup:
    """One target of Prometheus with its labels; the label ``job`` is the exporter's name."""

    target: str
    labels: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """Return an entry of file_sd."""
        return {"targets": [self.target], "labels": dict(self.labels)}


def list_registered_targets(node_filter: node_view.NodeFilter) -> list[TargetGroup]:
    """Return the targets of the registry's nodes; retired nodes and nodes without an address have none."""
    with node_view.open_existing_registry() as registry:
        nodes, reports = registry.list_nodes(), registry.list_newest_values(OBSERVED_KEY)
    return [
        group
        for node in node_filter.select_nodes(nodes)
        if node.address and node.state not in HIDDEN_STATES
        for group in build_target_groups(node, reports.get(node.id))
    ]


def build_target_groups(node: Node, report: Any) -> list[TargetGroup]:
    """Return the targets of a node, from the newest report of its exporters."""
    return [
        TargetGroup(f"{bracket_address(str(node.address))}:{endpoint.port}", _labels(node, endpoint))
        for endpoint in read_endpoints(report)
    ]


def write_file_sd(path: Path, groups: Iterable[TargetGroup]) -> None:
    """Replace the file at once: Prometheus may read it at any moment. An unwritable path is an InputError."""
    text = json.dumps([group.as_json() for group in groups], indent=2) + "\n"
    with raise_write_errors_as_input_errors("--output", path):
        write_file_atomically(path, text, 0o644)


def read_endpoints(report: Any) -> Iterator[ExporterEndpoint]:
    """Yield the endpoints of a report that have the expected form; a node's report is not trusted."""
    listed = report.get("exporters") if isinstance(report, Mapping) else None
    for entry in listed[:MAX_ENDPOINTS] if isinstance(listed, list) else ():
        if not isinstance(entry, Mapping):
            continue
        name, port, scheme = entry.get("name"), entry.get("port"), entry.get("scheme")
        if not (isinstance(name, str) and name.isidentifier() and len(name) <= MAX_NAME):
            continue
        if not isinstance(port, int) or isinstance(port, bool) or not 0 < port <= MAX_PORT:
            continue
        if isinstance(scheme, str) and scheme in SCHEMES:
            yield ExporterEndpoint(name, port, scheme)


def _labels(node: Node, endpoint: ExporterEndpoint) -> dict[str, str]:
    labels = {
        "job": endpoint.name,
        "instance": node.name,
        "__scheme__": endpoint.scheme,
        "kind": node.kind,
        "state": node.state,
        "cloud": node.cloud,
        "region": node.region,
        "pool": node.pool,
        "rack": node.rack,
        "slot": node.slot,
        "template": node.template,
        "machine": node.machine,
    }
    return {name: value for name, value in labels.items() if value}


def bracket_address(address: str) -> str:
    """Return an address as a URL has it before its port: one of IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address
