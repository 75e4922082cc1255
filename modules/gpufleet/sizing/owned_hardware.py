"""Owned hardware: racks of ``inventory/`` and workstations of the stacks, read without the spec's models.

Loading the spec's models takes longer than sizing itself. So the few keys that sizing needs are read here from
the YAML. A file with other cost keys, or of another shape, is loaded by ``gpufleet.fleet``, which reports errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from gpufleet import boundary, catalog, paths
from gpufleet.errors import InputError
from gpufleet.sizing.hardware import Hardware, HardwareOffer, Origin
from gpufleet.sizing.node_hardware import build_accelerator_hardware, build_machine_hardware

RACK_MARK = "plugin: gpufleet.fleet.rack"
RANGE = re.compile(r"^[a-z][a-z0-9-]*?(?:\[(\d+)-(\d+)\])?$")
HOURS_PER_YEAR = 8760
# Raised when a file has another shape; an InputError is a ValueError.
PARSE_ERRORS = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError)
COST_KEYS = {
    "capital_usd",
    "capital_eur",
    "usd_per_eur",
    "life_years",
    "watts_per_node",
    "usd_per_kwh",
    "pue",
}
COST_KEYS |= {"residual_fraction"}


@dataclass(frozen=True)
class OwnedMachine:
    """Owned machines of one kind: their number and the cost of one per hour, None if the file has no cost facts."""

    name: str
    machine: str
    nodes: int
    usd_per_hour: float | None
    as_of: str | None
    source: str
    cards: tuple[str, int] | None = None
    rack: bool = True


def list_owned_hardware(root: Path | None = None) -> list[Hardware]:
    """Return the owned hardware of the project; an empty list outside a project."""
    return [
        hardware
        for owned in _load_owned(_project_root(root))
        if (hardware := _to_hardware(owned)) is not None
    ]


def find_owned_hardware(name: str, root: Path | None = None) -> Hardware | None:
    """Return the rack or workstation of that name, None where there is none."""
    for owned in _load_owned(_project_root(root)):
        if owned.name == name.lower():
            hardware = _to_hardware(owned)
            if hardware is None:
                raise InputError(
                    f"{owned.name} is made of {owned.machine}, which is not in the catalogue",
                    where="--on",
                )
            return hardware
    return None


def list_owned_hardware_names(root: Path | None = None) -> list[str]:
    """Return the names of the racks and workstations of this project."""
    return [owned.name for owned in _load_owned(_project_root(root))]


def _project_root(root: Path | None) -> Path | None:
    if root is not None:
        return root
    try:
        return paths.find_project_root()
    except InputError:
        return None


@cache
def _load_owned(root: Path | None) -> tuple[OwnedMachine, ...]:
    if root is None:
        return ()
    racks = [
        owned for path in sorted((root / "inventory").glob("*.yaml")) for owned in _load_racks(path, root)
    ]
    stations = {
        owned.name: owned
        for path in sorted((root / "stacks").glob("Pulumi.*.yaml"))
        for owned in _load_workstations(path)
    }
    return (*racks, *stations.values())


def _load_racks(path: Path, root: Path) -> Iterator[OwnedMachine]:
    text = boundary.read_text(path)
    if RACK_MARK not in text:
        return
    data = boundary.decode_plain_yaml(text, path.name)
    try:
        rack = _parse_rack(data) if isinstance(data, Mapping) else None
    except PARSE_ERRORS:
        rack = None  # gpufleet.fleet reports what is wrong
    yield rack or _load_rack_with_models(path, root)


def _parse_rack(data: Mapping[str, Any]) -> OwnedMachine | None:
    """Return the rack if its file has only the keys that are parsed here, else None."""
    count, cards = _count_nodes(data.get("nodes")), _parse_cards(data.get("accelerators"))
    usd = _usd_per_hour(data.get("cost"), count or 0)
    if count is None or usd is None or not isinstance(data.get("machine"), str):
        return None
    per_hour, as_of, source = usd
    share = None if per_hour is None else per_hour / count
    return OwnedMachine(str(data["name"]), data["machine"], count, share, as_of, source, cards)


def _load_rack_with_models(path: Path, root: Path) -> OwnedMachine:
    from gpufleet import fleet

    rack = fleet.load_rack(path, root)
    nodes = len(rack.nodes)
    share = None if rack.usd_per_hour is None else rack.usd_per_hour / nodes
    first = rack.nodes[0]
    cards = (first.accelerators[0].model, first.accelerators[0].count) if first.accelerators else None
    return OwnedMachine(
        rack.name, first.machine, nodes, share, rack.usd_per_hour_as_of, rack.usd_per_hour_source, cards
    )


def _load_workstations(path: Path) -> Iterator[OwnedMachine]:
    text = boundary.read_text(path)
    if "workstations:" not in text:
        return
    try:
        yield from [
            _parse_workstation(item)
            for item in _workstation_entries(boundary.decode_plain_yaml(text, path.name))
        ]
    except PARSE_ERRORS:
        return  # a stack that cannot be read has no workstations to place a model on


def _workstation_entries(data: Any) -> list[Any]:
    fleet = data.get("config", {}).get("gpufleet:fleet") if isinstance(data, Mapping) else None
    return (fleet or {}).get("workstations") or []


def _parse_workstation(item: Mapping[str, Any]) -> OwnedMachine:
    usd = _usd_per_hour(item.get("cost"), 1) or (
        None,
        None,
        "the cost facts contain keys that sizing does not read",
    )
    return OwnedMachine(str(item["name"]), str(item["machine"]), 1, *usd, rack=False)


def _count_nodes(entry_or_list: Any) -> int | None:
    """Return how many nodes a rack lists, None if ``gpufleet.fleet`` must parse the list."""
    entries = [entry_or_list] if isinstance(entry_or_list, str) else entry_or_list
    if not isinstance(entries, list) or not entries:
        return None
    total = 0
    for entry in entries:
        has_only_names = isinstance(entry, Mapping) and not {"machine", "accelerators"} & set(entry)
        name = entry if isinstance(entry, str) else (entry.get("name") if has_only_names else None)
        match = RANGE.match(name) if isinstance(name, str) else None
        if match is None:
            return None
        total += int(match[2]) - int(match[1]) + 1 if match[1] else 1
    return total if total > 0 else None


def _parse_cards(entries: Any) -> tuple[str, int] | None:
    if not isinstance(entries, list) or not entries:
        return None
    return str(entries[0]["model"]), int(entries[0].get("count", 1))


def _usd_per_hour(cost: Any, nodes: int) -> tuple[float | None, str | None, str] | None:
    """Return USD per hour, its date and source; None if there are cost keys that are not parsed here.

    The formula is the one of ``fleet.HardwareCost.usd_per_hour``; a test compares the two.
    """
    if cost is None:
        return None, None, "no cost facts"
    if not isinstance(cost, Mapping) or not set(cost) <= COST_KEYS:
        return None
    try:
        capital = _cost_value(cost, "capital_usd") or _cost_value(cost, "capital_eur") * _cost_value(
            cost, "usd_per_eur"
        )
        depreciated_share = 1 - float(cost.get("residual_fraction", 0.0))
        kilowatts = nodes * _cost_value(cost, "watts_per_node") / 1000 * float(cost.get("pue", 1.0))
        per_hour = capital * depreciated_share / (
            float(cost["life_years"]) * HOURS_PER_YEAR
        ) + kilowatts * _cost_value(cost, "usd_per_kwh")
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    days = [fact.get("as_of") for fact in cost.values() if isinstance(fact, Mapping)]
    oldest = None if None in days or not days else min(str(day) for day in days)
    return per_hour, oldest, "the cost facts of its file"


def _cost_value(cost: Mapping[str, Any], name: str) -> float:
    return float(cost[name]["value"]) if name in cost else 0.0


def _to_hardware(owned: OwnedMachine) -> Hardware | None:
    base = _machine_hardware(owned)
    if base is None:
        return None
    offer = HardwareOffer("onprem", "", "owned", owned.usd_per_hour, owned.as_of, owned.source)
    origin: Origin = "rack" if owned.rack else "workstation"
    return replace(base, name=owned.name, node_limit=owned.nodes, offers=(offer,), origin=origin)


def _machine_hardware(owned: OwnedMachine) -> Hardware | None:
    try:
        machine = catalog.get_machine(owned.machine, "onprem")
        if owned.cards is None:
            return build_machine_hardware(machine)
        accelerator = build_accelerator_hardware(catalog.get_accelerator(owned.cards[0]))
    except InputError:
        return None
    return replace(
        accelerator, devices_per_node=owned.cards[1], machine=machine.name, host_memory_gib=machine.memory_gib
    )
