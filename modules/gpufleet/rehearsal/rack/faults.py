"""Faults to inject into hosts: their kinds, and the file that assigns them to hosts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from gpufleet.boundary import decode_yaml_with_line_numbers, read_text
from gpufleet.catalog import load_operating_systems
from gpufleet.errors import InputError

KINDS = {
    "unreachable": "its sshd does not start",
    "disk_full": "its root file system is full",
    "undervoltage": "its Pi flags report undervoltage and throttling, now and since boot",
    "link_down": "its network link is down",
    "slow_link": "its network is limited to 10 Mbit/s in each direction, as with a damaged cable",
    "apt_locked": "a process holds the package manager's locks for this many seconds after it boots",
    "disk_small": "its root file system has this many MiB left, which a larger install fills",
    "changed_host_key": "its SSH host key differs from the one in the known-hosts file",
    "dies": "it powers off when root's n-th SSH session starts, once",
}
DEFAULT_AMOUNTS = {
    "apt_locked": 60,
    "disk_small": 100,
    "dies": 4,
}  # defaults, overridden by e.g. `apt_locked=20`
MAX_AMOUNT = 100_000
NO_SSH_FAULTS = frozenset({"unreachable", "link_down"})  # with these a host does not answer SSH
SECTIONS = ("faults", "arm64", "disks", "systems")
MAX_DISKS = 16


@dataclass(frozen=True)
class FaultPlan:
    """The faults of hosts, which are real arm64, their drives and systems; keys are ``rack/slot``."""

    by_place: Mapping[str, frozenset[str]] = field(default_factory=dict)
    arm64: frozenset[str] = frozenset()
    disks: Mapping[str, int] = field(default_factory=dict)
    suites: Mapping[str, str] = field(default_factory=dict)  # Debian's codenames
    source: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)

    def get_host_faults(self, place: str) -> frozenset[str]:
        """Return the faults of the host at ``rack/slot``."""
        return self.by_place.get(place, frozenset())

    def check_places_exist(self, known_places: set[str]) -> None:
        """Raise InputError for a place that is in no rack."""
        for place in (*self.by_place, *sorted(self.arm64), *self.disks, *self.suites):
            if place not in known_places:
                examples = ", ".join(sorted(known_places)[:3]) or "none: the stack has no rack"
                raise InputError(
                    "no such node",
                    where=self._location(place),
                    key=place,
                    remedy=f"write nodes as rack/slot: {examples} …",
                )

    def _location(self, place: str) -> str:
        return f"{self.source}:{self.lines[place]}" if place in self.lines else self.source


NO_FAULTS = FaultPlan()


def find_fault_amount(faults: Collection[str], kind: str) -> int | None:
    """Return the amount of a fault: from the file, else the default; None without the fault."""
    match = next((fault for fault in faults if fault.partition("=")[0] == kind), None)
    return None if match is None else int(match.partition("=")[2] or DEFAULT_AMOUNTS[kind])


def load_faults(file_or_set_name: str | Path | None) -> FaultPlan:
    """Load a faults file, or a built-in set by its name (``demo``); None means no faults."""
    if file_or_set_name is None:
        return NO_FAULTS
    built_in = resources.files("gpufleet.rehearsal") / "data" / f"faults-{file_or_set_name}.yaml"
    if built_in.is_file():
        return parse_faults(built_in.read_text(), f"faults-{file_or_set_name}.yaml")
    path = Path(file_or_set_name)
    if not path.is_file():
        raise InputError(
            f"no faults file or set {str(file_or_set_name)!r}", remedy="give a file, or the set 'demo'"
        )
    return parse_faults(read_text(path), str(path))


def parse_faults(text: str, source: str) -> FaultPlan:
    """Parse a faults file.

    ``faults`` maps places to faults, ``disks`` to a number of drives, ``systems`` to a Debian release; ``arm64`` is a
    list of places.
    """
    from ruamel.yaml.comments import CommentedMap

    document = decode_yaml_with_line_numbers(text, source) or CommentedMap()
    if not isinstance(document, CommentedMap):
        raise InputError(
            "has no sections", where=source, remedy=f"write a mapping with {', '.join(SECTIONS)}"
        )
    if unknown := next((key for key in document if key not in SECTIONS), None):
        place = f"{source}:{document.lc.key(unknown)[0] + 1}"
        remedy = f"sections are {', '.join(SECTIONS)}; places such as rack/slot go under faults:"
        raise InputError(f"unknown section {str(unknown)!r}", where=place, remedy=remedy)
    faults, arm64 = document.get("faults") or CommentedMap(), document.get("arm64") or []
    if not isinstance(faults, CommentedMap) or not isinstance(arm64, list):
        raise InputError("wrong shape", where=source, remedy="faults must be a mapping, arm64 a list")
    disks = _parse_disks(document.get("disks") or {}, source)
    suites = _parse_systems(document.get("systems") or {}, source)
    lines = {str(place): faults.lc.key(place)[0] + 1 for place in faults}
    by_place = {
        str(p): _parse_kinds(value, f"{source}:{lines[str(p)]}", str(p)) for p, value in faults.items()
    }
    return FaultPlan(by_place, frozenset(map(str, arm64)), disks, suites, source, lines)


def _parse_disks(counts: Any, source: str) -> dict[str, int]:
    if not isinstance(counts, dict):
        raise InputError("wrong shape", where=source, remedy="disks must map rack/slot to a number of disks")
    for place, count in counts.items():
        if type(count) is not int or not 0 < count <= MAX_DISKS:
            raise InputError(
                f"{count!r} is not a valid number of disks",
                where=source,
                key=str(place),
                remedy=f"1 to {MAX_DISKS}",
            )
    return {str(place): int(count) for place, count in counts.items()}


def _parse_systems(systems: Any, source: str) -> dict[str, str]:
    """Return rack/slot -> codename: debootstrap builds Debian's releases from Debian's own archive."""
    codenames = {
        system.name: system.codename
        for system in load_operating_systems().values()
        if system.distribution == "debian"
    }
    if not isinstance(systems, dict):
        raise InputError("wrong shape", where=source, remedy="systems must map rack/slot to a system")
    for place, name in systems.items():
        if not isinstance(name, str) or name not in codenames:
            raise InputError(
                f"{name!r} is not a system that can be rehearsed",
                where=source,
                key=str(place),
                remedy=f"use {' or '.join(codenames)}",
            )
    return {str(place): codenames[name] for place, name in systems.items()}


def _parse_kinds(value: Any, where: str, place: str) -> frozenset[str]:
    kinds = [value] if isinstance(value, str) else value
    if not isinstance(kinds, list) or not all(_is_kind(kind) for kind in kinds):
        raise InputError(f"unknown fault {value!r}", where=where, key=place, remedy=f"use {', '.join(KINDS)}")
    return frozenset(kinds)


def _is_kind(value: Any) -> bool:
    kind, separator, amount_text = value.partition("=") if isinstance(value, str) else ("", "", "")
    has_valid_amount = (
        amount_text.isdecimal() and 0 < int(amount_text) < MAX_AMOUNT and kind in DEFAULT_AMOUNTS
    )
    return kind in KINDS and (not separator or has_valid_amount)
