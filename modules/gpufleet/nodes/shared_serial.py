"""Product serials that several nodes share: those of one chassis (Dell C6100, FatTwin, blade enclosures) report one.

A node is then known by its board's serial, else by its system UUID, else, where it has no place, by its MAC address. A
node that is registered under the shared serial keeps it: its reports match as before. Whether two nodes share a serial
or one board answers in two places is decided by what else they report. A serial that a source declares, or that a
device tree gives (a Pi's, unique for each SoC), is shared only if everything else differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, select

from gpufleet.boundary import is_identifier
from gpufleet.nodes import schema
from gpufleet.nodes.identity import normalize_mac, normalize_serial, normalize_uuid
from gpufleet.nodes.model import NodeObservation, is_witness_source
from gpufleet.nodes.node_index import LiveNode, NodeIndex

DEVICE_TREE = "device_tree"
SHARED_SERIAL = "shared_serial"
"""The observed key that keeps a shared serial on the nodes that are known by something else."""
_EVIDENCE_KEYS = ("board_serial", "uuid", "mac")
_SERIAL_KEYS = ("observed.serial", "declared.serial")


@dataclass(frozen=True, slots=True)
class BoardEvidence:
    """What tells a board apart besides its product serial; placeholders are None."""

    board_serial: str | None = None
    uuid: str | None = None
    mac: str | None = None

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> BoardEvidence:
        """Return the evidence in a node's observed values."""
        texts = {key: value for key in _EVIDENCE_KEYS if isinstance(value := values.get(key), str)}
        return cls(
            _normalize_board_serial(texts.get("board_serial")),
            normalize_uuid(texts.get("uuid")),
            normalize_mac(texts.get("mac")),
        )

    def is_same_board(self, other: BoardEvidence) -> bool | None:
        """Return whether both are one board; None if they have nothing to compare. One difference is enough."""
        pairs = [(getattr(self, key), getattr(other, key)) for key in _EVIDENCE_KEYS]
        known = [first == second for first, second in pairs if first and second]
        return all(known) if known else None


@dataclass
class SharedSerials:
    """Finds reports with a serial that another node has, and gives them their own identity."""

    connection: Connection
    index: NodeIndex
    recent: dict[str, NodeObservation] = field(default_factory=dict)  # of this transaction, by node id

    def resolve_observation(self, observation: NodeObservation) -> NodeObservation:
        """Return an observation with a serial that is the node's own; unchanged where its serial is not shared."""
        identity, observed = observation.identity, observation.observed
        if (
            not is_witness(observation)
            or observed.get("serial_source") == DEVICE_TREE
            or identity.instance_id
        ):
            return observation
        serial, target = identity.identifying_serial, self._find_target(observation)
        if serial is None:
            is_reported = bool(identity.serial)
            return self._with_own_serial(observation, target, "") if is_reported else observation
        holder_id = self.index.by_serial.get(serial)
        if (
            target
            and target.serial
            and target.serial != serial
            and self._is_known(target, observation, serial)
        ):
            return _replace_serial(observation, target.serial, serial)
        if holder_id is None or (target and target.id == holder_id):
            return observation
        if not self._is_shared(self.index.nodes[holder_id], observation, target, serial):
            return observation
        return self._with_own_serial(observation, target, serial)

    def _find_target(self, observation: NodeObservation) -> LiveNode | None:
        """Return the node of the observation's place, else the one of its name."""
        place = observation.identity.rack_slot
        if place:
            return self.index.nodes.get(self.index.by_rack_slot.get(place, ""))
        ids = self.index.by_name.get(observation.name, [])
        return self.index.nodes[ids[0]] if len(ids) == 1 else None

    def _is_known(self, target: LiveNode, observation: NodeObservation, serial: str) -> bool:
        """Return whether a node is registered under its own identity and shares this serial with others."""
        evidence = BoardEvidence.from_values(observation.observed)
        if target.serial in (evidence.board_serial, evidence.uuid, evidence.mac):
            return True
        values, _ = self._load_values(target.id)
        return values.get(SHARED_SERIAL) == serial

    def _is_shared(
        self, holder: LiveNode, observation: NodeObservation, target: LiveNode | None, serial: str
    ) -> bool:
        """Return whether the holder of a serial is another board than the reporting one."""
        values, is_declared = self._load_values(holder.id)
        evidence = BoardEvidence.from_values(observation.observed)
        is_same = BoardEvidence.from_values(values).is_same_board(evidence)
        if is_same is not None:
            return not is_same
        # Nothing to compare: a serial that no source declares does not stop two nodes of two places.
        return target is not None and not is_declared and target.serial in (None, serial)

    def _with_own_serial(
        self, observation: NodeObservation, target: LiveNode | None, shared_serial: str
    ) -> NodeObservation:
        """Return the observation with the first identity that no other node has."""
        evidence = BoardEvidence.from_values(observation.observed)
        candidates = [evidence.board_serial, evidence.uuid]
        if observation.identity.rack_slot is None:
            candidates.append(evidence.mac)
        new_serial = next(
            (
                candidate
                for candidate in candidates
                if candidate
                and candidate != shared_serial
                and self.index.by_serial.get(candidate, target and target.id) == (target and target.id)
            ),
            None,
        )
        if target and target.serial and new_serial != target.serial and not shared_serial:
            new_serial = None  # a placeholder does not replace the serial that a source declares
        return _replace_serial(observation, new_serial, shared_serial)

    def _load_values(self, node_id: str) -> tuple[dict[str, Any], bool]:
        """Return the observed values of a node by key, and whether a source declares its serial."""
        table = schema.observation.c
        keys = [*(f"observed.{key}" for key in (*_EVIDENCE_KEYS, SHARED_SERIAL)), *_SERIAL_KEYS]
        query = (
            select(table.source, table.key, table.value)
            .where(table.node_id == node_id, table.key.in_(keys))
            .order_by(table.revision)
        )
        values: dict[str, Any] = {}
        is_declared = False
        for source, key, value in self.connection.execute(query):
            if key in _SERIAL_KEYS:
                is_declared |= not is_witness_source(source)
            else:
                values[key.partition(".")[2]] = value
        recent = self.recent.get(node_id)
        return values | (recent.observed if recent else {}), is_declared


def _normalize_board_serial(serial: str | None) -> str | None:
    """Return a board's serial without the marks around it (Dell: ``.0AB1C24.CN70163.``), or None if it is not one."""
    text = normalize_serial((serial or "").strip("\x00 ./"))
    return text if text and is_identifier(text, "serial") else None


def is_witness(observation: NodeObservation) -> bool:
    """Return whether an observation comes from a source that only observes nodes."""
    return is_witness_source(observation.source)


def _replace_serial(observation: NodeObservation, serial: str | None, shared_serial: str) -> NodeObservation:
    chassis = {SHARED_SERIAL: shared_serial} if shared_serial else {}
    return replace(
        observation,
        identity=replace(observation.identity, serial=serial),
        observed=observation.observed | chassis,
    )
