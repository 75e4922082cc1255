"""How a GPU may be split by MIG: a declared geometry is checked against NVIDIA's tables before anything is touched."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpufleet.boundary import packaged_yaml, printable, shorten
from gpufleet.errors import InputError

OFF: dict[str, int] = {}
"""The geometry of a GPU with MIG off."""


@dataclass(frozen=True, slots=True)
class Family:
    """GPUs that split alike: the profiles with how often each fits alone, and where instances may start."""

    name: str
    devices: tuple[str, ...]
    instances: int
    profiles: Mapping[str, int]
    layout: Mapping[str, Any] | None


@cache
def families() -> tuple[Family, ...]:
    """Return the table of GPUs that know MIG."""
    data = packaged_yaml("gpufleet.drivers", "data/mig.yaml")
    return tuple(
        Family(
            row["name"],
            tuple(row["devices"]),
            row["instances"],
            row["profiles"],
            data["layouts"].get(row.get("layout")),
        )
        for row in data["families"]
    )


def family_of(device: str) -> Family | None:
    """Return the family of a PCI device id (``2330`` or ``0x2330``); None where the GPU knows no MIG."""
    wanted = device.lower().removeprefix("0x")
    return next((family for family in families() if wanted in family.devices), None)


def geometry(wanted: Any, devices: Iterable[str]) -> list[dict[str, Any]]:
    """Return what each GPU is to be, in the order of its devices; refuse what cannot be.

    ``wanted`` is one mapping of profile to count for every GPU, ``all-<profile>`` for as many as fit, ``disabled``,
    or a list of entries ``{"devices": "all" or indexes, "profiles": ...}`` of which the last that fits counts.
    """
    cards = [device.lower().removeprefix("0x") for device in devices]
    entries = wanted if isinstance(wanted, list) else [{"devices": "all", "profiles": wanted}]
    chosen: list[dict[str, int] | None] = [None] * len(cards)
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise InputError(f"{shorten(entry)} is no mapping of devices and profiles", key="mig")
        for index in _indexes(entry, len(cards)):
            chosen[index] = _profiles(entry.get("profiles"), cards[index], index)
    return [
        {"index": index, "device": cards[index], "enabled": bool(profiles), "profiles": profiles or {}}
        for index, profiles in enumerate(chosen)
        if profiles is not None
    ]


def _indexes(entry: Mapping[str, Any], count: int) -> list[int]:
    asked = entry.get("devices", "all")
    if asked == "all":
        return list(range(count))
    if not isinstance(asked, list) or not all(isinstance(one, int) for one in asked):
        raise InputError(f"devices {shorten(asked)} is neither 'all' nor a list of indexes", key="mig")
    beyond = [one for one in asked if not 0 <= one < count]
    if beyond:
        raise InputError(f"no GPU {beyond[0]}: the host has {count}", key="mig")
    return asked


def _profiles(wanted: Any, device: str, index: int) -> dict[str, int]:
    if wanted in ("disabled", None, False) or wanted == {}:
        return dict(OFF)
    family = family_of(device)
    if family is None:
        raise InputError(f"GPU {index} (10de:{device}) knows no MIG", key="mig", remedy="declare it disabled")
    if isinstance(wanted, str):
        wanted = {wanted.removeprefix("all-"): _every(family, wanted)}
    if not isinstance(wanted, Mapping):
        raise InputError(f"profiles {shorten(wanted)} is no mapping of profile to count", key="mig")
    wrong = next((name for name, count in wanted.items() if not _is_count(count)), None)
    if wrong is not None:
        raise InputError(
            f"{printable(wrong, 60)}: {shorten(wanted[wrong])} is no number of instances", key="mig"
        )
    return _fitting(family, {str(name): count for name, count in wanted.items() if count})


def _is_count(count: object) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and count >= 0


def _every(family: Family, name: str) -> int:
    return family.profiles.get(name.removeprefix("all-"), 1)


def _fitting(family: Family, wanted: dict[str, int]) -> dict[str, int]:
    """Return the profiles, largest first (the driver wants them so), or refuse what does not fit on one GPU."""
    for name, count in wanted.items():
        if name not in family.profiles:
            raise InputError(
                f"no MIG profile {shorten(name)} on {family.name}",
                key="mig",
                remedy=f"it has: {', '.join(family.profiles)}",
            )
        if count > family.profiles[name]:
            raise InputError(
                f"{count} of {name} do not fit on {family.name}: {family.profiles[name]} do", key="mig"
            )
    slices = sum(compute_slices(name) * count for name, count in wanted.items())
    if slices > family.instances:
        raise InputError(f"{_said(wanted)} takes {slices} compute slices of {family.instances}", key="mig")
    if sum(count for name, count in wanted.items() if "+me" in name) > 1:
        raise InputError(f"{_said(wanted)}: one instance of a GPU can have the media engines", key="mig")
    ordered = sorted(wanted, key=lambda name: (-memory_gb(name), -compute_slices(name), name))
    if family.layout and not _placed(family, [name for name in ordered for _ in range(wanted[name])], ()):
        raise InputError(f"{_said(wanted)} has no placement on {family.name}", key="mig")
    return {name: wanted[name] for name in ordered}


def _placed(family: Family, rest: list[str], taken: tuple[int, ...]) -> bool:
    """Say whether the rest finds places on the memory axis beside what is taken."""
    if not rest or family.layout is None:
        return True
    kind = _kind(family, rest[0])
    size = family.layout["sizes"][kind]
    for start in family.layout["starts"][kind]:
        span = tuple(range(start, start + size))
        if not set(span) & set(taken) and _placed(family, rest[1:], taken + span):
            return True
    return False


def _kind(family: Family, name: str) -> str:
    """Return a profile's row in its layout: ``1g+`` is the single slice with twice the memory."""
    slices = f"{compute_slices(name)}g"
    smallest = min(memory_gb(other) for other in family.profiles)
    return "1g+" if slices == "1g" and memory_gb(name) > smallest else slices


def compute_slices(profile: str) -> int:
    """Return the compute slices of a profile: 3 of ``3g.40gb``."""
    return int(profile.partition("g.")[0])


def memory_gb(profile: str) -> int:
    """Return the memory in a profile's name: 40 of ``3g.40gb+me``."""
    found = re.search(r"\.(\d+)gb", profile)
    return int(found[1]) if found else 0


def _said(wanted: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in wanted.items())


def parted(plan: list[dict[str, Any]], name: str = "gpufleet") -> dict[str, Any]:
    """Return the geometry as a configuration of NVIDIA's mig-parted."""
    rows = [
        {"devices": [row["index"]], "mig-enabled": row["enabled"], "mig-devices": row["profiles"]}
        if row["enabled"]
        else {"devices": [row["index"]], "mig-enabled": False}
        for row in plan
    ]
    return {"version": "v1", "mig-configs": {name: rows}}
