"""Changes that a person makes to nodes: by name, id, rack/slot or a printed range, and all of them or none.

Each change is one transaction of the registry: a process that is killed has changed every node, or none.
"""

from __future__ import annotations

import getpass
from typing import NamedTuple

from gpufleet.errors import InputError
from gpufleet.nodes import Node, Registry
from gpufleet.nodes.states import check_hold_kind, check_state_change
from gpufleet.remote import parse_host_pattern

LONGEST_ACTOR = 255


def find_actor(actor: str | None = None) -> str:
    """Return who makes a change: ``actor`` (--by) if given, else the login of the environment."""
    if actor is None:
        try:
            actor = getpass.getuser()
        except (KeyError, OSError):
            raise InputError("your login is unknown", where="--by", remedy="give --by NAME") from None
    if not actor.strip() or len(actor) > LONGEST_ACTOR:
        raise InputError("is empty or too long", where="--by", remedy="give a name")
    return actor.strip()


def require_reason(reason: str) -> str:
    """Return a reason; InputError for one that says nothing."""
    if not reason.strip():
        raise InputError("is empty", where="--reason", remedy="give a reason; it is stored in the history")
    return reason.strip()


def find_named_nodes(registry: Registry, names: str) -> list[Node]:
    """Return the nodes meant, by name; one that the registry does not know is an InputError."""
    nodes: dict[str, Node] = {}

    def find_id(name: str) -> set[str]:
        node = registry.get_node(name)
        nodes[node.id] = node
        return {node.id}

    ids = parse_host_pattern(names, "NODE").combine(find_id)
    return sorted((nodes[node_id] for node_id in ids), key=lambda node: (node.name, node.id))


class NodeChange(NamedTuple):
    """What a change did to one node."""

    node: str
    outcome: str

    def __str__(self) -> str:
        return f"{self.node}: {self.outcome}"


def change_node_states(registry: Registry, names: str, new_state: str, reason: str) -> list[NodeChange]:
    """Move nodes to another state, if the table allows it for all of them."""
    with registry.transaction():
        nodes = find_named_nodes(registry, names)
        for node in nodes:
            check_state_change(node.name, node.state, new_state)
        for node in nodes:
            registry.move_node(node.id, new_state, reason)
    return [NodeChange(node.name, new_state) for node in nodes]


def hold_nodes(registry: Registry, names: str, hold_kind: str, reason: str) -> list[NodeChange]:
    """Keep nodes from use without changing their state."""
    check_hold_kind(names, hold_kind)
    status_text = {True: "set", False: "stands already"}
    with registry.transaction():
        nodes = find_named_nodes(registry, names)
        return [
            NodeChange(
                node.name,
                f"{hold_kind} hold {status_text[registry.set_node_hold(node.id, hold_kind, reason)]}",
            )
            for node in nodes
        ]


def release_nodes(registry: Registry, names: str, hold_kind: str, reason: str) -> list[NodeChange]:
    """Release nodes from a hold."""
    check_hold_kind(names, hold_kind)
    status_text = {True: "released", False: "was not set"}
    with registry.transaction():
        nodes = find_named_nodes(registry, names)
        return [
            NodeChange(
                node.name,
                f"{hold_kind} hold {status_text[registry.release_node_hold(node.id, hold_kind, reason)]}",
            )
            for node in nodes
        ]
