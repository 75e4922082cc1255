"""Which node an observation means, by the strongest identity it carries; contradictions are named, not solved.

Pure: works on an index of the live nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpufleet.nodes.identity import Slot, normalize_serial
from gpufleet.nodes.model import NodeObservation


@dataclass(slots=True)
class LiveNode:
    """What identifies one live node."""

    id: str
    name: str
    state: str
    serial: str | None = None
    instance_id: str | None = None
    rack: str | None = None
    slot: str | None = None
    account: str = ""

    @property
    def rack_slot(self) -> Slot | None:
        return (self.rack, self.slot) if self.rack and self.slot else None


@dataclass(frozen=True, slots=True)
class IdentityContradiction:
    """Two claims that cannot both hold; ``nodes`` are the ids concerned."""

    kind: str
    subject: str
    detail: str
    nodes: tuple[str, ...]


@dataclass
class NodeIndex:
    """Live nodes by each identity."""

    nodes: dict[str, LiveNode] = field(default_factory=dict)
    by_serial: dict[str, str] = field(default_factory=dict)
    by_instance: dict[tuple[str, str], str] = field(default_factory=dict)
    by_rack_slot: dict[Slot, str] = field(default_factory=dict)
    by_name: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add_node(self, node: LiveNode) -> None:
        """Add a node, or replace it after its identity changed."""
        self.remove_node(node.id)
        self.nodes[node.id] = node
        if node.serial:
            self.by_serial[node.serial] = node.id
        if node.instance_id:
            self.by_instance[node.account, node.instance_id] = node.id
        if node.rack_slot:
            self.by_rack_slot[node.rack_slot] = node.id
        self.by_name[node.name].append(node.id)

    def remove_node(self, node_id: str) -> None:
        """Forget a node and everything that led to it."""
        old = self.nodes.pop(node_id, None)
        if old is None:
            return
        self.by_serial.pop(old.serial or "", None)
        self.by_instance.pop((old.account, old.instance_id or ""), None)
        if old.rack_slot:
            self.by_rack_slot.pop(old.rack_slot, None)
        self.by_name[old.name].remove(node_id)

    def match_observation(
        self, observation: NodeObservation
    ) -> tuple[LiveNode | None, IdentityContradiction | None]:
        """Return the node meant, or None for a new one, and what contradicts it."""
        serial = observation.identity.identifying_serial
        hits = {
            "serial": self.by_serial.get(serial or ""),
            "instance": self.by_instance.get(observation.identity.instance),
            "slot": self.by_rack_slot.get(observation.identity.rack_slot)
            if observation.identity.rack_slot
            else None,
        }
        ids = list(dict.fromkeys(hit for hit in hits.values() if hit))
        if len(ids) > 1:
            return None, self._ambiguous_identity(observation, ids)
        if not ids:
            return self._by_name_alone(observation), None
        node = self.nodes[ids[0]]
        return node, _find_change(observation, node, serial, by_slot=hits["serial"] is None)

    def _by_name_alone(self, observation: NodeObservation) -> LiveNode | None:
        """Return the one node of that name, where the observation or the node has nothing stronger."""
        node_ids = self.by_name.get(observation.name, [])
        if len(node_ids) != 1 or observation.identity.instance_id or observation.identity.rack_slot:
            return None
        node = self.nodes[node_ids[0]]
        is_unknown = not (node.serial or node.instance_id or node.rack_slot)
        return node if is_unknown or not observation.identity.identifying_serial else None

    def _ambiguous_identity(self, observation: NodeObservation, ids: list[str]) -> IdentityContradiction:
        first, second = (self.nodes[node_id] for node_id in ids[:2])
        detail = f"{_claims(observation)} belongs to both {_claims_of(first)} and {_claims_of(second)}"
        return IdentityContradiction("identity", _claims(observation), detail, tuple(ids))


def _find_change(
    observation: NodeObservation, node: LiveNode, serial: str | None, *, by_slot: bool
) -> IdentityContradiction | None:
    """Return the contradiction if a slot's or instance's board serial changed."""
    if by_slot and serial and node.serial and serial != node.serial:
        detail = f"{node.name} had serial {node.serial}, now {observation.source} says {serial}"
        return IdentityContradiction("serial_changed", node.name, detail, (node.id,))
    return None


def _claims(observation: NodeObservation) -> str:
    identity = observation.identity
    serial = normalize_serial(identity.serial)
    parts = (
        serial and f"serial {serial}",
        identity.instance_id,
        identity.rack_slot and "/".join(identity.rack_slot),
    )
    return ", ".join(part for part in parts if part) or observation.name


def _claims_of(node: LiveNode) -> str:
    where = "/".join(node.rack_slot) if node.rack_slot else node.instance_id or "no place"
    return f"{node.name} ({where})"


def find_repeated_serials(observations: Iterable[NodeObservation]) -> dict[str, list[NodeObservation]]:
    """Return the serials that one report gives to more than one node."""
    by_serial: dict[str, list[NodeObservation]] = defaultdict(list)
    for observation in observations:
        if serial := observation.identity.identifying_serial:
            by_serial[serial].append(observation)
    return {serial: sharing for serial, sharing in by_serial.items() if len(sharing) > 1}


def find_shared_node_names(index: NodeIndex, missing_node_ids: set[str]) -> dict[str, tuple[str, ...]]:
    """Return the names that more than one live, present node carries."""
    names = Counter(node.name for node in index.nodes.values() if node.id not in missing_node_ids)
    return {
        name: tuple(i for i in index.by_name[name] if i not in missing_node_ids)
        for name, count in names.items()
        if count > 1
    }
