"""Run a playbook by shards on the nodes of a Receptor mesh: many Ansible processes, one progress and outcome."""

from __future__ import annotations

import contextlib
import queue
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from gpufleet.boundary import make_printable
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.paths import ensure_private_folder, ensure_state_home, state_home
from gpufleet.remote import shards
from gpufleet.remote.display import RunEventHandler, open_run_display
from gpufleet.remote.plan import RunPlan, find_playbook, read_ansible_inventory
from gpufleet.remote.process_tree import find_memory_backed_folder
from gpufleet.remote.progress import HostProgress, RunProgress
from gpufleet.remote.run import (
    KEEP_ARTIFACTS,
    RunOutcome,
    catch_interrupts,
    create_run_id,
    is_event_to_store,
    remove_module_arguments,
)
from gpufleet.remote.shards import private_data
from gpufleet.scratch import create_scratch_folder

POLL_SECONDS = 0.5
CHECK_SECONDS = 2.0  # between two looks at the mesh
EventSink = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class ShardingOptions:
    """How a run is distributed: a mesh's control socket, nodes, what a shard is (rack or pool), its maximum size.

    A node that the mesh has had no route to for ``lost_after_s`` seconds counts as lost.
    """

    mesh: str
    nodes: tuple[str, ...]
    shard_by: str = "rack"
    max_hosts: int = 0
    lost_after_s: float = 60.0


def run_sharded(
    plan: RunPlan,
    sharding: ShardingOptions,
    *,
    extra_vars: Mapping[str, Any] | None = None,
    options: str = "",
    stream: TextIO | None = None,
    run_id: str | None = None,
    on_event: EventSink | None = None,
    on_host_finished: Callable[[str], None] | None = None,
) -> RunOutcome:
    """Run the plan's playbook by shards.

    ``on_event`` is called with every event, ``on_host_finished`` with each host that has finished the last task;
    both in the calling thread.
    """
    stream = stream or sys.stderr
    private_data.read_ansible_private_key()  # refuse what can't work before anything is sent
    private_data.build_run_environment("")
    private_data.refuse_links_out_of_galaxy(plan.root)
    control = shards.open_mesh_control(sharding.mesh)
    nodes = find_usable_nodes(control, sharding.nodes, stream)
    inventory = read_ansible_inventory(plan.root)
    hostvars = inventory.get("_meta", {}).get("hostvars", {})
    place_by_host = {
        host: str(place)
        for host in plan.hosts
        if (place := find_rack_or_pool(hostvars.get(host, {}), sharding.shard_by))
    }
    parts = shards.group_hosts_into_shards(plan.hosts, place_by_host, sharding.max_hosts)
    run = _ShardedRun(
        run_id or create_run_id(), plan, inventory, extra_vars or {}, options, sharding, control, nodes,
        shards.ShardQueue(parts, nodes),
    )  # fmt: skip
    progress = RunProgress({name: HostProgress(name) for name in plan.hosts}, plan.tasks, plan.plays)
    return run.run_until_finished(
        RunEventHandler(progress, open_run_display(progress, stream), on_event, on_host_finished), stream
    )


def find_usable_nodes(control: shards.MeshControl, names: Sequence[str], stream: TextIO) -> tuple[str, ...]:
    """Return the nodes that the mesh has a route to; the others are reported and left out."""
    node_names = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not node_names:
        raise InputError(
            "names no mesh node", key="--mesh-nodes", remedy="give nodes, e.g. --mesh-nodes rack-7,rack-8"
        )
    reachable = control.list_reachable_nodes()
    for name in node_names:
        if name not in reachable:
            stream.write(
                make_printable(f"mesh node {name}: not reachable in the mesh: left out", None) + "\n"
            )
    usable = tuple(name for name in node_names if name in reachable)
    if not usable:
        known = make_printable(", ".join(sorted(reachable)), 200)
        raise EnvironmentFault(f"no mesh node can be used; the mesh reaches: {known}")
    return usable


