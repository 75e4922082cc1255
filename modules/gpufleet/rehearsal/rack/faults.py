"""Faults put on hosts on purpose: the kinds there are, and the file that says which host has which."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from gpufleet.boundary import decode_yaml_lines, read_text
from gpufleet.errors import InputError

KINDS = {
    "unreachable": "its sshd does not start",
    "disk_full": "its root file system has no byte left",
    "undervoltage": "its Pi flags say undervoltage and throttled, now and since boot",
    "link_down": "its network cable is out",
    "slow_link": "its network carries 10 Mbit/s each way, as with a damaged cable",
    "apt_locked": "something holds the package manager's locks for so many seconds after it boots",
    "disk_small": "its root file system has so many MiB left, which a larger install fills",
    "changed_host_key": "it shows another SSH host key than the known-hosts file says",
    "dies": "it ends as by a power cut when root's n-th SSH session starts, once",
}
AMOUNTS = {"apt_locked": 60, "disk_small": 100, "dies": 4}  # unless said, as in `apt_locked=20`
MOST = 100_000
SILENT = frozenset({"unreachable", "link_down"})  # with these a host answers no SSH
SECTIONS = ("faults", "arm64", "disks")
MOST_DISKS = 16


@dataclass(frozen=True)
class Faults:
    """Which hosts have which faults, and which are real arm64 or have drives; keys are ``rack/slot``."""

    by_place: Mapping[str, frozenset[str]] = field(default_factory=dict)
    arm64: frozenset[str] = frozenset()
    disks: Mapping[str, int] = field(default_factory=dict)
    source: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)

    def of(self, place: str) -> frozenset[str]:
        """Return one host's faults."""
        return self.by_place.get(place, frozenset())

    def check_places(self, known: set[str]) -> None:
        """Refuse a place that no rack has."""
        for place in (*self.by_place, *sorted(self.arm64), *self.disks):
            if place not in known:
                some = ", ".join(sorted(known)[:3]) or "none: the stack has no rack"
                raise InputError(
                    "no such node",
                    where=self._where(place),
                    key=place,
                    remedy=f"nodes are rack/slot: {some} …",
                )

    def _where(self, place: str) -> str:
        return f"{self.source}:{self.lines[place]}" if place in self.lines else self.source


NONE = Faults()


def amount(faults: Collection[str], kind: str) -> int | None:
    """Return how much of a fault there is: what the file says, else the usual; None without the fault."""
    found = next((fault for fault in faults if fault.partition("=")[0] == kind), None)
    return None if found is None else int(found.partition("=")[2] or AMOUNTS[kind])


def load_faults(choice: str | Path | None) -> Faults:
    """Read a faults file, or a built-in set by its name (``demo``); None means no faults."""
    if choice is None:
        return NONE
    built_in = resources.files("gpufleet.rehearsal") / "data" / f"faults-{choice}.yaml"
    if built_in.is_file():
        return parse_faults(built_in.read_text(), f"faults-{choice}.yaml")
    path = Path(choice)
    if not path.is_file():
        raise InputError(f"no faults file or set {str(choice)!r}", remedy="give a file, or the set 'demo'")
    return parse_faults(read_text(path), str(path))


def parse_faults(text: str, source: str) -> Faults:
    """Read a faults file: ``faults`` maps places to faults, ``arm64`` lists places, ``disks`` counts their drives."""
    from ruamel.yaml.comments import CommentedMap

    document = decode_yaml_lines(text, source) or {}
    if not isinstance(document, dict) or set(document) - set(SECTIONS):
        raise InputError("unknown section", where=source, remedy=f"sections are {', '.join(SECTIONS)}")
    faults, arm64 = document.get("faults") or CommentedMap(), document.get("arm64") or []
    if not isinstance(faults, CommentedMap) or not isinstance(arm64, list):
        raise InputError("wrong shape", where=source, remedy="faults is a mapping, arm64 a list")
    disks = _disks(document.get("disks") or {}, source)
    lines = {str(place): faults.lc.key(place)[0] + 1 for place in faults}
    by_place = {str(p): _kinds(value, f"{source}:{lines[str(p)]}", str(p)) for p, value in faults.items()}
    return Faults(by_place, frozenset(map(str, arm64)), disks, source, lines)


def _disks(counts: Any, source: str) -> dict[str, int]:
    if not isinstance(counts, dict):
        raise InputError("wrong shape", where=source, remedy="disks maps rack/slot to how many")
    for place, count in counts.items():
        if type(count) is not int or not 0 < count <= MOST_DISKS:
            raise InputError(
                f"not a number of disks: {count!r}", where=source, key=str(place), remedy=f"1 to {MOST_DISKS}"
            )
    return {str(place): int(count) for place, count in counts.items()}


def _kinds(value: Any, where: str, place: str) -> frozenset[str]:
    kinds = [value] if isinstance(value, str) else value
    if not isinstance(kinds, list) or not all(_is_kind(kind) for kind in kinds):
        raise InputError(f"unknown fault {value!r}", where=where, key=place, remedy=f"use {', '.join(KINDS)}")
    return frozenset(kinds)


def _is_kind(value: Any) -> bool:
    kind, given, amount_text = value.partition("=") if isinstance(value, str) else ("", "", "")
    fits = amount_text.isdecimal() and 0 < int(amount_text) < MOST and kind in AMOUNTS
    return kind in KINDS and (not given or fits)
