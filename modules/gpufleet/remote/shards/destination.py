"""How this machine reaches a worker: the same SSH options, keys and known hosts as Ansible uses for it."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.remote.shards.bundle import WorkerBundle

CONNECT_SECONDS = 15
PREPARE_SECONDS = 300
# Asked first: a bundle of compiled packages fits one Python and one processor.
CHECK_COMMAND = (
    'command -v {python} >/dev/null || {{ echo "no {python}"; exit 0; }};'
    " uname -m; test -f {folder}/ready && echo ready; true"
)
INSTALL_COMMAND = (
    "umask 077; rm -rf {folder}.new && mkdir -p {folder}.new && tar -xzf - -C {folder}.new"
    " && touch {folder}.new/ready && rm -rf {folder} && mv {folder}.new {folder}"
    # Those of earlier versions go; a few stay, for other machines that use this worker.
    ' && cd "$HOME"/.cache/gpufleet && ls -dt worker-* | tail -n +4 | xargs -r rm -rf'
)


@dataclass(frozen=True)
class WorkerConnection:
    """A worker and the ssh command that reaches it."""

    name: str
    command: tuple[str, ...]

    def run_on_worker(
        self, command_line: str, stdin: Any = None, timeout: float = CONNECT_SECONDS * 2
    ) -> str:
        """Run a command on the worker and return its output; raise EnvironmentFault if it fails."""
        try:
            completed = subprocess.run(
                [*self.command, command_line], stdin=stdin or subprocess.DEVNULL, capture_output=True, text=True,
                timeout=timeout, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise EnvironmentFault(f"worker {self.name}: no answer within {timeout:.0f} s") from None
        if completed.returncode:
            last_line = (completed.stderr.strip().splitlines() or [f"status {completed.returncode}"])[-1]
            raise EnvironmentFault(f"worker {self.name}: {last_line}")
        return completed.stdout

    def install_bundle(self, bundle: WorkerBundle) -> bool:
        """Copy the bundle to the worker unless it has it; return True if it was copied."""
        folder, python = bundle_folder_on_worker(bundle), f"python{bundle.python}"
        answer = self.run_on_worker(CHECK_COMMAND.format(python=python, folder=folder)).split("\n")
        if answer[0].startswith("no "):
            hint = f"install {python} there, or use a worker with the same system release as this machine"
            raise EnvironmentFault(
                f"worker {self.name} does not have {answer[0].removeprefix('no ')}", hint=hint
            )
        if answer[0] != bundle.machine:
            hint = "use a worker with this machine's processor architecture; its hosts may have another"
            raise EnvironmentFault(
                f"worker {self.name} is {answer[0]}, this machine {bundle.machine}", hint=hint
            )
        if "ready" in answer:
            return False
        with bundle.archive.open("rb") as archive:
            self.run_on_worker(INSTALL_COMMAND.format(folder=folder), stdin=archive, timeout=PREPARE_SECONDS)
        return True

    def read_trusted_host_keys(self) -> str:
        """Return the host keys that ssh trusts here, so that a worker trusts the same and no others."""
        ssh_config = subprocess.run(
            [self.command[0], "-G", *self.command[1:]], capture_output=True, text=True, check=False
        ).stdout
        lines = (line.split() for line in ssh_config.splitlines())
        paths = [path for fields in lines if fields[:1] == ["userknownhostsfile"] for path in fields[1:]]
        files = [Path(path).expanduser() for path in paths]
        return "".join(file.read_text() for file in files if file.is_file())


def bundle_folder_on_worker(bundle: WorkerBundle) -> str:
    """Return where a worker keeps the bundle, as its own shell writes it."""
    return f'"$HOME"/.cache/gpufleet/{bundle.name}'


def build_worker_connections(
    names: Iterable[str], hostvars: Mapping[str, Mapping[str, Any]]
) -> tuple[WorkerConnection, ...]:
    """Return how to reach workers: a host of the inventory by its name, any other as ssh knows it."""
    worker_names = list(dict.fromkeys(name.strip() for name in names if name.strip()))
    if not worker_names:
        raise InputError(
            "--workers names no worker", key="--workers", remedy="give hosts, e.g. --workers blade01,blade02"
        )
    for name in worker_names:
        if name.startswith("-"):
            raise InputError(f"{name!r} is not a host", key="--workers", remedy="give a name or user@host")
    return tuple(WorkerConnection(name, tuple(_command(name, hostvars.get(name)))) for name in worker_names)


def unwrap_unsafe_value(value: Any) -> Any:
    """Return what ``ansible-inventory --list`` wraps where Ansible must not read it as a template."""
    wrapped = isinstance(value, Mapping) and value.keys() == {"__ansible_unsafe"}
    return value["__ansible_unsafe"] if wrapped else value


def _command(name: str, host_variables: Mapping[str, Any] | None) -> list[str]:
    facts = {key: unwrap_unsafe_value(value) for key, value in (host_variables or {}).items()}
    key = facts.get("ansible_ssh_private_key_file") or os.environ.get("ANSIBLE_PRIVATE_KEY_FILE")
    common = facts.get("ansible_ssh_common_args") or os.environ.get("ANSIBLE_SSH_COMMON_ARGS", "")
    user = facts.get("ansible_user") or os.environ.get("ANSIBLE_REMOTE_USER")
    options = [
        "-o",
        "BatchMode=yes",
        "-o",
        f"ConnectTimeout={CONNECT_SECONDS}",
        "-o",
        "ServerAliveInterval=15",
    ]
    options += ["-o", "StrictHostKeyChecking=yes", *shlex.split(str(common))]
    options += ["-i", str(key), "-o", "IdentitiesOnly=yes"] if key else ["-A"]
    options += ["-p", str(facts["ansible_port"])] if facts.get("ansible_port") else []
    address = str(facts.get("ansible_host") or name)
    return ["ssh", *options, f"{user}@{address}" if user and "@" not in address else address]
