"""The whole of a rehearsal, world and racks together: what ``gpufleet rehearse`` does."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpufleet import fleet
from gpufleet.errors import InputError
from gpufleet.rehearsal import processes, rack
from gpufleet.rehearsal.world import World

Say = Callable[[str], None]


def up(world: World, say: Say, *, faults: str | None = None, with_racks: bool = True) -> None:
    """Bring the world up, then its racks where hosts can be booted; wrong input is refused before either."""
    world.check_stack()
    if not with_racks:
        if faults:
            raise InputError(
                "faults are put on a rack's hosts", where="--faults", remedy="leave out --no-rack"
            )
        world.up(say)
        return
    declared = fleet.load(world.stack, world.root)
    chosen = rack.load_faults(faults)
    chosen.check_places({f"{use.name}/{node.slot}" for use in declared.racks for node in use.rack.nodes})
    world.up(say)
    if declared.racks or (world.home / "rack").exists():
        _racks_up(world, declared.racks, chosen, say)


def _racks_up(world: World, racks: Sequence[fleet.RackUse], faults: rack.Faults, say: Say) -> None:
    reason = rack.unavailable_reason()
    if reason:
        say(f"rack left out, the rest works: {reason}")
        return
    hosts = rack.up(world, racks, faults, say)
    answering = sum(host.ssh_answers for host in hosts)
    say(f"rack: {len(hosts)} hosts up, {answering} answer SSH, {len(hosts) - answering} do not")


def down(world: World, say: Say) -> None:
    """End the runs that use the rehearsal, then the racks' hosts (their records lie in its folder), then the world."""
    ended = processes.end(world.home)
    if ended:
        say(f"rehearsal of {world.stack}: ended {ended} processes that were using it")
    if sys.platform == "linux":
        rack.down(world, say)
    world.down(say)


def deleted_homes(root: Path | None = None) -> list[Path]:
    """Return the homes of rehearsals that were deleted while their hosts ran: no stack's name leads to them.

    With ``root`` only those of one project.
    """
    homes = [lost.home for lost in rack.forsaken()] if sys.platform == "linux" else []
    return [home for home in homes if root is None or home.is_relative_to(root.resolve())]


def remove_deleted(homes: Iterable[Path], say: Say) -> None:
    """End the hosts of deleted rehearsals."""
    for home in homes:
        say(f"a rehearsal in {home}, which was deleted, still had hosts")
        rack.down(rack.Forsaken(home), say)


def report(world: World) -> dict[str, Any]:
    """Return how the rehearsal is, as plain data."""
    found = world.status()
    hosts = [asdict(host) for host in rack.status(world)]
    return {
        **asdict(found),
        "home": str(found.home),
        "hosts": hosts,
        "declared_hosts": _declared_hosts(world),
    }


def _declared_hosts(world: World) -> int:
    """Return how many hosts the stack's racks would have; none for a stack whose file is gone or broken."""
    with contextlib.suppress(InputError):
        return sum(len(use.rack.nodes) for use in fleet.load(world.stack, world.root).racks)
    return 0


def as_text(report: dict[str, Any]) -> str:
    """Return the report as a person reads it."""
    lines = [
        f"stack       {report['stack']}",
        f"state       {'up' if report['up'] else 'not up'}",
        f"folder      {report['home']}",
        f"engine      {report['engine'] or 'none'}",
        f"resources   {report['resources']}, {report['pending_operations']} operations pending",
        f"processes   {' '.join(str(pid) for pid in report['processes']) or 'none'}",
        f"hosts       {_hosts_line(report)}",
    ]
    silent = (host for host in report["hosts"] if not host["ssh_answers"])
    lines += [f"  silent    {host['name']} ({host['place']}, {host['address']})" for host in silent]
    return "\n".join(lines)


def _hosts_line(report: dict[str, Any]) -> str:
    hosts, declared = report["hosts"], report["declared_hosts"]
    if not hosts:
        return f"none of {declared}: `gpufleet rehearse up` boots them" if declared else "none"
    running = sum(host["running"] for host in hosts)
    answering = sum(host["ssh_answers"] for host in hosts)
    return f"{running} running of {max(len(hosts), declared)}, {answering} answer SSH"
