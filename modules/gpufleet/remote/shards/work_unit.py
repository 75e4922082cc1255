"""One shard on a mesh node, as a unit of work: transmit it, process what comes back. Blocks until it has ended."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpufleet.errors import EnvironmentFault
from gpufleet.remote.shards import private_data
from gpufleet.remote.shards.mesh_control import MeshControl
from gpufleet.remote.shards.plan import HostShard
from gpufleet.remote.shards.result_stream import ResultStream
from gpufleet.remote.shards.unit_guard import UnitGuard

END_SECONDS = 30.0
POLL_SECONDS = 0.2


@dataclass
class ShardUnit:
    """A shard on a node. ``stop_unit`` may be called from another thread at any time."""

    control: MeshControl
    guard: UnitGuard
    node: str
    shard: HostShard
    run_id: str
    playbook: str
    options: str = ""
    failure: str = ""
    unit: str = ""
    is_lost: bool = False
    _results: socket.socket | None = field(default=None, repr=False)
    _stopped: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def folder_on_node(self) -> str:
        """Return the run's folder on the node: in memory, so that no secret reaches a disk."""
        return f"/dev/shm/gpufleet-{self.run_id}-{self.shard.folder_name}"  # noqa: S108 - the name cannot be guessed

    def run_unit(self, folder: Path, artifacts: Path, on_event: Callable[[dict[str, Any]], bool]) -> None:
        """Submit the folder and follow the run to its end; ``failure`` is the reason if it does not finish."""
        try:
            self._submit(folder)
            if not self._stopped.is_set():
                self._process(folder, artifacts, on_event)
        except EnvironmentFault as fault:
            self.failure = self.failure or str(fault)
        finally:
            self._release()

    def stop_unit(self, reason: str, *, is_lost: bool = False) -> None:
        """End the unit: the node stops Ansible when it is cancelled."""
        if not self._stopped.is_set():
            self.failure, self.is_lost = self.failure or reason, is_lost
        self._stopped.set()
        if self._results:
            with contextlib.suppress(OSError):
                self._results.shutdown(socket.SHUT_RDWR)

    def _on_created(self, unit: str) -> None:
        self.unit = unit
        self.guard.add_unit(unit)

    def _submit(self, folder: Path) -> None:
        reader, writer = os.pipe()
        sender = threading.Thread(target=self._transmit, args=(folder, writer), daemon=True)
        sender.start()
        parameters = f"--private-data-dir={self.folder_on_node} --delete"  # what AWX passes
        with os.fdopen(reader, "rb") as payload:
            self.control.submit_unit(self.node, payload, parameters, self._on_created)
        sender.join(END_SECONDS)

    def _transmit(self, folder: Path, writer: int) -> None:
        import ansible_runner

        with contextlib.suppress(OSError, ValueError), os.fdopen(writer, "wb") as stream:
            ansible_runner.interface.run(
                streamer="transmit",
                _output=stream,
                private_data_dir=str(folder),
                playbook=self.playbook,
                inventory="hosts.json",
                limit=",".join(self.shard.hosts),
                ident=self.run_id,
                envvars=private_data.build_node_environment(self.folder_on_node),
                ssh_key=private_data.read_ansible_private_key(),
                cmdline=" ".join(
                    filter(None, [f"-e @{self.folder_on_node}/{private_data.EXTRA}", self.options])
                ),
                suppress_env_files=True,
            )

    def _process(self, folder: Path, artifacts: Path, on_event: Callable[[dict[str, Any]], bool]) -> None:
        import ansible_runner

        finished, explanation = False, ""

        def on_runner_event(event: dict[str, Any]) -> bool:
            nonlocal finished
            finished = finished or event.get("event") == "playbook_on_stats"
            return on_event(event)

        def handle_runner_status(status: Mapping[str, Any], runner_config: Any = None) -> None:  # noqa: ARG001 - the runner's signature
            nonlocal explanation
            if status.get("status") == "error":
                explanation = str(status.get("job_explanation") or "")

        self._results, source = self.control.open_unit_results(self.unit)
        with self._results, source:
            stream = ResultStream(source, frozenset(self.shard.hosts))
            ansible_runner.interface.run(
                streamer="process",
                _input=stream,
                private_data_dir=str(folder),
                artifact_dir=str(artifacts),
                event_handler=on_runner_event,
                status_handler=handle_runner_status,
                cancel_callback=self._stopped.is_set,
                settings={},
                quiet=True,
            )
        if stream.failure:
            self.failure = self.failure or stream.failure
        elif not finished:
            status = self.control.read_unit_status(self.unit)
            self.failure = (
                self.failure or stream.last_line or (status.detail if status.is_final else explanation)
            )
        elif stream.ignored:
            self.failure = self.failure or f"the node sent {stream.ignored} invalid events"

    def _release(self) -> None:
        """Cancel what did not finish, wait for its end on a node that is there, and delete the unit."""
        if not self.unit:
            return
        if self.failure:
            self.control.cancel_unit(self.unit)
        deadline = time.monotonic() + (0 if self.is_lost else END_SECONDS)
        with contextlib.suppress(EnvironmentFault):
            while not self.control.read_unit_status(self.unit).is_final and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
        self.control.release_unit(self.unit)
        self.guard.remove_unit(self.unit)