@dataclass
class _ShardedRun:
    """The shards of one run: a thread for each node, every event handled in the calling thread."""

    ident: str
    plan: RunPlan
    inventory: Mapping[str, Any]
    extra_vars: Mapping[str, Any]
    options: str
    sharding: ShardingOptions
    control: shards.MeshControl
    nodes: Sequence[str]
    waiting: shards.ShardQueue
    units: list[shards.ShardUnit] = field(default_factory=list)
    active_units: dict[str, shards.ShardUnit] = field(default_factory=dict)
    events: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)
    messages: queue.Queue[str] = field(default_factory=queue.Queue)

    @property
    def artifacts_folder(self) -> Path:
        return state_home(self.plan.root) / "artifacts" / self.ident

    def run_until_finished(self, event_handler: RunEventHandler, stream: TextIO) -> RunOutcome:
        """Run the shards, one at a time on each node, until all have ended or no node is left."""
        ensure_state_home(self.plan.root)
        ensure_private_folder(self.artifacts_folder)
        watch = _RouteWatch(self.control, self.sharding.lost_after_s)
        # In memory, because extra variables may be secrets.
        with (
            catch_interrupts() as interrupted,
            create_scratch_folder("send", find_memory_backed_folder()) as send_folder,
        ):
            guard = shards.UnitGuard(self.control, send_folder)
            threads = [
                threading.Thread(
                    target=self._run_shards, args=(node, guard, send_folder, interrupted), daemon=True
                )
                for node in self.nodes
            ]
            for thread in threads:
                thread.start()
            try:
                while any(thread.is_alive() for thread in threads):
                    self._drain(event_handler, stream, POLL_SECONDS)
                    self._stop_units(watch, interrupted)
                self._drain(event_handler, stream)
            finally:
                event_handler.progress.settle_hosts(is_complete=False)
                event_handler.display.close_display()
                guard.close_guard()
        remove_old_artifacts(self.artifacts_folder.parent)
        return self._outcome(event_handler.progress, interrupted.is_set())

    def _drain(self, handler: RunEventHandler, stream: TextIO, seconds: float = 0.0) -> None:
        """Handle the events that have arrived; wait at most ``seconds`` for the first."""
        with contextlib.suppress(queue.Empty):
            while True:
                stream.write(make_printable(self.messages.get_nowait(), None) + "\n")
        with contextlib.suppress(queue.Empty):
            handler.handle_run_event(
                self.events.get(timeout=seconds) if seconds else self.events.get_nowait()
            )
            while True:
                handler.handle_run_event(self.events.get_nowait())

    def _stop_units(self, watch: _RouteWatch, interrupted: threading.Event) -> None:
        """Stop all units after an interrupt, and those of nodes that are lost."""
        units = dict(self.active_units)
        if interrupted.is_set():
            for unit in units.values():
                unit.stop_unit("interrupted")
            return
        for node in watch.find_lost_nodes(units):
            seconds = f"{self.sharding.lost_after_s:.0f} s"
            units[node].stop_unit(f"lost: no route to the node for {seconds}", is_lost=True)

    def _run_shards(
        self, node: str, guard: shards.UnitGuard, send_folder: Path, interrupted: threading.Event
    ) -> None:
        """Run one shard after the other on a node, until there is none or the node is lost."""
        while not interrupted.is_set() and (shard := self.waiting.take_shard(node)):
            self.messages.put(f"mesh node {node}: {shard.name} ({len(shard.hosts)} hosts)")
            playbook = find_playbook(self.plan.root, self.plan.playbook)
            unit = shards.ShardUnit(self.control, guard, node, shard, self.ident, playbook, self.options)
            self.units.append(unit)
            self.active_units[node] = unit
            try:
                self._run_unit(unit, send_folder)
            except Exception as error:  # noqa: BLE001 - one shard's end must not end the others
                unit.failure = unit.failure or str(error) or type(error).__name__
            finally:
                del self.active_units[node]
            if unit.is_lost:
                return

    def _run_unit(self, unit: shards.ShardUnit, send_folder: Path) -> None:
        """Write what is sent to a folder, and run the shard."""
        folder = Path(tempfile.mkdtemp(dir=send_folder))
        target = self.artifacts_folder / unit.shard.folder_name
        first_host = unit.shard.hosts[0]
        hostvars = self.inventory.get("_meta", {}).get("hostvars", {})
        try:
            known_hosts = shards.read_trusted_host_keys(first_host, hostvars.get(first_host, {}))
            private_data.write_runner_private_data(
                folder, self.plan.root, self.inventory, known_hosts, self.extra_vars
            )
            private_data.write_node_programs(folder)
            unit.run_unit(folder, target, self._on_event)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _on_event(self, event: dict[str, Any]) -> bool:
        remove_module_arguments(event)
        self.events.put(event)
        return is_event_to_store(event)

    def _outcome(self, progress: RunProgress, interrupted: bool) -> RunOutcome:
        failures = [
            (unit.shard, f"mesh node {unit.node}: {make_printable(unit.failure, 300)}")
            for unit in self.units
            if unit.failure
        ]
        reason = "interrupted" if interrupted else "no mesh node is left for it"
        failures += [(shard, reason) for shard in self.waiting.list_waiting_shards()]
        for shard, failure in failures:
            for name in shard.hosts:
                host = progress.hosts[name]
                if host.status in ("waiting", "running"):
                    host.reason = host.reason or f"not done: {failure}"
        progress.settle_hosts(is_complete=not failures)
        errors = [f"shard {shard.name}: {failure}" for shard, failure in failures]
        return RunOutcome(
            id=self.ident,
            playbook=self.plan.playbook,
            artifacts=self.artifacts_folder,
            hosts=tuple(progress.hosts[name] for name in sorted(progress.hosts)),
            reports=tuple(progress.reports),
            errors=(*progress.errors, *([] if interrupted else errors)),
            interrupted=interrupted,
            completed=not failures,
        )


