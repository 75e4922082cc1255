"""The registry's cloud nodes for a comparison with a bill: who they are, since when, and when they were out of use."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from gpufleet import paths
from gpufleet.catalog import CLOUDS
from gpufleet.cost.analysis.billed_node import OutOfUse, RegisteredNode
from gpufleet.nodes import ATTENTION_STATES, Node, NodeHistoryEntry, Registry

RETIRED = "retired"
OUT_OF_USE_STATES = (*ATTENTION_STATES, RETIRED)


def list_registered_nodes(root: Path) -> list[RegisteredNode] | None:
    """Return the cloud nodes of a project's registry; None if it has none."""
    url = paths.registry_database_url(root)
    if not Registry.has_registry(url):
        return None
    with Registry(url) as registry:
        histories = registry.list_state_history()
        return [
            describe_node(node, histories.get(node.id, ()))
            for node in registry.list_nodes()
            if node.cloud in CLOUDS
        ]


def describe_node(node: Node, history: Sequence[NodeHistoryEntry]) -> RegisteredNode:
    """Return a node with the times of its states. ``history`` has what began each state."""
    return RegisteredNode(
        id=node.id,
        name=node.name,
        cloud=node.cloud or "",
        pool=node.pool or "",
        stack=node.stack or "",
        state=node.state,
        instance_id=node.instance_id or "",
        since=history[0].at if history else node.state_since,
        until=_find_end(node),
        out_of_use=tuple(_list_times_out_of_use(history)),
    )


def _find_end(node: Node) -> datetime | None:
    """Return when a node was retired, or when its last source lost it; None if it still exists."""
    if node.state == RETIRED:
        return node.state_since
    if not node.is_missing:
        return None
    return max(each.missing_since for each in node.sources if each.missing_since)


def _list_times_out_of_use(history: Sequence[NodeHistoryEntry]) -> list[OutOfUse]:
    next_times = [entry.at for entry in history[1:]]
    return [
        OutOfUse(entry.new_state, entry.at, end)
        for entry, end in zip(history, [*next_times, None], strict=False)
        if entry.new_state in OUT_OF_USE_STATES
    ]
