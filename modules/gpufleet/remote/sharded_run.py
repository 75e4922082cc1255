"""Run a playbook by shards on workers: many ansible-playbook processes, one progress, one outcome."""

from __future__ import annotations

import contextlib
import queue
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from gpufleet.boundary import make_printable
from gpufleet.errors import EnvironmentFault
from gpufleet.paths import ensure_private_folder, ensure_state_home, state_home
from gpufleet.remote import shards
from gpufleet.remote.display import RunEventHandler, open_display
from gpufleet.remote.plan import RunPlan, read_inventory
from gpufleet.remote.process_tree import find_memory_folder
from gpufleet.remote.progress import HostProgress, RunProgress
from gpufleet.remote.run import (
    KEEP_ARTIFACTS,
    RunOutcome,
    catch_interrupts,
    is_stored_event,
    new_run_id,
    remove_environment_from_file,
    strip_arguments,
)
from gpufleet.remote.shards import private_data

POLL_SECONDS = 0.5
EventSink = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class ExecutionMode:
    """How a run is distributed: workers by name, what a shard is (rack or pool), its maximum size."""

    workers: tuple[str, ...]
    shard_by: str = "rack"
    max_hosts: int = 0


def run_sharded(
    plan: RunPlan,
    mode: ExecutionMode,
    *,
    extra_vars: Mapping[str, Any] | None = None,
    options: str = "",
    stream: TextIO | None = None,
    run_id: str | None = None,
    on_event: EventSink | None = None,
    on_host_finished: Callable[[str], None] | None = None,
) -> RunOutcome:
    """Run the plan's playbook by shards.

    ``on_event`` is called with every event as it arrives, ``finished`` with each host that has finished the last task;
    both in the calling thread.
    """
    stream = stream or sys.stderr
    private_data.find_private_key()  # refuse what can't work before anything is sent
    inventory = read_inventory(plan.root)
    hostvars = inventory.get("_meta", {}).get("hostvars", {})
    bundle = shards.build_bundle()
    workers = _prepare_workers(shards.build_destinations(mode.workers, hostvars), bundle, stream)
    place_by_host = {
        host: str(place)
        for host in plan.hosts
        if (place := find_shard_place(hostvars.get(host, {}), mode.shard_by))
    }
    parts = shards.make_shards(plan.hosts, place_by_host, mode.max_hosts)
    shards_by_worker = shards.assign_shards(parts, [worker.name for worker in workers])
    for worker in workers:
        names = ", ".join(
            f"{part.name} ({len(part.hosts)} hosts)" for part in shards_by_worker.get(worker.name, ())
        )
        stream.write(make_printable(f"worker {worker.name}: {names or 'nothing to do'}", None) + "\n")
    run_id = run_id or new_run_id()
    lines = [
        [
            shards.Pipeline(worker, bundle, part, run_id, plan.playbook, options)
            for part in shards_by_worker[worker.name]
        ]
        for worker in workers
        if worker.name in shards_by_worker
    ]
    run = _ShardedRun(run_id, plan, inventory, extra_vars or {}, lines)
    progress = RunProgress({name: HostProgress(name) for name in plan.hosts}, plan.tasks, plan.plays)
    return run.follow(RunEventHandler(progress, open_display(progress, stream), on_event, on_host_finished))


