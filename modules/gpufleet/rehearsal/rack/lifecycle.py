"""The three verbs of a rack in a box: up, status, down.

Each may be interrupted at any moment and run again: `up` looks at what is there and makes only what is missing
or wrong, `down` ends and removes whatever carries this rehearsal's prefix.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.boundary import OWN_STATE, decode_json_object, read_bytes
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.rehearsal import packages
from gpufleet.rehearsal.rack import cgroups, drives, hosts, images, layout, limits, network, pci, processes
from gpufleet.rehearsal.rack.faults import Faults
from gpufleet.rehearsal.rack.hosts import HostStatus, Record
from gpufleet.rehearsal.rack.keys import KEY_NAME, ensure_key, known_hosts
from gpufleet.rehearsal.rack.plan import HostPlan, World, choose_blocks, plan_hosts, prefix
from gpufleet.rehearsal.rack.requirements import unavailable_reason
from gpufleet.rehearsal.rack.shell import Say, alone, write_whole

if TYPE_CHECKING:
    from gpufleet.fleet import RackUse

LOCKS = Path("/run/lock")
NSPAWN_LEFTOVERS = Path("/run/systemd/nspawn/propagate")
ANSWER_LIMIT_S = 10.0  # generous: a host that is only slow must not be taken for broken and restarted


def up(world: World, racks: Sequence[RackUse], faults: Faults, say: Say) -> tuple[HostStatus, ...]:
    """Boot a host for every node of the racks, with the faults asked for; return how they are."""
    if reason := unavailable_reason():
        raise EnvironmentFault(f"hosts can't be booted here: {reason}")
    with _alone(world, say):
        write_whole(_whose(world.home), f"{world.home.resolve()}\n")
        plans = _plan(world, racks, faults)
        for model in sorted({model for plan in plans for model in pci.unknown(plan.accelerators)}):
            say(f"no PCI id is known of {model}: hosts that have it show no card")
        base = {arch: images.ensure_base(arch, say) for arch in sorted({plan.arch for plan in plans})}
        bridge = prefix(world.home)
        _remove(world, set(network.ours(bridge)) - {plan.label for plan in plans}, say)
        hosts.forget_others(world.home / "rack", plans)
        _serve_packages(world, plans, base, say)
        poor = _not_as_wanted(bridge, plans, base)
        _remove(world, {plan.label for plan in poor}, say)
        drives.sweep(world.home / "rack", [file for plan in plans for file in drives.files(plan)])
        _boot(world, bridge, poor, base, say)
        network.apply_faults(plans)
        _write_books(world, plans)
        hosts.wait_until_up(plans, images.native_arch(), say)
        return status(world)


def status(world: World) -> tuple[HostStatus, ...]:
    """Return how each host of the rehearsal is; empty when there is none."""
    return hosts.statuses(hosts.read_records(world.home / "rack"))


def down(world: World, say: Say = lambda _line: None) -> None:
    """End every host of the rehearsal and remove all that was made for them; safe to repeat."""
    if reason := unavailable_reason():
        if (world.home / "rack").exists():
            raise EnvironmentFault(f"hosts can't be ended from here: {reason}")
        return
    bridge = prefix(world.home)
    with _alone(world, say):
        _remove(world, set(network.ours(bridge)), say)
        drives.sweep(world.home / "rack")
        packages.end(world.home, bridge)
        network.remove_bridge(bridge)
        cgroups.remove(bridge)
        for book in _books(world):
            book.unlink(missing_ok=True)
        shutil.rmtree(world.home / "rack", ignore_errors=True)
        _whose(world.home).unlink(missing_ok=True)


@dataclass(frozen=True)
class Forsaken:
    """A rehearsal whose folder was deleted while its hosts ran."""

    home: Path


def forsaken() -> tuple[Forsaken, ...]:
    """Return the rehearsals of this machine that nobody can name any more, but whose hosts go on."""
    homes = (Path(file.read_text().strip()) for file in sorted(LOCKS.glob("gpufleet-*.home")))
    return tuple(Forsaken(home) for home in homes if not home.exists() and network.ours(prefix(home)))


def _whose(home: Path) -> Path:
    """Return the file that says whose hosts bear this rehearsal's prefix; it outlives the project's folder."""
    return LOCKS / f"gpufleet-{prefix(home)}.home"


def _plan(world: World, racks: Sequence[RackUse], faults: Faults) -> list[HostPlan]:
    """Plan the hosts; which network each rack has is kept, so that addresses stay."""
    bridge, kept_in = prefix(world.home), world.home / "rack" / ".networks"
    with alone(LOCKS / "gpufleet-networks.lock", lambda _line: None, "chooses networks"):
        kept = _kept_networks(kept_in)
        blocks = choose_blocks([use.name for use in racks], kept, network.taken_blocks(bridge))
        plans = plan_hosts(world.home.resolve(), racks, blocks, faults, images.native_arch())
        write_whole(kept_in, json.dumps(blocks))
        network.ensure_bridge(bridge, blocks.values())
    return plans


def _kept_networks(file: Path) -> dict[str, int]:
    """Return which network each rack has; none where the file is missing or damaged, then new ones are chosen."""
    try:
        kept = decode_json_object(read_bytes(file, OWN_STATE), str(file), OWN_STATE)
    except InputError:
        return {}
    return {rack: block for rack, block in kept.items() if isinstance(block, int)}


def _serve_packages(world: World, plans: Sequence[HostPlan], base: Mapping[str, Path], say: Say) -> None:
    """Have the package server on every gateway; without it hosts boot all the same."""
    suites = {images.suite_of(image) for image in base.values()}
    packages.ensure(world.home, prefix(world.home), {plan.gateway for plan in plans}, suites, say)


def _not_as_wanted(bridge: str, plans: Sequence[HostPlan], base: Mapping[str, Path]) -> list[HostPlan]:
    """Return the hosts that do not run, do not answer, or were started otherwise than asked for now."""
    broken = {plan.label for plan in network.unwired(bridge, plans)}
    inside = processes.inside(plan.label for plan in plans)
    running = [p for p in plans if p.label not in broken and processes.leader(inside.get(p.label, []))]
    as_asked = [p for p in running if _started_as(p, base[p.arch])]
    answers = hosts.ssh_answers([p.address for p in as_asked if not p.silent], ANSWER_LIMIT_S)
    good = {plan.label for plan in as_asked if answers.get(plan.address, True)}
    return [plan for plan in plans if plan.label not in good]


def _started_as(plan: HostPlan, image: Path) -> bool:
    record = hosts.read_record(plan.folder)
    return record == Record.of(plan, image)


def _boot(world: World, bridge: str, plans: Sequence[HostPlan], base: Mapping[str, Path], say: Say) -> None:
    if plans:
        say(f"hosts: starting {len(plans)}")
    operator_key = ensure_key(world.home / "ssh" / KEY_NAME, "gpufleet-rehearsal")
    for plan in plans:
        apt_files = packages.host_files(plan.gateway, images.suite_of(base[plan.arch]))
        layout.lay(plan, base[plan.arch], operator_key, apt_files)
        _lay_drives(plan)
    network.wire(bridge, plans)
    limits.ensure_room(len(network.ours("gf")), say)  # other rehearsals' hosts count as well
    for plan in plans:
        hosts.start(plan, base[plan.arch], drives.attach(plan))


def _lay_drives(plan: HostPlan) -> None:
    layout.lay_drives(plan, drives.udev_records(plan, drives.attach(plan)))


def _remove(world: World, labels: set[str], say: Say) -> None:
    """End what runs under the labels, then remove their links, namespaces and cgroups."""
    if running := processes.inside(labels):
        say(f"hosts: ending {len(running)}")
    if left := processes.end(labels):
        raise EnvironmentFault(
            f"hosts do not end: {' '.join(left)}", hint="run `gpufleet rehearse down` again"
        )
    network.unwire(labels)
    for label in labels:
        cgroups.remove(f"{prefix(world.home)}/{label}")
        shutil.rmtree(NSPAWN_LEFTOVERS / label, ignore_errors=True)


def _books(world: World) -> tuple[Path, Path]:
    """Return where addresses and host keys are told to others."""
    return world.home / "addresses.json", world.home / "ssh" / "known_hosts"


def _write_books(world: World, plans: Sequence[HostPlan]) -> None:
    addresses, known = _books(world)
    write_whole(addresses, json.dumps({plan.place: plan.address for plan in plans}, indent=1) + "\n")
    write_whole(known, known_hosts({plan.address: layout.host_key(plan) for plan in plans}))


def _alone(world: World, say: Say) -> AbstractContextManager[None]:
    return alone(LOCKS / f"gpufleet-{prefix(world.home)}.lock", say, "holds this rack")
