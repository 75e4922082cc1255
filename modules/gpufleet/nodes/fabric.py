"""The fabric of a pool's nodes, as the stack output ``fabric`` declares it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from gpufleet.catalog.fact_value import Fabric
from gpufleet.engine import StateResource
from gpufleet.nodes.model import Node, NodeObservation
from gpufleet.nodes.pulumi_state import get_nested_text, get_nested_value
from gpufleet.nodes.source_report import SourceReport

PoolFabric = dict[str, Any]
MAX_POOLS = 2000


def read_stack_fabrics(resources: Sequence[StateResource]) -> dict[str, PoolFabric]:
    """Return the fabric of each pool: kind, adapters of one node, and their rate together, as far as known."""
    stack = next((r for r in resources if r.type == "pulumi:pulumi:Stack"), None)
    listed = get_nested_value(stack.outputs, "fabric") if stack else None
    fabrics = {}
    for entry in listed[:MAX_POOLS] if isinstance(listed, list) else []:
        pool, kind = get_nested_text(entry, "pool"), get_nested_text(entry, "kind")
        if not pool or kind not in get_args(Fabric):
            continue
        figures = {name: get_nested_value(entry, name) for name in ("adapters", "expected_gbit_per_s")}
        known = {name: value for name, value in figures.items() if _is_positive_number(value)}
        fabrics[pool] = {"kind": kind, **known}
    return fabrics


def get_fabric_kind(node: Node) -> str | None:
    """Return the fabric that the stack declares for a node, such as ``efa``; None if it declares none."""
    kind = (node.hardware.get("fabric") or {}).get("kind")
    return kind if kind in get_args(Fabric) else None


def declare_pool_fabrics(report: SourceReport, fabrics: Mapping[str, PoolFabric]) -> SourceReport:
    """Return a report in which each node of a pool with a fabric declares it."""
    return replace(report, observations=[_declare_fabric(seen, fabrics) for seen in report.observations])


def _declare_fabric(seen: NodeObservation, fabrics: Mapping[str, PoolFabric]) -> NodeObservation:
    pool = seen.declared.get("pool") or seen.observed.get("pool")
    fabric = fabrics.get(pool) if isinstance(pool, str) else None
    return replace(seen, declared={**seen.declared, "fabric": fabric}) if fabric else seen


def _is_positive_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9  # noqa: PLR2004 - sanity
