"""Package versions: upstream version, branch and order."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_NUMBER_DIGITS = 18  # digits of one part of a version: dates have 14
_UPSTREAM = re.compile(r"^(?:\d+:)?(\d+(?:\.\d+)*)")


def parse_upstream_version(package_version: str) -> str:
    """Return the upstream version of a package version: 3:580.95.05-1.el9 → 580.95.05."""
    match = _UPSTREAM.match(package_version)
    return match.group(1) if match else package_version


def parse_driver_branch(version: str) -> int | None:
    """Return the branch of a driver's version."""
    head = parse_upstream_version(version).split(".")[0]
    return int(head) if head.isdecimal() and len(head) <= MAX_NUMBER_DIGITS else None


def version_sort_key(version: str) -> tuple[int, ...]:
    """Return the sort key of a dotted version: 580.95.05 is older than 580.105.08."""
    return tuple(int(part) for part in re.findall(r"\d{1,18}", parse_upstream_version(version)))


def find_newest_version(versions: Iterable[str]) -> str | None:
    """Return the version with the newest upstream version; of equal ones the first."""
    best: str | None = None
    for version in versions:
        if best is None or version_sort_key(version) > version_sort_key(best):
            best = version
    return best


def parse_kernel_series(kernel_release: str) -> tuple[int, int]:
    """Return the first two numbers of a kernel release."""
    match = re.match(r"(\d{1,18})\.(\d{1,18})", kernel_release)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)
