"""Who a node is: board serial first, then cloud instance id, then rack slot.

A placeholder serial identifies nothing and is known as such (``data/placeholder-serials.yaml``).
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


def _plain(text: str) -> str:
    return re.sub(r"[^0-9a-z]", "", text.lower())


@cache
def _placeholders() -> frozenset[str]:
    groups = read_packaged_yaml("gpufleet.nodes", "data/placeholder-serials.yaml")
    return frozenset(_plain(value) for group in groups for value in group["values"])


def list_placeholder_serials() -> frozenset[str]:
    """Return the texts that identify nothing, without case, punctuation and blanks."""
    return _placeholders()
