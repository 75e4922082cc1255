"""Who a node is: board serial first, then cloud instance id, then rack slot.

A placeholder serial or UUID identifies nothing (``boundary/placeholder.py``). A serial that several nodes of a chassis
share is resolved in ``shared_serial.py``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from gpufleet.boundary.placeholder import is_placeholder_serial, is_placeholder_uuid, remove_punctuation

Slot: TypeAlias = "tuple[str, str]"
"""A place in a rack: (rack, slot)."""

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
    return None if is_placeholder_serial(text) else text


def normalize_uuid(uuid: str | None) -> str | None:
    """Return a system UUID in lower case, or None where it is a placeholder or not a UUID."""
    text = (uuid or "").strip().strip("\x00").lower()
    return text if _UUID.fullmatch(text) and not is_placeholder_uuid(text) else None


def normalize_mac(mac: str | None) -> str | None:
    """Return a MAC address in lower case, or None for one that is all zeros or all ones."""
    text = (mac or "").strip().lower().replace("-", ":")
    return text if _MAC.fullmatch(text) and len(set(remove_punctuation(text))) > 1 else None
