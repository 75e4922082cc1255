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
from gpufleet.remote.display import RunEventHandler, open_run_display
from gpufleet.remote.plan import RunPlan, read_ansible_inventory
from gpufleet.remote.process_tree import find_memory_backed_folder
from gpufleet.remote.progress import HostProgress, RunProgress
from gpufleet.remote.run import (
    KEEP_ARTIFACTS,
    RunOutcome,
    catch_interrupts,
    create_run_id,
    is_event_to_store,
    remove_environment_from_command_file,
    remove_module_arguments,
)
from gpufleet.remote.shards import private_data

POLL_SECONDS = 0.5
EventSink = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class ShardingOptions:
    """How a run is distributed: workers by name, what a shard is (rack or pool), its maximum size."""

    workers: tuple[str, ...]
    shard_by: str = "rack"
    max_hosts: int = 0


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
    inventory = read_ansible_inventory(plan.root)
    hostvars = inventory.get("_meta", {}).get("hostvars", {})
    bundle = shards.build_worker_bundle()
    workers = _prepare_workers(shards.build_worker_connections(sharding.workers, hostvars), bundle, stream)
    place_by_host = {
        host: str(place)
        for host in plan.hosts
        if (place := find_rack_or_pool(hostvars.get(host, {}), sharding.shard_by))
    }
    parts = shards.group_hosts_into_shards(plan.hosts, place_by_host, sharding.max_hosts)
    shards_by_worker = shards.assign_shards_to_workers(parts, [worker.name for worker in workers])
    for worker in workers:
        names = ", ".join(
            f"{part.name} ({len(part.hosts)} hosts)" for part in shards_by_worker.get(worker.name, ())
        )
        stream.write(make_printable(f"worker {worker.name}: {names or 'nothing to do'}", None) + "\n")
    run_id = run_id or create_run_id()
    lines = [
        [
            shards.ShardPipeline(worker, bundle, part, run_id, plan.playbook, options)
            for part in shards_by_worker[worker.name]
        ]
        for worker in workers
        if worker.name in shards_by_worker
    ]
    run = _ShardedRun(run_id, plan, inventory, extra_vars or {}, lines)
    progress = RunProgress({name: HostProgress(name) for name in plan.hosts}, plan.tasks, plan.plays)
    return run.run_until_finished(
        RunEventHandler(progress, open_run_display(progress, stream), on_event, on_host_finished)
    )


@dataclass
class _ShardedRun:
    """The shards of one run on their way: a thread for each worker, every event folded in one thread."""

    ident: str
    plan: RunPlan
    inventory: Mapping[str, Any]
    extra_vars: Mapping[str, Any]
    lines: Sequence[Sequence[shards.ShardPipeline]]
    events: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)

    @property
    def shard_pipelines(self) -> list[shards.ShardPipeline]:
        return [pipeline for line in self.lines for pipeline in line]

    @property
    def artifacts_folder(self) -> Path:
        return state_home(self.plan.root) / "artifacts" / self.ident

    def run_until_finished(self, event_handler: RunEventHandler) -> RunOutcome:
        """Run every worker's shards one after the other, all workers in parallel, until all have ended."""
        ensure_state_home(self.plan.root)
        ensure_private_folder(self.artifacts_folder)
        with catch_interrupts() as interrupted:
            threads = [
                threading.Thread(target=self._run_pipelines, args=(line, interrupted), daemon=True)
                for line in self.lines
            ]
            for thread in threads:
                thread.start()
            try:
                while any(thread.is_alive() for thread in threads):
                    self._drain(event_handler, POLL_SECONDS)
                    if interrupted.is_set():
                        self._stop()
                self._drain(event_handler)
            finally:
                event_handler.display.close_display()
        remove_old_artifacts(self.artifacts_folder.parent)
        return self._outcome(event_handler.progress, interrupted.is_set())

    def _drain(self, follower: RunEventHandler, seconds: float = 0.0) -> None:
        """Apply the events that have arrived; wait at most ``seconds`` for the first."""
        with contextlib.suppress(queue.Empty):
            follower.handle_run_event(
                self.events.get(timeout=seconds) if seconds else self.events.get_nowait()
            )
            while True:
                follower.handle_run_event(self.events.get_nowait())

    def _stop(self) -> None:
        for pipeline in self.shard_pipelines:
            pipeline.stop_shard()

    def _run_pipelines(self, line: Sequence[shards.ShardPipeline], interrupted: threading.Event) -> None:
        for pipeline in line:
            if interrupted.is_set():
                pipeline.failure = "interrupted"
                continue
            try:
                self._run_pipeline(pipeline)
            except Exception as error:  # noqa: BLE001 - one shard's end must not end the others
                pipeline.failure = pipeline.failure or str(error) or type(error).__name__

    def _run_pipeline(self, pipeline: shards.ShardPipeline) -> None:
        """Write what is sent to memory, because extra variables may be secrets, and run the shard."""
        folder = Path(tempfile.mkdtemp(prefix="gpufleet-send-", dir=find_memory_backed_folder()))
        target = self.artifacts_folder / pipeline.shard.folder_name
        try:
            known_hosts = pipeline.worker.read_trusted_host_keys()
            private_data.write_runner_private_data(
                folder, self.plan.root, self.inventory, known_hosts, self.extra_vars
            )
            pipeline.run_shard(folder, target, self._on_event)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            remove_environment_from_command_file(target / "command")

    def _on_event(self, event: dict[str, Any]) -> bool:
        remove_module_arguments(event)
        self.events.put(event)
        return is_event_to_store(event)

    def _outcome(self, progress: RunProgress, interrupted: bool) -> RunOutcome:
        failed_pipelines = [pipeline for pipeline in self.shard_pipelines if pipeline.failure]
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
            artifacts=self.artifacts_folder,
            hosts=tuple(progress.hosts[name] for name in sorted(progress.hosts)),
            reports=tuple(progress.reports),
            errors=(*progress.errors, *([] if interrupted else errors)),
            interrupted=interrupted,
            completed=not failed_pipelines,
        )


def find_rack_or_pool(host_variables: Mapping[str, Any], shard_by: str) -> str | None:
    """Return where a host belongs: its rack, or its pool where it is in none; the other way round by pool."""
    keys = ("gpufleet_rack", "gpufleet_pool") if shard_by == "rack" else ("gpufleet_pool", "gpufleet_rack")
    return next(
        (str(shards.unwrap_unsafe_value(host_variables[key])) for key in keys if host_variables.get(key)),
        None,
    )


def _prepare_workers(
    workers: Sequence[shards.WorkerConnection], bundle: shards.WorkerBundle, stream: TextIO
) -> tuple[shards.WorkerConnection, ...]:
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


def remove_old_artifacts(artifacts_folder: Path) -> None:
    """Keep as many runs' artifacts as a run from here does."""
    runs = sorted(
        (path for path in artifacts_folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime
    )
    for old in runs[:-KEEP_ARTIFACTS]:
        shutil.rmtree(old, ignore_errors=True)