class _RouteWatch:
    """Notices nodes that the mesh has had no route to for a while."""

    def __init__(self, control: shards.MeshControl, lost_after_s: float) -> None:
        self.control, self.lost_after_s = control, lost_after_s
        self.checked = 0.0
        self.seen: dict[str, float] = {}

    def find_lost_nodes(self, active_units: Mapping[str, shards.ShardUnit]) -> list[str]:
        """Return the lost nodes among those that have a unit; the mesh is looked at every few seconds."""
        now = time.monotonic()
        if now - self.checked < min(CHECK_SECONDS, self.lost_after_s):
            return []
        self.checked = now
        try:
            reachable = self.control.list_reachable_nodes()
        except EnvironmentFault:  # our own receptor does not answer: then no node is reached
            reachable = frozenset()
        for node in active_units:
            if node in reachable or node not in self.seen:
                self.seen[node] = now
        return [node for node in active_units if now - self.seen[node] >= self.lost_after_s]


def find_rack_or_pool(host_variables: Mapping[str, Any], shard_by: str) -> str | None:
    """Return where a host belongs: its rack, or its pool where it is in none; the other way round by pool."""
    keys = ("gpufleet_rack", "gpufleet_pool") if shard_by == "rack" else ("gpufleet_pool", "gpufleet_rack")
    return next(
        (str(shards.unwrap_unsafe_value(host_variables[key])) for key in keys if host_variables.get(key)),
        None,
    )


def remove_old_artifacts(artifacts_folder: Path) -> None:
    """Keep as many runs' artifacts as a run from here does."""
    runs = sorted(
        (path for path in artifacts_folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime
    )
    for old in runs[:-KEEP_ARTIFACTS]:
        shutil.rmtree(old, ignore_errors=True)
