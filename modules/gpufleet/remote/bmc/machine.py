"""Is the machine behind a BMC the node? Identifiers of both sides are compared, each with its own kind.

A serial identifies whichever field has it: makers disagree on what a system's serial is (``makers.yaml``). Two machines
are different only if the same kind of identifier differs. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from gpufleet.boundary import read_packaged_yaml
from gpufleet.fleet.frozen_model import FrozenModel

Match = Literal["same", "other", "unknown", "not_compared"]

LONGEST_TEXT = 200
SHORTEST_SERIAL = 4
SERIAL_KINDS = ("serial", "board_serial", "chassis_serial")
UUID_DIGITS, FEWEST_DIGITS = 32, 2  # one or two repeated digits identify nothing: FEFEFEFE-…
ANY_SKU = "SKU without a rule"
# Defaults of firmware, in either byte order: AMI's template, and one that several board makers left in.
PLACEHOLDER_UUIDS = frozenset(
    (
        "03000200040005000006000700080009",
        "00020003000400050006000700080009",
        "00112233445566778899aabbccddeeff",
    )
)


class NodeIdentifiers(FrozenModel):
    """What the node's own firmware shows to its operating system; an empty text is unknown."""

    serial: str = ""
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
    "sku": "SKU",
    "board_serial": "board serial",
    "chassis_serial": "chassis serial",
    "uuid": "UUID",
    "guid": "GUID",
}


def describe_identifiers(values: dict[str, Any]) -> str:
    """Return named identifiers as text, without empty ones."""
    return ", ".join(f"{name} {values[key]}" for key, name in _NAMES.items() if values.get(key)) or "none"


def compare_machine(
    node: NodeIdentifiers, machine: MachineIdentity, placeholders: Collection[str] = ()
) -> MachineComparison:
    """Compare both sides. ``placeholders`` are texts that identify nothing, without case and punctuation."""
    node_serials = {kind: _split_serials(getattr(node, kind), placeholders) for kind in SERIAL_KINDS}
    theirs = _list_machine_serials(machine, placeholders)
    uuid, their_uuid, guid = (
        _normalize_uuid(text, placeholders) for text in (node.uuid, machine.uuid, machine.guid)
    )
    differing = [
        _NAMES[kind] for kind in SERIAL_KINDS if _differs(node_serials[kind], theirs.get(kind, frozenset()))
    ]
    known_serials, their_serials = (
        frozenset().union(*node_serials.values()),
        frozenset().union(*theirs.values()),
    )
    common = known_serials & their_serials
    if uuid and {their_uuid, guid} & _list_byte_orders(uuid):
        return MachineComparison("same")
    if uuid and their_uuid:
        differing.append("UUID")
    if common:
        # A chassis may have several nodes, and all of them may show its serial.
        is_chassis_only = common <= theirs.get("chassis_serial", frozenset()) & node_serials["chassis_serial"]
        if not differing or (differing == ["serial"] and not is_chassis_only):
            return MachineComparison("same")
        if is_chassis_only:
            return MachineComparison(
                "other", f"only the chassis serial is equal, and {format_difference(differing)}"
            )
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


def _list_machine_serials(
    machine: MachineIdentity, placeholders: Collection[str]
) -> dict[str, frozenset[str]]:
    """Return the serials of a machine by the identifier of the node that each field has."""
    rule = _find_rule(machine.manufacturer.casefold(), machine.model.casefold())
    serials: dict[str, frozenset[str]] = {}
    for field in (*SERIAL_KINDS, "sku"):
        kind = rule.get(field, ANY_SKU if field == "sku" else field)
        serials[kind] = serials.get(kind, frozenset()) | _split_serials(getattr(machine, field), placeholders)
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


def _split_serials(text: str, placeholders: Collection[str]) -> frozenset[str]:
    """Return the serials in a text in one form. Dell's board serial has service tag and board number, between dots."""
    parts = [text, *text.split(".")] if text.startswith(".") else [text]
    serials = (re.sub(r"[^0-9a-z]", "", part.casefold()) for part in parts)
    return frozenset(
        serial
        for serial in serials
        if len(serial) >= SHORTEST_SERIAL and len(set(serial)) > 1 and serial not in placeholders
    )


def _normalize_uuid(text: str, placeholders: Collection[str]) -> str:
    """Return the 32 hexadecimal digits of a UUID; empty for a placeholder and for anything else."""
    digits = re.sub(r"[^0-9a-f]", "", text.casefold())
    if len(digits) != UUID_DIGITS or len(set(digits)) <= FEWEST_DIGITS:
        return ""
    is_placeholder = any(
        order in PLACEHOLDER_UUIDS or order in placeholders for order in _list_byte_orders(digits)
    )
    return "" if is_placeholder else digits


def _list_byte_orders(uuid: str) -> set[str]:
    """Return a UUID as RFC 4122, SMBIOS from 2.6 (first three fields swapped) and IPMI (reversed) write its bytes."""
    content = bytes.fromhex(uuid)
    orders = set()
    for each in (content, content[::-1]):
        orders |= {each.hex(), (each[3::-1] + each[5:3:-1] + each[7:5:-1] + each[8:]).hex()}
    return orders
