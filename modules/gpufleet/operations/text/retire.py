"""The plan of a wipe and what is left to do as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.nodes import Node


def format_wipe_plan_lines(node: Node, planned: Mapping[str, Any]) -> list[str]:
    """Return the plan as a person reads it before typing anything."""
    plan = planned["plan"]
    lines = [f"{node.name}, {format_node_location(node)}, serial {node.serial}: plan {plan['id']}"]
    for drive in plan["drives"]:
        name = drive["by_id"] or drive["path"]
        lines.append(
            f"  wipe   {name}  {drive['model']}  serial {drive['serial']}  {format_drive_size(drive['size'])}"
        )
        lines.append(f"         by {drive['method']} ({drive['strength']}): {format_wipe_commands(drive)}")
        lines += [f"         first {action}" for action in ("unmount", "release") if drive[action]]
    lines += [
        f"  leave  {drive['path']}  {format_drive_size(drive['size'])}: {drive['reason']}"
        for drive in plan["refused"]
    ]
    return lines + [f"  runs   {job}" for job in planned["jobs"]]


def format_wipe_commands(drive: Mapping[str, Any]) -> str:
    """Return a drive's commands on one line."""
    return "; ".join(" ".join(argv) for argv in drive["commands"])


def format_drive_size(size_bytes: int | None) -> str:
    """Return bytes as drives are sold."""
    if size_bytes is None:
        return "size unknown"
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.3g} {unit}"
    return f"{size_bytes} bytes"


def format_node_location(node: Node) -> str:
    """Return RACK/SLOT, or the node's kind if it is in no rack."""
    return f"{node.rack}/{node.slot}" if node.rack else node.kind


def describe_remaining_declaration(node: Node) -> str:
    """Return which file makes the next sync declare a node of this name again, or an empty text."""
    if node.rack and not node.cloud:
        return f"inventory/{node.rack}.yaml still declares slot {node.slot}: it expects another board there"
    if node.kind == "workstation" and node.stack:
        return f"stacks/Pulumi.{node.stack}.yaml still declares it: remove it, or the next sync adds it again"
    return ""
