"""Versions of packages: the part that NVIDIA or AMD gave, its branch, which is newer."""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST_NUMBER = 18  # digits of one part of a version: dates have 14
_UPSTREAM = re.compile(r"^(?:\d+:)?(\d+(?:\.\d+)*)")


def upstream(version: str) -> str:
    """Return the maker's own version out of a package's: 3:580.95.05-1.el9 → 580.95.05."""
    found = _UPSTREAM.match(version)
    return found.group(1) if found else version


def branch_of(version: str) -> int | None:
    """Return the branch of a driver's version."""
    head = upstream(version).split(".")[0]
    return int(head) if head.isdecimal() and len(head) <= LONGEST_NUMBER else None


def key(version: str) -> tuple[int, ...]:
    """Return what dotted versions are ordered by: 580.95.05 is older than 580.105.08."""
    return tuple(int(part) for part in re.findall(r"\d{1,18}", upstream(version)))


def newest(versions: Iterable[str]) -> str | None:
    """Return the newest by the maker's version; among equals the first, as the package manager lists them."""
    best: str | None = None
    for version in versions:
        if best is None or key(version) > key(best):
            best = version
    return best


def series(kernel: str) -> tuple[int, int]:
    """Return the first two numbers of a kernel's release."""
    found = re.match(r"(\d{1,18})\.(\d{1,18})", kernel)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)
