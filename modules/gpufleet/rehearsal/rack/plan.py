"""Plan the hosts to boot: declared racks and faults in, one plan per host out. Pure.

Everything that identifies a host (names, addresses, ids, serial) is computed from the rehearsal's folder and the
node's place. So it is stable, and everything of a rehearsal on this machine can be found by its name prefix.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gpufleet.errors import InputError
from gpufleet.nodes.declaration import list_machine_accelerators
from gpufleet.rehearsal.rack.faults import NO_SSH_FAULTS, FaultPlan

if TYPE_CHECKING:
    from gpufleet.fleet import NodeHardware, RackNode, StackRack

ID_NAMESPACE = uuid.UUID("5d0c8f3e-6a55-4a1c-9d52-6a4d2f3d7b10")  # the UUID namespace of the ids below
BLOCKS = range(1, 512)  # the /24 networks of 198.18.0.0/15, reserved for tests of network devices (RFC 2544)
FIRST_SPARE_BLOCK = 16


class RehearsalHome(Protocol):
    """The part of a rehearsal that a rack needs: its folder."""

    @property
    def home(self) -> Path: ...


@dataclass(frozen=True)
class HostPlan:
    """One host to boot. ``label`` names its namespace, link, cgroup and machine: at most 15 characters."""

    place: str
    name: str
    slot: int
    kind: str
    arch: str
    label: str
    block: int
    mac: str
    machine_id: str
    serial: str
    storage_gb: float | None
    accelerators: tuple[tuple[str, int], ...]
    hardware: NodeHardware
    faults: frozenset[str]
    folder: Path
    disks: int = 0
    suite: str = ""  # Debian's codename; empty: the controller's own release

    @property
    def image_key(self) -> tuple[str, str]:
        """The suite and the architecture of its base image."""
        return self.suite, self.arch

    @property
    def ip_address(self) -> str:
        """The host's address: slot n is at .(10+n) of its rack's network."""
        return address_in_network(self.block, 10 + self.slot)

    @property
    def should_answer_ssh(self) -> bool:
        """True if none of its faults prevents SSH."""
        return not self.faults & NO_SSH_FAULTS

    @property
    def gateway_address(self) -> str:
        """The controller's address on the rack's network."""
        return address_in_network(self.block, 1)


def rehearsal_name_prefix(home: Path) -> str:
    """Return the prefix of every name of this rehearsal on the machine; it is also the name of its bridge."""
    return "gf-" + hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:5]


def address_in_network(network_number: int, host_number: int) -> str:
    """Return an address in a rack's network."""
    return f"198.{18 + network_number // 256}.{network_number % 256}.{host_number}"


def choose_rack_networks(
    rack_names: Sequence[str], previous_networks: Mapping[str, int], used_elsewhere: Iterable[int]
) -> dict[str, int]:
    """Choose a /24 network for each rack: its previous one, else that of its order, else the first free one."""
    used = set(used_elsewhere)
    chosen: dict[str, int] = {}
    for order, name in enumerate(rack_names, start=1):
        candidates = (previous_networks.get(name, order), order, *range(FIRST_SPARE_BLOCK, BLOCKS.stop))
        block = next((b for b in candidates if b in BLOCKS and b not in used), None)
        if block is None:
            raise InputError(f"no free /24 network is left for rack {name}", remedy="remove other rehearsals")
        used.add(block)
        chosen[name] = block
    return chosen


def plan_hosts(
    home: Path,
    racks: Sequence[StackRack],
    rack_networks: Mapping[str, int],
    faults: FaultPlan,
    native_arch: str,
) -> list[HostPlan]:
    """Plan a host for every node of the racks."""
    faults.check_places_exist(
        {f"{rack_use.name}/{node.slot}" for rack_use in racks for node in rack_use.rack.nodes}
    )
    return [
        _plan_host(
            home, use, node, order=order, block=rack_networks[use.name], faults=faults, native=native_arch
        )
        for order, use in enumerate(racks, start=1)
        for node in use.rack.nodes
    ]


def _plan_host(
    home: Path, rack_use: StackRack, node: RackNode, *, order: int, block: int, faults: FaultPlan, native: str
) -> HostPlan:
    place = f"{rack_use.name}/{node.slot}"
    identity = uuid.uuid5(ID_NAMESPACE, f"{home.name}/{place}").hex
    return HostPlan(
        place=place,
        name=node.name,
        slot=node.slot,
        kind=rack_use.rack.kind,
        arch="arm64" if place in faults.arm64 else native,
        label=f"{rehearsal_name_prefix(home)}-{order}-{node.slot}",
        block=block,
        mac=node.mac or "02:" + ":".join(identity[i : i + 2] for i in range(0, 10, 2)),
        machine_id=identity,
        serial=node.serial or _make_serial(rack_use.rack.kind, identity),
        storage_gb=node.storage_gb,
        accelerators=tuple(
            (a["model"], a["count"]) for a in list_machine_accelerators(node.machine, node.accelerators)
        ),
        faults=faults.get_host_faults(place),
        folder=home / "rack" / place.replace("/", "-"),
        hardware=node.hardware,
        disks=faults.disks.get(place, 0),
        suite=faults.suites.get(place, ""),
    )


def _make_serial(kind: str, identity: str) -> str:
    """Return a serial in the form of a Pi 4 (1, zeros, hexadecimal digits) or of a server (with letters)."""
    return f"GF{identity[:10].upper()}" if kind == "servers" else f"10000000{identity[:8]}"
