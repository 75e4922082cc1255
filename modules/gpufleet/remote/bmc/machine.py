"""Is the machine behind a BMC the node? Identifiers of both sides are compared, each with its own kind.

A serial identifies whichever field has it: makers disagree on what a system's serial is (``makers.yaml``). Two machines
are different only if the same kind of identifier differs. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from gpufleet.boundary import read_packaged_yaml
from gpufleet.boundary.placeholder import (
    is_placeholder_serial,
    is_placeholder_uuid,
    list_byte_orders,
    remove_punctuation,
)
from gpufleet.fleet.frozen_model import FrozenModel

Match = Literal["same", "other", "unknown", "not_compared"]

LONGEST_TEXT = 200
SERIAL_KINDS = ("serial", "board_serial", "chassis_serial")
ANY_SKU = "SKU without a rule"
OWN_SERIAL = "chosen by the registry"


class NodeIdentifiers(FrozenModel):
    """What the node's own firmware shows to its operating system; an empty text is unknown.

    ``shared_serial`` is the product serial that all nodes of its chassis show. ``serial`` is then one of its own, which
    the registry chose: its board's serial, or its UUID.
    """

    serial: str = ""
    shared_serial: str = ""
    board_serial: str = ""
    chassis_serial: str = ""
    uuid: str = ""

    def describe(self) -> str:
        """Return the known identifiers as text."""
        return describe_identifiers(self.model_dump())


@dataclass(frozen=True)
class MachineIdentity:
    """Who the machine behind a BMC is; an empty text is unknown.

    ``guid`` is the one of IPMI: on many BMCs it is the controller's own, so that another value proves nothing.
    """

    manufacturer: str = ""
    model: str = ""
    serial: str = ""
    sku: str = ""
    board_serial: str = ""
    chassis_serial: str = ""
    uuid: str = ""
    guid: str = ""

    @classmethod
    def from_values(cls, **values: object) -> MachineIdentity:
        """Return an identity from what a BMC sent, which may be anything."""
        texts = {
            key: value.strip("\x00 \t\r\n")[:LONGEST_TEXT]
            for key, value in values.items()
            if isinstance(value, str)
        }
        return cls(**texts)

    def describe(self) -> str:
        """Return the known identifiers as text."""
        return describe_identifiers(
            {key: value for key, value in vars(self).items() if key not in ("manufacturer", "model")}
        )


@dataclass(frozen=True)
class MachineComparison:
    """Whether the machine is the node, and why."""

    match: Match
    reason: str = ""


_NAMES = {
    "serial": "serial",
    "shared_serial": "serial of its chassis' nodes",
    "sku": "SKU",
    "board_serial": "board serial",
    "chassis_serial": "chassis serial",
    "uuid": "UUID",
    "guid": "GUID",
}


def describe_identifiers(values: dict[str, Any]) -> str:
    """Return named identifiers as text, without empty ones."""
    return ", ".join(f"{name} {values[key]}" for key, name in _NAMES.items() if values.get(key)) or "none"


def compare_machine(node: NodeIdentifiers, machine: MachineIdentity) -> MachineComparison:
    """Compare both sides; placeholders identify nothing."""
    ours, theirs = _list_node_serials(node), _list_machine_serials(machine)
    shared = _split_serials(node.shared_serial)
    uuid, their_uuid = _normalize_uuid(node.uuid), _normalize_uuid(machine.uuid)
    if uuid and {their_uuid, _normalize_uuid(machine.guid)} & list_byte_orders(uuid):
        return MachineComparison("same")
    differing = [
        _NAMES[kind]
        for kind in SERIAL_KINDS
        if _differs(ours.get(kind, frozenset()), theirs.get(kind, frozenset()))
    ]
    if uuid and their_uuid:
        differing.append("UUID")
    known_serials, their_serials = frozenset().union(*ours.values()), frozenset().union(*theirs.values())
    if common := known_serials & their_serials:
        # A chassis may have several nodes, and all of them may show its serial.
        chassis = theirs.get("chassis_serial", frozenset()) & ours["chassis_serial"]
        is_chassis_only = common <= chassis | shared
        if is_chassis_only and differing:
            return MachineComparison(
                "other", f"only the chassis serial is equal, and {format_difference(differing)}"
            )
        if is_chassis_only and common & shared:
            return MachineComparison(
                "unknown", "only the serial that the nodes of its chassis share is equal"
            )
        if not differing or differing == ["serial"]:
            return MachineComparison("same")
        return MachineComparison("unknown", f"one serial is equal, but {format_difference(differing)}")
    if differing:
        return MachineComparison("other", format_difference(differing))
    # Without a rule a SKU may be a model's number: that it differs means nothing.
    telling = frozenset().union(*(serials for kind, serials in theirs.items() if kind != ANY_SKU))
    has_both = (known_serials or uuid) and (telling or their_uuid)
    return (
        MachineComparison("unknown", "they have no identifier in common")
        if has_both
        else MachineComparison("not_compared")
    )


def format_difference(names: Sequence[str]) -> str:
    """Return which identifiers differ, as text."""
    return f"the {' and the '.join(names)} {'differ' if len(names) > 1 else 'differs'}"


def _list_node_serials(node: NodeIdentifiers) -> dict[str, frozenset[str]]:
    """Return the node's serials by their kind. Where a chassis has one for all, that one is its product serial."""
    serials = {kind: _split_serials(getattr(node, kind)) for kind in SERIAL_KINDS}
    if shared := _split_serials(node.shared_serial):
        serials |= {"serial": shared, OWN_SERIAL: serials["serial"]}
    return serials


def _list_machine_serials(machine: MachineIdentity) -> dict[str, frozenset[str]]:
    """Return the serials of a machine by the identifier of the node that each field has."""
    rule = _find_rule(machine.manufacturer.casefold(), machine.model.casefold())
    serials: dict[str, frozenset[str]] = {}
    for field in (*SERIAL_KINDS, "sku"):
        kind = rule.get(field, ANY_SKU if field == "sku" else field)
        serials[kind] = serials.get(kind, frozenset()) | _split_serials(getattr(machine, field))
    return serials


def _differs(first: frozenset[str], second: frozenset[str]) -> bool:
    """Return True if two serials of one kind are of two machines.

    A maker writes serials of one kind in one length. Of two lengths, one is not what its field says.
    """
    return (
        bool(first and second)
        and not first & second
        and {len(text) for text in first} == {len(text) for text in second}
    )


@cache
def _find_rule(manufacturer: str, model: str) -> dict[str, str]:
    for row in read_packaged_yaml("gpufleet.remote.bmc", "makers.yaml"):
        if manufacturer.startswith(row["manufacturer"]) and row.get("model", "") in model:
            return dict(row)
    return {}


def _split_serials(text: str) -> frozenset[str]:
    """Return the serials in a text in one form. Dell's board serial has service tag and board number, between dots."""
    parts = [text, *text.split(".")] if text.startswith(".") else [text]
    return frozenset(remove_punctuation(part) for part in parts if not is_placeholder_serial(part))


def _normalize_uuid(text: str) -> str:
    """Return the 32 hexadecimal digits of a UUID; empty for a placeholder and for anything else."""
    return "" if is_placeholder_uuid(text) else remove_punctuation(text)
