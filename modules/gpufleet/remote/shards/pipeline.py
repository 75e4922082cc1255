"""One shard's way: transmit to a worker, process what comes back. Blocks; every event is given on as it arrives."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpufleet.remote.progress import strip_colours_and_newlines
from gpufleet.remote.shards import private_data
from gpufleet.remote.shards.bundle import WorkerBundle
from gpufleet.remote.shards.destination import WorkerConnection, bundle_folder_on_worker
from gpufleet.remote.shards.plan import HostShard

END_SECONDS = 20


@dataclass
class ShardPipeline:
    """A shard on its way. ``stop`` may be called from another thread at any time."""

    worker: WorkerConnection
    bundle: WorkerBundle
    shard: HostShard
    run_id: str
    playbook: str
    options: str = ""
    failure: str = ""
    _ssh: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _stopped: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def folder_on_worker(self) -> str:
        """Return the run's folder on the worker: in memory, so that no secret reaches a disk."""
        return f"/dev/shm/gpufleet-{self.run_id}-{self.shard.folder_name}"  # noqa: S108 - the name cannot be guessed, and must not exist

    def run_shard(self, folder: Path, artifacts: Path, on_event: Callable[[dict[str, Any]], bool]) -> None:
        """Send the folder and follow the run to its end; ``failure`` is the reason if it does not finish."""
        program = f"{bundle_folder_on_worker(self.bundle)}/worker.py"
        remote = f'exec "python{self.bundle.python}" {program} {self.folder_on_worker}'
        self._ssh = subprocess.Popen(
            [*self.worker.command, remote],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        error_lines: list[bytes] = []
        errors = threading.Thread(
            target=lambda ssh: error_lines.extend(ssh.stderr), args=(self._ssh,), daemon=True
        )
        errors.start()
        sender = threading.Thread(target=self._transmit, args=(folder,), daemon=True)
        sender.start()
        try:
            self._process(folder, artifacts, on_event)
        finally:
            self._close()
            sender.join(END_SECONDS)
            errors.join(END_SECONDS)
        if self.failure and error_lines and not self._stopped.is_set():
            self.failure = error_lines[-1].decode(errors="replace").strip() or self.failure

    def stop_shard(self) -> None:
        """Cut the connection: the worker then ends the run on its side."""
        self._stopped.set()
        if self._ssh:
            self._ssh.terminate()

    def _transmit(self, folder: Path) -> None:
        """Send everything and leave the stream open: the worker stops when the stream ends."""
        import ansible_runner

        assert self._ssh is not None  # noqa: S101 - run() has started it
        with contextlib.suppress(OSError, ValueError):  # the connection was lost; the other stream tells
            ansible_runner.interface.run(
                streamer="transmit",
                _output=self._ssh.stdin,
                private_data_dir=str(folder),
                playbook=f"{self.playbook}.yml",
                inventory="hosts.json",
                limit=",".join(self.shard.hosts),
                ident=self.run_id,
                envvars=private_data.build_worker_environment(self.folder_on_worker),
                ssh_key=private_data.read_ansible_private_key(),
                cmdline=" ".join(
                    filter(None, [f"-e @{self.folder_on_worker}/{private_data.EXTRA}", self.options])
                ),
                suppress_env_files=True,
            )

    def _process(self, folder: Path, artifacts: Path, on_event: Callable[[dict[str, Any]], bool]) -> None:
        import ansible_runner

        assert self._ssh is not None  # noqa: S101 - run() has started it

        finished = False

        def on_runner_event(event: dict[str, Any]) -> bool:
            nonlocal finished
            finished = finished or event.get("event") == "playbook_on_stats"
            return on_event(event)

        def handle_runner_status(status: Mapping[str, Any], runner_config: Any = None) -> None:  # noqa: ARG001 - the runner's signature
            if status.get("status") == "error":
                self.failure = str(status.get("job_explanation") or "the worker failed")

        ansible_runner.interface.run(
            streamer="process",
            _input=self._ssh.stdout,
            private_data_dir=str(folder),
            artifact_dir=str(artifacts),
            event_handler=on_runner_event,
            status_handler=handle_runner_status,
            cancel_callback=self._stopped.is_set,
            settings={},
            quiet=True,
        )
        if not finished and not self.failure:
            self.failure = _last_line(artifacts / "stdout") or "Ansible stopped without a message"

    def _close(self) -> None:
        """Close our end and wait; a connection that does not close by itself is ended."""
        ssh = self._ssh
        if ssh is None:
            return
        with contextlib.suppress(OSError):
            if ssh.stdin:
                ssh.stdin.close()
        try:
            ssh.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            ssh.kill()
            ssh.wait()


def _last_line(path: Path) -> str:
    """Return the last line that Ansible printed, without terminal colours."""
    lines = path.read_text(errors="replace").strip().splitlines() if path.is_file() else []
    return strip_colours_and_newlines(lines[-1]) if lines else ""
