"""Serials and UUIDs that firmware gives to many machines: they identify nothing (``data/placeholder-*.yaml``).

The registry and the comparison of BMCs both ask here.
"""

from __future__ import annotations

import re
from functools import cache

from gpufleet.boundary.package_data import read_packaged_yaml

SHORTEST_SERIAL = 4
UUID_DIGITS = 32
FEWEST_CHARACTERS = 3  # of a UUID: FE… repeated is a placeholder too


def remove_punctuation(text: str) -> str:
    """Return an identifier as it is compared: in lower case, without punctuation and blanks."""
    return re.sub(r"[^0-9a-z]", "", text.casefold())


def is_placeholder_serial(serial: str) -> bool:
    """Return whether a serial identifies nothing."""
    plain = remove_punctuation(serial)
    return len(plain) < SHORTEST_SERIAL or len(set(plain)) == 1 or plain in _load_placeholders("serials")


def is_placeholder_uuid(uuid: str) -> bool:
    """Return whether a UUID identifies nothing; a text that is not a UUID does not either."""
    plain = remove_punctuation(uuid)
    return (
        not re.fullmatch(rf"[0-9a-f]{{{UUID_DIGITS}}}", plain)
        or len(set(plain)) < FEWEST_CHARACTERS
        or not list_byte_orders(plain).isdisjoint(_load_placeholders("uuids"))
    )


def list_byte_orders(uuid: str) -> set[str]:
    """Return the 32 digits of a UUID as RFC 4122, SMBIOS from 2.6 and IPMI write its bytes.

    SMBIOS swaps the first three fields, IPMI reverses all bytes.
    """
    content = bytes.fromhex(uuid)
    orders = set()
    for each in (content, content[::-1]):
        orders |= {each.hex(), (each[3::-1] + each[5:3:-1] + each[7:5:-1] + each[8:]).hex()}
    return orders


@cache
def _load_placeholders(kind: str) -> frozenset[str]:
    groups = read_packaged_yaml("gpufleet.boundary", f"data/placeholder-{kind}.yaml")
    return frozenset(remove_punctuation(value) for group in groups for value in group["values"])
