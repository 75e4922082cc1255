"""Who a node is: board serial first, then cloud instance id, then rack slot.

A placeholder serial or UUID identifies nothing and is known as such (``data/placeholder-serials.yaml``,
``data/placeholder-uuids.yaml``). A serial that several nodes of a chassis share is resolved in ``shared_serial.py``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from gpufleet.boundary import read_packaged_yaml

Slot: TypeAlias = "tuple[str, str]"
"""A place in a rack: (rack, slot)."""

_SHORTEST_SERIAL = 4
_FEWEST_CHARACTERS = 2
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """A node's identity as a source reports it; each part may be unknown."""

    serial: str | None = None
    instance_id: str | None = None
    rack: str | None = None
    slot: str | None = None
    account: str = ""  # of the instance, as the spec names it: ids of two accounts may be the same

    @property
    def instance(self) -> tuple[str, str]:
        """Return the instance with its account, ids empty where there is none."""
        return (self.account, self.instance_id or "")

    @property
    def rack_slot(self) -> Slot | None:
        return (self.rack, self.slot) if self.rack and self.slot else None

    @property
    def identifying_serial(self) -> str | None:
        """Return the serial where it really identifies a board."""
        return normalize_serial(self.serial)


def normalize_serial(serial: str | None) -> str | None:
    """Return the serial without surrounding blanks, or None where it is a placeholder."""
    text = (serial or "").strip().strip("\x00")
    plain = _plain(text)
    if len(plain) < _SHORTEST_SERIAL or len(set(plain)) == 1 or plain in _placeholders():
        return None
    return text


def normalize_uuid(uuid: str | None) -> str | None:
    """Return a system UUID in lower case, or None where it is a placeholder or not a UUID."""
    text = (uuid or "").strip().strip("\x00").lower()
    if not _UUID.fullmatch(text) or len(set(_plain(text))) <= _FEWEST_CHARACTERS or _plain(text) in _uuids():
        return None
    return text


def normalize_mac(mac: str | None) -> str | None:
    """Return a MAC address in lower case, or None for one that is all zeros or all ones."""
    text = (mac or "").strip().lower().replace("-", ":")
    return text if _MAC.fullmatch(text) and len(set(_plain(text))) > 1 else None


def _plain(text: str) -> str:
    return re.sub(r"[^0-9a-z]", "", text.lower())


@cache
def _placeholders() -> frozenset[str]:
    return _read_values("data/placeholder-serials.yaml")


@cache
def _uuids() -> frozenset[str]:
    return _read_values("data/placeholder-uuids.yaml")


def _read_values(name: str) -> frozenset[str]:
    groups = read_packaged_yaml("gpufleet.nodes", name)
    return frozenset(_plain(value) for group in groups for value in group["values"])


def list_placeholder_serials() -> frozenset[str]:
    """Return the texts that identify nothing, without case, punctuation and blanks."""
    return _placeholders()


def list_placeholder_uuids() -> frozenset[str]:
    """Return the UUIDs that identify nothing, as 32 hexadecimal digits."""
    return _uuids()
