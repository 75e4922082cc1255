"""The names by which outside things are known: each must match a strict pattern before anything else sees it."""

from __future__ import annotations

import re
from ipaddress import ip_address

from gpufleet.boundary.text import shorten_repr
from gpufleet.errors import InputError

IDENTIFIERS: dict[str, re.Pattern[str]] = {
    # What boards, GPUs and drives print as serials: letters, digits and few marks, blanks inside.
    "serial": re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._:/+-]{0,126}[A-Za-z0-9.])?"),
    # Host names of RFC 1123, and the underscores that clouds' group members may have.
    "name": re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?"),
    "instance id": re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:/()-]{0,510}[A-Za-z0-9)])?"),
    # Names of products: "NVIDIA A100-SXM4-80GB", "Raspberry Pi Compute Module 4 Rev 1.1", "AMD Radeon(TM) 780M".
    "model": re.compile(r"[A-Za-z0-9(](?:[A-Za-z0-9 ._,:/+()&@'®™-]{0,254}[A-Za-z0-9.)®™+])?"),
    "attempt": re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:+-]{0,126}[A-Za-z0-9])?"),
}


def is_identifier(value: object, kind: str) -> bool:
    """Return True if a value is a well-formed identifier of its kind (``IDENTIFIERS``, or ``address``)."""
    if not isinstance(value, str):
        return False
    if kind == "address":
        return _is_address(value)
    return IDENTIFIERS[kind].fullmatch(value) is not None


def check_identifier(value: object, kind: str, where: str, key: str = "") -> str:
    """Return a well-formed identifier; raise InputError otherwise."""
    if isinstance(value, str) and is_identifier(value, kind):
        return value
    raise InputError(f"{shorten_repr(value, 80)} is not a well-formed {kind}", where=where, key=key)


def _is_address(text: str) -> bool:
    """Return True if a text is an IP address (a scope such as ``%eth0`` included) or a host name."""
    if IDENTIFIERS["name"].fullmatch(text):
        return True
    address, _, scope = text.partition("%")
    if scope and not re.fullmatch(r"[A-Za-z0-9._-]{1,15}", scope):
        return False
    try:
        ip_address(address)
    except ValueError:
        return False
    return True
