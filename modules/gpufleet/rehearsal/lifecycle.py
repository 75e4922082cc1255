"""A rehearsal and its racks together: the commands of ``gpufleet rehearse``."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpufleet import fleet
from gpufleet.errors import InputError
from gpufleet.rehearsal import backend, processes, rack
from gpufleet.rehearsal.rehearsal import Rehearsal

Reporter = Callable[[str], None]


def start_rehearsal(
    rehearsal: Rehearsal, report: Reporter, *, faults: str | None = None, with_racks: bool = True
) -> None:
    """Start the rehearsal, then its racks if hosts can be booted here. Check all input before any change."""
    rehearsal.check_stack_exists()
    has_racks = with_racks and _declares_fleet(rehearsal)
    if not has_racks:
        if faults:
            remedy = f"remove --no-rack, and declare racks in {rehearsal.settings_file.name}"
            raise InputError("faults apply only to a rack's hosts", where="--faults", remedy=remedy)
        rehearsal.set_up(report)
        return
    stack = fleet.load_fleet(rehearsal.stack, rehearsal.root)
    chosen_faults = rack.load_faults(faults)
    chosen_faults.check_places_exist(
        {f"{rack_use.name}/{node.slot}" for rack_use in stack.racks for node in rack_use.rack.nodes}
    )
    rehearsal.set_up(report)
    if stack.racks or (rehearsal.home / "rack").exists():
        _boot_racks(rehearsal, stack.racks, chosen_faults, report)


def _declares_fleet(rehearsal: Rehearsal) -> bool:
    """Return whether the stack's file declares a fleet; a program with ``GpuPool`` declares its pools itself."""
    text = rehearsal.settings_file.read_text()
    return bool(re.search(rf"^\s*['\"]?{fleet.CONFIG_KEY}['\"]?\s*:", text, re.MULTILINE))


def _boot_racks(
    rehearsal: Rehearsal, racks: Sequence[fleet.StackRack], faults: rack.FaultPlan, report: Reporter
) -> None:
    reason = rack.find_missing_requirement()
    if reason:
        report(f"the racks are left out, everything else works: {reason}")
        return
    if real_bmcs := _count_real_bmcs(racks):
        report(
            f"the BMCs of {real_bmcs} nodes are left out: a rehearsal contacts no real one and switches no power"
        )
    hosts = rack.start_racks(rehearsal, racks, faults, report)
    answering = sum(host.ssh_answers for host in hosts)
    report(f"rack: {len(hosts)} hosts up, {answering} answer SSH, {len(hosts) - answering} do not")


def _count_real_bmcs(racks: Sequence[fleet.StackRack]) -> int:
    """Return how many nodes declare a BMC that a rehearsal does not contact."""
    nodes = [node for rack_use in racks for node in rack_use.rack.nodes if node.bmc]
    if not nodes:
        return 0
    from gpufleet.operations.power import is_harmless_address

    return sum(node.bmc is not None and not is_harmless_address(node.bmc.address) for node in nodes)


def remove_rehearsal(rehearsal: Rehearsal, report: Reporter) -> None:
    """Stop the runs that use the rehearsal, then the racks' hosts (their records are in its folder), then the rest."""
    stopped = processes.stop_rehearsal_processes(rehearsal.home)
    if stopped:
        report(f"rehearsal of {rehearsal.stack}: stopped {stopped} processes that were using it")
    if sys.platform == "linux":
        rack.stop_racks(rehearsal, report)
    rehearsal.tear_down(report)


def find_deleted_rehearsal_homes(project_root: Path | None = None) -> list[Path]:
    """Return the homes of rehearsals that were deleted while their hosts ran.

    With ``project_root`` only those of that project.
    """
    homes = [deleted.home for deleted in rack.find_deleted_rehearsals()] if sys.platform == "linux" else []
    return [home for home in homes if project_root is None or home.is_relative_to(project_root.resolve())]


def stop_deleted_rehearsals(homes: Iterable[Path], report: Reporter) -> None:
    """Stop the hosts of deleted rehearsals."""
    for home in homes:
        report(f"a rehearsal in {home}, which was deleted, still has hosts")
        rack.stop_racks(rack.DeletedRehearsal(home), report)


def collect_rehearsal_status(rehearsal: Rehearsal) -> dict[str, Any]:
    """Return the status of the rehearsal and its hosts as JSON data."""
    status = rehearsal.read_status()
    hosts = [asdict(host) for host in rack.collect_host_statuses(rehearsal)]
    return {
        **asdict(status),
        "home": str(status.home),
        "hosts": hosts,
        "declared_hosts": _count_declared_hosts(rehearsal),
        "next": suggest_next_command(rehearsal) if status.up else None,
    }


def _count_declared_hosts(rehearsal: Rehearsal) -> int:
    """Return how many hosts the stack's racks have; 0 if the stack's file is missing or invalid."""
    with contextlib.suppress(InputError):
        return sum(
            len(rack_use.rack.nodes) for rack_use in fleet.load_fleet(rehearsal.stack, rehearsal.root).racks
        )
    return 0


def choose_next_command(rehearsal: Rehearsal) -> str:
    """Return the command after the start: pulumi, if there are pools that it did not create yet, then the registry."""
    if (rehearsal.home / "registry.db").is_file():
        return "gpufleet configure"
    if backend.count_resources_and_pending(rehearsal)[0]:
        return f"gpufleet nodes sync -s {rehearsal.stack}"
    with contextlib.suppress(InputError):
        if not fleet.load_fleet(rehearsal.stack, rehearsal.root).pools:
            return f"gpufleet nodes sync -s {rehearsal.stack}"
    return f"pulumi up -s {rehearsal.stack} --yes"


def suggest_next_command(rehearsal: Rehearsal) -> str:
    """Return the next command, after the one that lets this shell use the rehearsal where it does not yet."""
    command = choose_next_command(rehearsal)
    if os.environ.get("GPUFLEET_REHEARSAL") == rehearsal.stack:
        return command
    return f'eval "$(gpufleet rehearse env -s {rehearsal.stack})"; {command}'


def format_rehearsal_status(status: dict[str, Any]) -> str:
    lines = [
        f"stack       {status['stack']}",
        f"state       {'up' if status['up'] else 'not up'}",
        f"folder      {status['home']}",
        f"engine      {status['engine'] or 'none'}",
        f"resources   {status['resources']} and the stack itself, {status['pending_operations']} operations pending",
        f"processes   {' '.join(str(pid) for pid in status['processes']) or 'none'}",
        f"hosts       {_hosts_line(status)}",
    ]
    unresponsive = (host for host in status["hosts"] if not host["ssh_answers"])
    lines += [f"  no SSH    {host['name']} ({host['place']}, {host['address']})" for host in unresponsive]
    lines += [
        f"  fault     {host['name']} ({host['place']}): {', '.join(host['faults'])}"
        for host in status["hosts"]
        if host["faults"]
    ]
    lines += [f"next        {status['next']}"] if status["next"] else []
    return "\n".join(lines)


def _hosts_line(status: dict[str, Any]) -> str:
    hosts, declared = status["hosts"], status["declared_hosts"]
    if not hosts:
        return f"none of {declared}: `gpufleet rehearse up` boots them" if declared else "none"
    running = sum(host["running"] for host in hosts)
    answering = sum(host["ssh_answers"] for host in hosts)
    return f"{running} running of {max(len(hosts), declared)}, {answering} answer SSH"
