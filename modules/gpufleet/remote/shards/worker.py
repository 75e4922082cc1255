"""Runs on a worker: one ``ansible-runner worker`` in a folder in memory, which nothing outlives.

    python3 worker.py FOLDER

Standard library only: it is copied to the worker as it is. Standard input and output are the streams of
``transmit`` and ``process``. The sender keeps its end open until it has every result, so an input that ends before
the work does means that the sender is gone: then Ansible is stopped here too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

MARK = "GPUFLEET_WORKER"
SUPERVISOR = "site/gpufleet/burnin/agent/supervisor.py"
PATIENCE_SECONDS = 10.0
CHUNK = 1 << 16


def main(folder: Path) -> int:
    """Run one shard in the folder; return what the runner came to."""
    bundle = Path(__file__).resolve().parent
    os.umask(0o077)
    folder.mkdir(parents=True)
    (folder / "cp").mkdir()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        # The supervisor is the ancestor of all that runs here, and follows this process into its end.
        supervisor = [
            sys.executable,
            str(bundle / SUPERVISOR),
            "--follow-parent",
            "--scratch",
            str(folder),
            "--",
        ]
        runner = subprocess.Popen(
            [
                *supervisor,
                sys.executable,
                "-m",
                "ansible_runner",
                "worker",
                "--private-data-dir",
                str(folder),
            ],
            stdin=subprocess.PIPE,
            env=build_runner_environment(bundle, folder),
            start_new_session=True,
        )
        threading.Thread(target=forward_stdin_to_runner, args=(runner, folder), daemon=True).start()
        return runner.wait()
    finally:
        kill_run_pids(folder)
        shutil.rmtree(folder, ignore_errors=True)


def build_runner_environment(bundle: Path, folder: Path) -> dict[str, str]:
    """Return the environment of the run: the bundle's programs and packages first, marked as this run's."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    path = os.pathsep.join([str(bundle / "bin"), inherited.get("PATH", os.defpath)])
    return {
        **inherited,
        "PATH": path,
        "PYTHONPATH": str(bundle / "site"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(folder),
        "GPUFLEET_HOME": str(folder / "state"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "cp"),
        MARK: str(folder),
    }


def forward_stdin_to_runner(runner: subprocess.Popen[bytes], folder: Path) -> None:
    """Forward the input; when the sender is gone, stop the run."""
    target = runner.stdin
    with contextlib.suppress(OSError):
        while target and (chunk := os.read(sys.stdin.fileno(), CHUNK)):
            target.write(chunk)
            target.flush()
    if runner.poll() is None:
        runner.terminate()  # ansible-runner stops Ansible first, and then itself
        with contextlib.suppress(subprocess.TimeoutExpired):
            runner.wait(PATIENCE_SECONDS)
        kill_run_pids(folder)


def kill_run_pids(folder: Path) -> None:
    """Kill every process that carries this run's mark: Ansible, and the SSH connections that it keeps open."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (remaining := find_run_pids(folder)) and time.monotonic() < deadline:
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def find_run_pids(folder: Path) -> list[int]:
    """Return the processes, other than this one, that carry the mark."""
    mark = f"{MARK}={folder}".encode()
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and mark in (entry / "environ").read_bytes().split(b"\0"):
                pids.append(int(entry.name))
    return [pid for pid in pids if pid != os.getpid()]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
