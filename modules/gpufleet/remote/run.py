"""Run a playbook through ansible-runner: progress while it lasts, a typed outcome, small artifacts."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from gpufleet.boundary import OWN_STATE, decode_json_object, read_bytes
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.paths import ensure_private_folder, ensure_state_home
from gpufleet.remote import process_tree
from gpufleet.remote.display import RunEventHandler, open_run_display
from gpufleet.remote.plan import RunPlan, build_ansible_environment, find_ansible_folder, find_playbook
from gpufleet.remote.progress import UNDONE, HostProgress, RunProgress

KEEP_ARTIFACTS = 20
# How soon an interrupt is noticed: runner looks between two reads of Ansible's output.
INTERRUPT_SECONDS = 1
# What ansible-playbook returns when it reached its end: done, errors, failed hosts, unreachable hosts, both, bad input.
ANSIBLE_CODES = (0, 1, 2, 3, 4, 5)
NOT_STORED = frozenset(
    {"runner_on_start", "runner_item_on_ok", "runner_item_on_skipped", "runner_on_file_diff", "verbose"}
)


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run, host by host."""

    id: str
    playbook: str
    artifacts: Path
    hosts: tuple[HostProgress, ...]
    reports: tuple[dict[str, Any], ...]
    errors: tuple[str, ...]
    interrupted: bool
    completed: bool
    ansible_code: int = 0

    def host_names_with_status(self, *statuses: str) -> list[str]:
        """Return the hosts that ended so."""
        return sorted(host.name for host in self.hosts if host.status in statuses)

    @property
    def exit_code(self) -> int:
        """0 if every host succeeded, 1 if one did not, 3 if nothing could be done, 130 if interrupted.

        One unreachable host is that host's problem; if none of several answers, it is the network's or ours.
        """
        if self.interrupted:
            return 130
        silent = len(self.host_names_with_status("unreachable"))
        if not self.completed or (silent == len(self.hosts) > 1):
            return 3
        return 1 if self.ansible_code or self.host_names_with_status(*UNDONE) else 0


def run_playbook(
    plan: RunPlan,
    *,
    extra_vars: dict[str, Any] | None = None,
    options: str = "",
    stream: TextIO | None = None,
    run_id: str | None = None,
    on_host_finished: Callable[[str], None] | None = None,
) -> RunOutcome:
    """Run the plan's playbook on its hosts; ``options`` go to ansible-playbook as they are.

    ``on_host_finished`` is called with each host that has finished the last task.
    """
    progress = RunProgress({name: HostProgress(name) for name in plan.hosts}, plan.tasks, plan.plays)
    display = open_run_display(progress, stream or sys.stderr)
    follower = RunEventHandler(progress, display, on_host_finished=on_host_finished)

    def handle_runner_event(event: dict[str, Any]) -> bool:
        remove_module_arguments(event)
        follower.handle_run_event(event)
        return is_event_to_store(event)

    artifacts = ensure_private_folder(ensure_state_home(plan.root) / "artifacts")
    run_id = run_id or create_run_id()
    try:
        with catch_interrupts() as interrupted, process_tree.create_run_scratch_folder() as scratch:
            runner = prepare_ansible_runner(
                plan, artifacts=artifacts, on_event=handle_runner_event, interrupted=interrupted, run_id=run_id,
                scratch=scratch,
                options=" ".join(filter(None, [write_extra_vars_file(extra_vars or {}, scratch), options])),
            )  # fmt: skip
            try:
                runner.run()
            finally:
                stopped = interrupted.is_set() or runner.rc not in ANSIBLE_CODES
                process_tree.finish_run_processes(run_id, scratch, was_stopped=stopped)
    finally:
        progress.settle_hosts(is_complete=progress.finished)
        display.close_display()
    folder = artifacts / runner.config.ident
    remove_environment_from_command_file(folder / "command")
    return RunOutcome(
        id=runner.config.ident,
        playbook=plan.playbook,
        artifacts=folder,
        hosts=tuple(progress.hosts[name] for name in sorted(progress.hosts)),
        reports=tuple(progress.reports),
        errors=tuple(progress.errors),
        interrupted=interrupted.is_set(),
        completed=progress.finished,
        ansible_code=runner.rc or 0,
    )


def create_run_id() -> str:
    """Return a new name for a run and its artifacts."""
    return uuid.uuid4().hex[:12]


def prepare_ansible_runner(
    plan: RunPlan,
    *,
    artifacts: Path,
    on_event: Any,
    interrupted: threading.Event,
    run_id: str,
    options: str,
    scratch: Path,
) -> Any:
    """Prepare the same run that ``ansible-runner run . --project-dir playbooks`` makes, under supervision."""
    try:
        import ansible_runner
    except ImportError as missing:
        raise EnvironmentFault(
            "ansible-runner is not installed", hint="pip install ansible-runner"
        ) from missing
    runner = ansible_runner.interface.init_runner(
        private_data_dir=str(plan.root),
        project_dir=str(find_ansible_folder(plan.root)),
        playbook=find_playbook(plan.root, plan.playbook),
        limit=plan.limit,
        ident=run_id,
        artifact_dir=str(artifacts),
        rotate_artifacts=KEEP_ARTIFACTS,
        envvars=build_ansible_environment(plan.root) | process_tree.build_run_environment(run_id, scratch),
        cmdline=options or None,
        # Nothing of ours is left in the repository's env folder, which belongs to the user.
        suppress_env_files=True,
        quiet=True,
        event_handler=on_event,
        cancel_callback=interrupted.is_set,
    )
    # Only the file env/settings can say this, and that is the user's.
    runner.config.pexpect_timeout = INTERRUPT_SECONDS
    runner.config.command = [*process_tree.build_supervisor_command(scratch), *runner.config.command]
    return runner


def write_extra_vars_file(extra_vars: dict[str, Any], scratch: Path) -> str:
    """Write the variables to a file of the run's own folder; return the option that names it.

    On the command line they would be seen in the list of processes and kept in the run's artifacts.
    """
    if not extra_vars:
        return ""
    file = scratch / "vars.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(extra_vars), encoding="utf-8")
    return f"-e @{file}"


@contextlib.contextmanager
def catch_interrupts() -> Iterator[threading.Event]:
    """Turn Ctrl-C and SIGTERM into a request to stop, so that Ansible is stopped before we are."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted  # signals are the main thread's business
        return
    before = {
        number: signal.signal(number, lambda *_: interrupted.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_event_to_store(event: dict[str, Any]) -> bool:
    """Return True for events that the registry reads or that explain a failure; plain successes are dropped."""
    kind = event.get("event", "")
    if kind in ("runner_on_ok", "runner_on_skipped"):
        return "gpufleet" in ((event.get("event_data") or {}).get("res") or {})
    return kind not in NOT_STORED


def remove_module_arguments(event: dict[str, Any]) -> None:
    """Remove a module's arguments from an event: they are large and may hold secrets."""
    data = event.get("event_data") or {}
    data.pop("task_args", None)
    result = data.get("res")
    for part in (result, *(result.get("results") or ())) if isinstance(result, dict) else ():
        if isinstance(part, dict):
            part.pop("invocation", None)


def remove_environment_from_command_file(path: Path) -> None:
    """Remove the environment from the file that ansible-runner wrote: it may hold credentials."""
    if path.is_file():
        try:
            written = decode_json_object(read_bytes(path, OWN_STATE), str(path), OWN_STATE)
        except InputError:
            path.unlink()  # it cannot be cleaned
            return
        path.write_text(json.dumps({key: written.get(key) for key in ("command", "cwd")}))
