"""Owned hardware: racks of ``inventory/`` and workstations of the stacks, read without the spec's models.

Loading the spec's models takes longer than sizing itself. So the few keys that sizing needs are read here from
the YAML. A file with other cost keys, or of another shape, is loaded by ``gpufleet.fleet``, which reports errors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from gpufleet import boundary, catalog, paths
from gpufleet.catalog import data_file
from gpufleet.errors import InputError
from gpufleet.quick_dataclass import dataclass
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
ENTRY_KEYS = {"machine", "accelerators", "hardware", "cost"}  # an entry with one of them is a kind of its own


@dataclass(frozen=True)
class OwnedMachine:
    """Owned machines of one kind: their number and the cost of one per hour, None if the file has no cost facts.

    ``name`` is the rack's or workstation's; a rack of several kinds of nodes is several owned machines. ``cards`` are
    the accelerators that its file declares, ``memory_gib`` the memory of the host.
    """

    name: str
    machine: str
    nodes: int
    usd_per_hour: float | None
    as_of: str | None
    source: str
    cards: tuple[str, int] | None = None
    rack: bool = True
    memory_gib: float | None = None
    is_only_kind: bool = True

    @property
    def title(self) -> str:
        """Return the name in a list; of a rack of several kinds with the kind."""
        kind = f"{self.cards[1]} x {self.cards[0]}" if self.cards else self.machine
        return self.name if self.is_only_kind else f"{self.name} ({kind})"


def list_owned_hardware(root: Path | None = None) -> list[Hardware]:
    """Return the owned hardware of the project; an empty list outside a project."""
    found = map(_to_hardware, _load_owned(_project_root(root)))
    return [hardware for hardware in found if hardware is not None]


def find_owned_hardware(name: str, root: Path | None = None) -> list[Hardware]:
    """Return the rack or workstation of that name, each kind of its nodes; an empty list where there is none."""
    owned = [
        each for each in _load_owned(_project_root(root)) if name.lower() in (each.name, each.title.lower())
    ]
    found = [hardware for each in owned if (hardware := _to_hardware(each)) is not None]
    if owned and not found:
        raise InputError(
            _describe_unusable(owned[0]),
            where="--on",
            remedy="declare accelerators in its rack file, if it has any that the catalogue knows",
        )
    return found


def list_unusable_hardware(root: Path | None = None) -> list[str]:
    """Return a line for each owned machine that no model is placed on, with the reason."""
    owned = _load_owned(_project_root(root))
    return [_describe_unusable(each) for each in owned if _to_hardware(each) is None]


def _describe_unusable(owned: OwnedMachine) -> str:
    return f"{owned.title} is made of {owned.machine}, which has no accelerator or board that the catalogue knows"


def list_owned_hardware_names(root: Path | None = None) -> list[str]:
    """Return the names of the racks and workstations of this project."""
    return list(dict.fromkeys(owned.name for owned in _load_owned(_project_root(root))))


def find_rack_of_node(name: str, root: Path | None = None) -> str | None:
    """Return the rack of this project that declares a node of that name."""
    from gpufleet import fleet

    project = _project_root(root)
    racks = fleet.load_racks(project / "inventory", project, skip_broken=True).values() if project else ()
    return next((rack.name for rack in racks if any(node.name == name for node in rack.nodes)), None)


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
        owned for path in sorted((root / "inventory").glob("*.y*ml")) for owned in _load_racks(path, root)
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
    yield from [rack] if rack else _load_rack_with_models(path, root)


def _parse_rack(data: Mapping[str, Any]) -> OwnedMachine | None:
    """Return the rack if its file has only the keys that are parsed here, else None."""
    count, cards = _count_nodes(data.get("nodes")), _parse_cards(data.get("accelerators") or [])
    usd = _usd_per_hour(data.get("cost"), count or 0)
    if count is None or usd is None or not isinstance(data.get("machine"), str):
        return None
    per_hour, as_of, source = usd
    share = None if per_hour is None else per_hour / count
    memory = float((data.get("hardware") or {}).get("memory_gib", 0)) or None
    return OwnedMachine(
        str(data["name"]), data["machine"], count, share, as_of, source, cards, memory_gib=memory
    )


def _load_rack_with_models(path: Path, root: Path) -> list[OwnedMachine]:
    """Return each kind of node of a rack: its machine, one model of its accelerators, its memory."""
    from gpufleet import fleet

    rack = fleet.load_rack(path, root)
    usd = rack.usd_per_hour_by_node
    kinds = Counter(
        (
            node.machine,
            (card.model, card.count) if card else None,
            node.hardware.memory_gib,
            usd.get(node.name),
        )
        for node in rack.nodes
        for card in node.accelerators or (None,)
    )
    facts = (rack.usd_per_hour_as_of, rack.usd_per_hour_source)
    return [
        OwnedMachine(
            rack.name, machine, nodes, price, *facts, cards, memory_gib=memory, is_only_kind=len(kinds) == 1
        )
        for (machine, cards, memory, price), nodes in kinds.items()
    ]


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
        has_only_names = isinstance(entry, Mapping) and not ENTRY_KEYS & set(entry)
        name = entry if isinstance(entry, str) else (entry.get("name") if has_only_names else None)
        match = RANGE.match(name) if isinstance(name, str) else None
        if match is None:
            return None
        total += int(match[2]) - int(match[1]) + 1 if match[1] else 1
    return total if total > 0 else None


def _parse_cards(entries: list[Mapping[str, Any]]) -> tuple[str, int] | None:
    """Return the model and number of the accelerators; ValueError if ``gpufleet.fleet`` must parse the list."""
    if not entries:
        return None
    (entry,) = entries
    return catalog.get_accelerator(entry["model"]).name, int(entry.get("count", 1))


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
        depreciated_share = 1 - _cost_value(cost, "residual_fraction")
        kilowatts = nodes * _cost_value(cost, "watts_per_node") / 1000 * _cost_value(cost, "pue", 1.0)
        per_hour = capital * depreciated_share / (
            _cost_value(cost, "life_years") * HOURS_PER_YEAR
        ) + kilowatts * _cost_value(cost, "usd_per_kwh")
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    days = [fact.get("as_of") for fact in cost.values() if isinstance(fact, Mapping)]
    oldest = None if None in days or not days else min(str(day) for day in days)
    return per_hour, oldest, "the cost facts of its file"


def _cost_value(cost: Mapping[str, Any], name: str, default: float = 0.0) -> float:
    figure = cost.get(name, default)
    return float(figure["value"] if isinstance(figure, Mapping) else figure)


def _to_hardware(owned: OwnedMachine) -> Hardware | None:
    base = _machine_hardware(owned)
    if base is None:
        return None
    offer = HardwareOffer("onprem", "", "owned", owned.usd_per_hour, owned.as_of, owned.source)
    origin: Origin = "rack" if owned.rack else "workstation"
    return replace(
        base, name=owned.title, owner=owned.name, node_limit=owned.nodes, offers=(offer,), origin=origin
    )


def _machine_hardware(owned: OwnedMachine) -> Hardware | None:
    """Return the accelerators that the file declares in their host, else those of the machine's catalogue row."""
    machine = data_file.load_machines().get(("onprem", owned.machine))
    if owned.cards is None:
        return build_machine_hardware(machine) if machine else None
    hardware = build_accelerator_hardware(catalog.get_accelerator(owned.cards[0]))
    memory = owned.memory_gib or (machine and machine.memory_gib) or hardware.host_memory_gib
    return replace(
        hardware,
        devices_per_node=owned.cards[1],
        machine=owned.machine,
        host_memory_gib=hardware.host_memory_gib if hardware.unified else memory,
    )
