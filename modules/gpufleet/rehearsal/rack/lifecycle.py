"""The three verbs of a rack in a box: up, status, down.

Each may be interrupted at any moment and run again: `up` looks at what is there and makes only what is missing
or wrong, `down` ends and removes whatever carries this rehearsal's prefix.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.errors import EnvironmentFault
from gpufleet.rehearsal.rack import hosts, images, layout, network, processes
from gpufleet.rehearsal.rack.faults import NONE, Faults
from gpufleet.rehearsal.rack.hosts import HostStatus, Record, Say
from gpufleet.rehearsal.rack.keys import KEY_NAME, ensure_key, merge_known_hosts
from gpufleet.rehearsal.rack.plan import HostPlan, World, choose_blocks, plan_hosts, prefix
from gpufleet.rehearsal.rack.requirements import unavailable_reason

if TYPE_CHECKING:
    from gpufleet.fleet import RackUse

MACHINE_LOCK = Path("/run/lock/gpufleet-rack.lock")  # networks are chosen by one rehearsal at a time
CGROUPS = tuple(Path("/sys/fs/cgroup") / tree for tree in ("", "systemd", "unified"))
NSPAWN_LEFTOVERS = Path("/run/systemd/nspawn/propagate")


def up(world: World, racks: Sequence[RackUse], faults: Faults, say: Say) -> tuple[HostStatus, ...]:
    """Boot a host for every node of the racks, with the faults asked for; return how they are."""
    if reason := unavailable_reason():
        raise EnvironmentFault(f"hosts can't be booted here: {reason}")
    with _alone(_lock_path(world), say):
        plans = _plan(world, racks, faults)
        base = {arch: images.ensure_base(arch, say) for arch in sorted({plan.arch for plan in plans})}
        bridge = prefix(world.home)
        _remove(world, set(network.ours(bridge)) - {plan.label for plan in plans}, say)
        poor = _not_as_wanted(bridge, plans, base)
        _remove(world, {plan.label for plan in poor}, say)
        _boot(world, bridge, poor, base, say)
        network.apply_faults(plans)
        _write_addresses(world, plans)
        hosts.wait_until_up(plans, images.native_arch(), say)
        return hosts.statuses(hosts.read_records(world.home / "rack"))


def status(world: World) -> tuple[HostStatus, ...]:
    """Return how each host of the rehearsal is; empty when there is none."""
    return hosts.statuses(hosts.read_records(world.home / "rack"))


def down(world: World, say: Say = lambda _line: None) -> None:
    """End every host of the rehearsal and remove all that was made for them; safe to repeat."""
    bridge = prefix(world.home)
    if not (world.home / "rack").exists() and not network.ours(bridge):
        return
    with _alone(_lock_path(world), say):
        _remove(world, set(network.ours(bridge)), say)
        network.remove_bridge(bridge)
        _remove_cgroup(bridge)
        _forget(world)


def _plan(world: World, racks: Sequence[RackUse], faults: Faults) -> list[HostPlan]:
    """Plan the hosts; which network each rack has is kept, so that addresses stay."""
    bridge, kept_in = prefix(world.home), world.home / "rack" / ".networks"
    kept_in.parent.mkdir(parents=True, exist_ok=True)
    with _alone(MACHINE_LOCK):
        kept = json.loads(kept_in.read_text()) if kept_in.is_file() else {}
        blocks = choose_blocks([use.name for use in racks], kept, network.taken_blocks(bridge))
        plans = plan_hosts(world.home.resolve(), racks, blocks, faults, images.native_arch())
        network.ensure_bridge(bridge, blocks.values())
        kept_in.write_text(json.dumps(blocks))
    return plans


def _not_as_wanted(bridge: str, plans: Sequence[HostPlan], base: dict[str, Path]) -> list[HostPlan]:
    """Return the hosts that are not running, or not as they should be."""
    broken = {plan.label for plan in network.unwired(bridge, plans)}
    inside = processes.inside(plan.label for plan in plans)
    return [
        plan
        for plan in plans
        if plan.label in broken
        or processes.leader(inside.get(plan.label, [])) is None
        or (record := hosts.read_record(plan.folder)) is None
        or not record.same_start(Record.of(plan, base[plan.arch]))
    ]


def _boot(world: World, bridge: str, plans: Sequence[HostPlan], base: dict[str, Path], say: Say) -> None:
    if not plans:
        return
    say(f"hosts: starting {len(plans)}")
    operator_key = ensure_key(world.home / "ssh" / KEY_NAME, "gpufleet-rehearsal")
    keys = {plan.address: layout.lay(plan, base[plan.arch], operator_key) for plan in plans}
    _write_known_hosts(world, keys, set())
    network.wire(bridge, plans)
    for plan in plans:
        hosts.start(plan, base[plan.arch])


def _remove(world: World, labels: set[str], say: Say) -> None:
    """End what runs under the labels, then remove their links, namespaces and cgroups."""
    if not labels:
        return
    if running := processes.inside(labels):
        say(f"hosts: ending {len(running)}")
    if left := processes.end(labels):
        raise EnvironmentFault(
            f"hosts that do not end: {' '.join(left)}", hint="run `gpufleet rehearse down` again"
        )
    network.unwire(labels)
    for label in labels:
        _remove_cgroup(f"{prefix(world.home)}/{label}")
        shutil.rmtree(NSPAWN_LEFTOVERS / label, ignore_errors=True)


def _forget(world: World) -> None:
    """Remove the rack's files, and its hosts from the address book and the known hosts."""
    addresses = {record.address for record in hosts.read_records(world.home / "rack")}
    _write_known_hosts(world, {}, addresses)
    (world.home / "addresses.json").unlink(missing_ok=True)
    shutil.rmtree(world.home / "rack")


def _write_addresses(world: World, plans: Sequence[HostPlan]) -> None:
    book = {plan.place: plan.address for plan in plans}
    (world.home / "addresses.json").write_text(json.dumps(book, indent=1) + "\n")


def _write_known_hosts(world: World, keys: dict[str, str], dropped: set[str]) -> None:
    path = world.home / "ssh" / "known_hosts"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(merge_known_hosts(path.read_text() if path.is_file() else "", keys, dropped))


def _remove_cgroup(name: str) -> None:
    for tree in CGROUPS:
        top = tree / name
        for folder in sorted(top.rglob("*/"), reverse=True) if top.is_dir() else []:
            with contextlib.suppress(OSError):
                folder.rmdir()
        with contextlib.suppress(FileNotFoundError):
            top.rmdir()


def _lock_path(world: World) -> Path:
    world.home.mkdir(parents=True, exist_ok=True)
    return world.home / "rack.lock"


@contextlib.contextmanager
def _alone(path: Path, say: Say = lambda _line: None) -> Iterator[None]:
    with path.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another run that holds this rack")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