@dataclass
class _ShardedRun:
    """The shards of one run on their way: a thread for each worker, every event folded in one thread."""

    ident: str
    plan: RunPlan
    inventory: Mapping[str, Any]
    extra_vars: Mapping[str, Any]
    lines: Sequence[Sequence[shards.Pipeline]]
    events: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)

    @property
    def pipelines(self) -> list[shards.Pipeline]:
        return [pipeline for line in self.lines for pipeline in line]

    @property
    def artifacts(self) -> Path:
        return state_home(self.plan.root) / "artifacts" / self.ident

    def follow(self, follower: RunEventHandler) -> RunOutcome:
        """Run every worker's shards one after the other, all workers in parallel, until all have ended."""
        ensure_state_home(self.plan.root)
        ensure_private_folder(self.artifacts)
        with catch_interrupts() as interrupted:
            threads = [
                threading.Thread(target=self._run_pipelines, args=(line, interrupted), daemon=True)
                for line in self.lines
            ]
            for thread in threads:
                thread.start()
            try:
                while any(thread.is_alive() for thread in threads):
                    self._drain(follower, POLL_SECONDS)
                    if interrupted.is_set():
                        self._stop()
                self._drain(follower)
            finally:
                follower.display.close()
        remove_old_artifacts(self.artifacts.parent)
        return self._outcome(follower.progress, interrupted.is_set())

    def _drain(self, follower: RunEventHandler, seconds: float = 0.0) -> None:
        """Apply the events that have arrived; wait at most ``seconds`` for the first."""
        with contextlib.suppress(queue.Empty):
            follower.handle_event(self.events.get(timeout=seconds) if seconds else self.events.get_nowait())
            while True:
                follower.handle_event(self.events.get_nowait())

    def _stop(self) -> None:
        for pipeline in self.pipelines:
            pipeline.stop()

    def _run_pipelines(self, line: Sequence[shards.Pipeline], interrupted: threading.Event) -> None:
        for pipeline in line:
            if interrupted.is_set():
                pipeline.failure = "interrupted"
                continue
            try:
                self._run_pipeline(pipeline)
            except Exception as error:  # noqa: BLE001 - one shard's end must not end the others
                pipeline.failure = pipeline.failure or str(error) or type(error).__name__

    def _run_pipeline(self, pipeline: shards.Pipeline) -> None:
        """Write what is sent to memory, because extra variables may be secrets, and run the shard."""
        folder = Path(tempfile.mkdtemp(prefix="gpufleet-send-", dir=find_memory_folder()))
        target = self.artifacts / pipeline.shard.folder
        try:
            known_hosts = pipeline.worker.read_known_hosts()
            private_data.write_private_data(
                folder, self.plan.root, self.inventory, known_hosts, self.extra_vars
            )
            pipeline.run(folder, target, self._on_event)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            remove_environment_from_file(target / "command")

    def _on_event(self, event: dict[str, Any]) -> bool:
        strip_arguments(event)
        self.events.put(event)
        return is_stored_event(event)

    def _outcome(self, progress: RunProgress, interrupted: bool) -> RunOutcome:
        failed_pipelines = [pipeline for pipeline in self.pipelines if pipeline.failure]
        for pipeline in failed_pipelines:
            for name in pipeline.shard.hosts:
                host = progress.hosts[name]
                if host.status in ("waiting", "running"):
                    host.reason = (
                        host.reason or f"not done: worker {pipeline.worker.name}: {pipeline.failure}"
                    )
        errors = [
            f"shard {pipeline.shard.name} on worker {pipeline.worker.name}: {pipeline.failure}"
            for pipeline in failed_pipelines
        ]
        return RunOutcome(
            id=self.ident,
            playbook=self.plan.playbook,
            artifacts=self.artifacts,
            hosts=tuple(progress.hosts[name] for name in sorted(progress.hosts)),
            reports=tuple(progress.reports),
            errors=(*progress.errors, *([] if interrupted else errors)),
            interrupted=interrupted,
            completed=not failed_pipelines,
        )


def find_shard_place(host_variables: Mapping[str, Any], shard_by: str) -> str | None:
    """Return where a host belongs: its rack, or its pool where it is in none; the other way round by pool."""
    keys = ("gpufleet_rack", "gpufleet_pool") if shard_by == "rack" else ("gpufleet_pool", "gpufleet_rack")
    return next(
        (str(shards.unwrap_unsafe(host_variables[key])) for key in keys if host_variables.get(key)), None
    )


def _prepare_workers(
    workers: Sequence[shards.Destination], bundle: shards.Bundle, stream: TextIO
) -> tuple[shards.Destination, ...]:
    """Copy the bundle to every worker; those that do not answer are reported and left out."""
    ready = []
    for worker in workers:
        try:
            if worker.install_bundle(bundle):
                size = bundle.archive.stat().st_size / 1e6
                stream.write(f"worker {worker.name}: copied Ansible and gpufleet ({size:.0f} MB) once\n")
            ready.append(worker)
        except EnvironmentFault as error:
            stream.write(make_printable(f"{error}: left out", None) + "\n")
            last = error
    if not ready:
        raise EnvironmentFault(f"no worker can be used; {last}")
    return tuple(ready)


def remove_old_artifacts(folder: Path) -> None:
    """Keep as many runs' artifacts as a run from here does."""
    runs = sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for old in runs[:-KEEP_ARTIFACTS]:
        shutil.rmtree(old, ignore_errors=True)
