"""Check a declared MIG geometry against NVIDIA's tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpufleet.boundary import make_printable, read_packaged_yaml, shorten_repr
from gpufleet.errors import InputError

MIG_DISABLED: dict[str, int] = {}
"""The geometry of a GPU with MIG off."""


@dataclass(frozen=True, slots=True)
class MigFamily:
    """GPUs with the same MIG profiles: how often each fits alone, and where instances may start."""

    name: str
    devices: tuple[str, ...]
    instances: int
    profiles: Mapping[str, int]
    layout: Mapping[str, Any] | None


@cache
def load_mig_families() -> tuple[MigFamily, ...]:
    """Return the GPU families with MIG support."""
    data = read_packaged_yaml("gpufleet.drivers", "data/mig.yaml")
    return tuple(
        MigFamily(
            row["name"],
            tuple(row["devices"]),
            row["instances"],
            row["profiles"],
            data["layouts"].get(row.get("layout")),
        )
        for row in data["families"]
    )


def find_mig_family(pci_device_id: str) -> MigFamily | None:
    """Return the family of a PCI device id (``2330`` or ``0x2330``); None if the GPU does not support MIG."""
    device_id = pci_device_id.lower().removeprefix("0x")
    return next((family for family in load_mig_families() if device_id in family.devices), None)


def resolve_mig_geometry(declared_geometry: Any, pci_device_ids: Iterable[str]) -> list[dict[str, Any]]:
    """Return the geometry of each GPU in the order of devices; raise InputError if it is not possible.

    ``declared`` is one mapping of profile to count for every GPU, ``all-<profile>`` for the maximum count,
    ``disabled``, or a list of entries ``{"devices": "all" or indexes, "profiles": ...}``; the last match applies.
    """
    device_ids = [device.lower().removeprefix("0x") for device in pci_device_ids]
    entries = (
        declared_geometry
        if isinstance(declared_geometry, list)
        else [{"devices": "all", "profiles": declared_geometry}]
    )
    profiles_by_gpu: list[dict[str, int] | None] = [None] * len(device_ids)
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise InputError(f"{shorten_repr(entry)} is not a mapping of devices and profiles", key="mig")
        for index in _read_indexes(entry, len(device_ids)):
            profiles_by_gpu[index] = _read_profiles(entry.get("profiles"), device_ids[index], index)
    return [
        {"index": index, "device": device_ids[index], "enabled": bool(profiles), "profiles": profiles or {}}
        for index, profiles in enumerate(profiles_by_gpu)
        if profiles is not None
    ]


def _read_indexes(entry: Mapping[str, Any], count: int) -> list[int]:
    indexes = entry.get("devices", "all")
    if indexes == "all":
        return list(range(count))
    if not isinstance(indexes, list) or not all(isinstance(index, int) for index in indexes):
        raise InputError(f"devices {shorten_repr(indexes)} is neither 'all' nor a list of indexes", key="mig")
    out_of_range = [index for index in indexes if not 0 <= index < count]
    if out_of_range:
        raise InputError(f"no GPU {out_of_range[0]}: the host has {count}", key="mig")
    return indexes


def _read_profiles(declared: Any, device: str, index: int) -> dict[str, int]:
    if declared in ("disabled", None, False) or declared == {}:
        return dict(MIG_DISABLED)
    family = find_mig_family(device)
    if family is None:
        raise InputError(
            f"GPU {index} (10de:{device}) does not support MIG", key="mig", remedy="declare it disabled"
        )
    if isinstance(declared, str):
        declared = {declared.removeprefix("all-"): _max_count(family, declared)}
    if not isinstance(declared, Mapping):
        raise InputError(f"profiles {shorten_repr(declared)} is not a mapping of profile to count", key="mig")
    invalid_name = next((name for name, count in declared.items() if not _is_count(count)), None)
    if invalid_name is not None:
        raise InputError(
            f"{make_printable(invalid_name, 60)}: {shorten_repr(declared[invalid_name])} is not a number of instances",
            key="mig",
        )
    return _check_fit(family, {str(name): count for name, count in declared.items() if count})


def _is_count(count: object) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and count >= 0


def _max_count(family: MigFamily, name: str) -> int:
    return family.profiles.get(name.removeprefix("all-"), 1)


def _check_fit(family: MigFamily, profiles: dict[str, int]) -> dict[str, int]:
    """Return the profiles, largest first as the driver needs; raise InputError if they do not fit on one GPU."""
    for name, count in profiles.items():
        if name not in family.profiles:
            raise InputError(
                f"no MIG profile {shorten_repr(name)} on {family.name}",
                key="mig",
                remedy=f"it has: {', '.join(family.profiles)}",
            )
        if count > family.profiles[name]:
            raise InputError(
                f"{count} of {name} do not fit on {family.name}: {family.profiles[name]} do", key="mig"
            )
    slices = sum(parse_mig_compute_slices(name) * count for name, count in profiles.items())
    if slices > family.instances:
        raise InputError(
            f"{_format_profiles(profiles)} takes {slices} compute slices; the GPU has {family.instances}",
            key="mig",
        )
    if sum(count for name, count in profiles.items() if "+me" in name) > 1:
        raise InputError(
            f"{_format_profiles(profiles)}: only one instance of a GPU can have the media engines", key="mig"
        )
    ordered_names = sorted(
        profiles, key=lambda name: (-parse_mig_memory_gb(name), -parse_mig_compute_slices(name), name)
    )
    if family.layout and not _has_placement(
        family, [name for name in ordered_names for _ in range(profiles[name])], ()
    ):
        raise InputError(f"{_format_profiles(profiles)} has no placement on {family.name}", key="mig")
    return {name: profiles[name] for name in ordered_names}


def _has_placement(family: MigFamily, unplaced: list[str], used_slots: tuple[int, ...]) -> bool:
    """Return whether the unplaced profiles fit on the memory axis next to the used slots."""
    if not unplaced or family.layout is None:
        return True
    row = _layout_row(family, unplaced[0])
    size = family.layout["sizes"][row]
    for start in family.layout["starts"][row]:
        slots = tuple(range(start, start + size))
        if not set(slots) & set(used_slots) and _has_placement(family, unplaced[1:], used_slots + slots):
            return True
    return False


def _layout_row(family: MigFamily, name: str) -> str:
    """Return the layout row of a profile: ``1g+`` is the single slice with twice the memory."""
    slices = f"{parse_mig_compute_slices(name)}g"
    smallest = min(parse_mig_memory_gb(other) for other in family.profiles)
    return "1g+" if slices == "1g" and parse_mig_memory_gb(name) > smallest else slices


def parse_mig_compute_slices(profile: str) -> int:
    """Return the compute slices of a profile: 3 of ``3g.40gb``."""
    return int(profile.partition("g.")[0])


def parse_mig_memory_gb(profile: str) -> int:
    """Return the memory in a profile's name: 40 of ``3g.40gb+me``."""
    match = re.search(r"\.(\d+)gb", profile)
    return int(match[1]) if match else 0


def _format_profiles(profiles: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in profiles.items())


def build_mig_parted_config(geometry: list[dict[str, Any]], config_name: str = "gpufleet") -> dict[str, Any]:
    """Return the geometry as a configuration of NVIDIA's mig-parted."""
    configs = [
        {"devices": [row["index"]], "mig-enabled": row["enabled"], "mig-devices": row["profiles"]}
        if row["enabled"]
        else {"devices": [row["index"]], "mig-enabled": False}
        for row in geometry
    ]
    return {"version": "v1", "mig-configs": {config_name: configs}}
