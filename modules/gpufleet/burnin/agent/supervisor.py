"""Run work under supervision: when its front dies, of whatever cause, everything that the work started ends too.

    python3 supervisor.py [--scratch FOLDER] [--grace SECONDS] [--follow-parent] -- COMMAND…

Three processes share the task. The front is the process that others know and signal. The keeper is its child, in a
process group of its own, and the ancestor of all work: what the work leaves behind becomes its child, for the kernel
gives orphans to the nearest subreaper. The work runs below the keeper.

- The front dies or gets a signal: the keeper reads it from their pipe and ends the tree.
- The keeper dies: the kernel ends the work, and the front, a subreaper too, ends what is left of the tree.
- The work ends: the keeper ends what it left behind, and the front returns the work's exit code.

The file imports nothing of ours: the agent carries it to nodes, and runs of playbooks start it as a program. Systems
without Linux's subreapers have the pipe only: there a process that leaves its parent can outlive the work.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterable, Mapping  # noqa: UP035 - Python 3.9 runs this

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SWEEP_SECONDS = 30.0
WAITING_SECONDS = 5.0
POLL_SECONDS = 1.0
PACKAGE_MANAGERS = frozenset({"apt", "apt-get", "dpkg", "dnf", "yum", "rpm"})
"""Programs that leave a system half installed when they are killed in the middle of their work."""

try:
    LIBC = ctypes.CDLL(None, use_errno=True)  # loaded before any fork, for a forked child must not load it
except OSError:
    LIBC = None  # type: ignore[assignment]


@dataclass(frozen=True)
class ProcessTableRow:
    """One row of the process table; ``waiting`` for a device, in which state no signal reaches a process."""

    pid: int
    parent: int
    name: str
    zombie: bool
    waiting: bool = False


@dataclass(frozen=True)
class SupervisionPolicy:
    """How work ends.

    ``grace_s``: seconds between SIGTERM to the work's process group and SIGKILL to all; 0 sends SIGKILL at once.
    ``foreground`` keeps the work in the front's process group, so that it may use the terminal. ``spare_packages``
    leaves package managers to finish their transaction. ``after_success`` also ends what a finished work left running;
    without it only SSH masters end whose socket is in ``scratch``, a folder that goes when the work is stopped.
    ``is_orphaned`` is called once a second; the work is stopped when it returns true. ``on_end`` runs after all.
    """

    grace_s: float = 0.0
    foreground: bool = False
    spare_packages: bool = False
    after_success: bool = True
    scratch: str = ""
    is_orphaned: Callable[[], bool] = lambda: False
    on_end: Callable[[], object] = lambda: None


def call_prctl(option: int, value: int) -> None:
    """Call prctl where there is one."""
    with contextlib.suppress(AttributeError, OSError):
        LIBC.prctl(option, value, 0, 0, 0)


def die_with_parent(parent_pid: int = 0, signal_number: int = signal.SIGKILL) -> None:
    """Ask the kernel to signal this process when its parent ends; exit at once if ``parent`` has ended already."""
    call_prctl(PR_SET_PDEATHSIG, signal_number)
    if parent_pid and os.getppid() != parent_pid:
        os._exit(128 + signal_number)


def read_process_table() -> list[ProcessTableRow]:
    """Return the process table: from /proc, or from ps where there is none."""
    folders = [entry for entry in os.listdir("/proc") if entry.isdigit()] if os.path.isdir("/proc/1") else []  # noqa: PTH208, PTH112 - a thousand paths a pass
    if not folders:
        listing = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,stat=,comm="], capture_output=True, text=True, check=False
        ).stdout
        rows = [line.split(None, 3) for line in listing.splitlines()]
        return [_build_row(int(r[0]), int(r[1]), r[3].rsplit("/", 1)[-1], r[2][0]) for r in rows if r[3:]]
    processes = []
    for entry in folders:
        with contextlib.suppress(OSError, ValueError, IndexError):
            head, _, tail = Path(f"/proc/{entry}/stat").read_text(errors="replace").rpartition(")")
            fields = tail.split()
            processes.append(_build_row(int(entry), int(fields[1]), head.partition("(")[2], fields[0]))
    return processes


def _build_row(pid: int, parent: int, name: str, state: str) -> ProcessTableRow:
    return ProcessTableRow(pid, parent, name, state in "ZX", state in "DU")


def list_live_descendants(root_pid: int) -> list[ProcessTableRow]:
    """Return the live processes below one, parents before their children."""
    children: dict[int, list[ProcessTableRow]] = {}
    for process in read_process_table():
        children.setdefault(process.parent, []).append(process)
    processes, level = [], [root_pid]
    while level:
        below = [process for pid in level for process in children.get(pid, ())]
        processes += below
        level = [process.pid for process in below]
    return [process for process in processes if not process.zombie]


def find_package_manager_pids(processes: Iterable[ProcessTableRow]) -> set[int]:
    """Return package managers with what they started and what reads their output, up to Ansible's processes."""
    table = {process.pid: process for process in processes}
    spared_pids: set[int] = set()
    for process in table.values():
        ancestor: ProcessTableRow | None = process
        ancestors: list[ProcessTableRow] = []
        while ancestor and not is_ansible_process(ancestor):
            ancestors.append(ancestor)
            ancestor = table.get(ancestor.parent)
        if any(ancestor_process.name in PACKAGE_MANAGERS for ancestor_process in ancestors):
            spared_pids |= {ancestor_process.pid for ancestor_process in ancestors}
    return spared_pids


def is_ansible_process(process: ProcessTableRow) -> bool:
    """Return true for a process of Ansible itself, false for a module that it started."""
    if process.name.startswith("ansible"):
        return True
    with contextlib.suppress(OSError):
        arguments = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        return b"-m" in arguments[:3] and any(argument.startswith(b"ansible") for argument in arguments[:4])
    return False


def kill_descendants(root_pid: int, policy: SupervisionPolicy) -> None:
    """Kill all descendants of a process, except those that the policy spares; reap those that are our children."""

    def list_targets() -> list[ProcessTableRow]:
        reap_children()
        processes = list_live_descendants(root_pid)
        spared_pids = find_package_manager_pids(processes) if policy.spare_packages else set()
        return [process for process in processes if process.pid not in spared_pids]

    kill_processes(list_targets)


def kill_processes(
    list_targets: Callable[[], list[ProcessTableRow]], wait_s: float = WAITING_SECONDS
) -> set[int]:
    """Kill repeatedly until none is left; return those that wait for a device and cannot be killed."""
    started = time.monotonic()
    while targets := list_targets():
        for process in targets:
            send_signal(process.pid, signal.SIGKILL)
        elapsed = time.monotonic() - started
        if elapsed > (wait_s if all(process.waiting for process in targets) else SWEEP_SECONDS):
            break
        time.sleep(0.02)
    return {process.pid for process in targets}


def send_signal(pid: int, signal_number: int) -> None:
    """Signal a process that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal_number)


def reap_children() -> dict[int, int]:
    """Collect children that have ended; return their wait status by pid."""
    statuses = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            statuses[pid] = status
    return statuses


def wait_status_to_exit_code(wait_status: int) -> int:
    """Return a wait status as a shell would."""
    return 128 + os.WTERMSIG(wait_status) if os.WIFSIGNALED(wait_status) else os.WEXITSTATUS(wait_status)


def run_supervised(work: Callable[[], int], policy: SupervisionPolicy = SupervisionPolicy()) -> int:
    """Run the work in a process of its own; return its exit code, or 128 + the signal that ended it or us."""
    call_prctl(PR_SET_CHILD_SUBREAPER, 1)
    handlers = {number: signal.getsignal(number) for number in FORWARDED}
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    keeper = os.fork()
    if not keeper:
        os.close(writer)
        os._exit(_Supervisor(work, policy, reader, handlers).run_work())
    os.close(reader)
    received: list[int] = []

    def forward_signal(signal_number: int, _frame: object) -> None:
        received.append(signal_number)
        with contextlib.suppress(OSError):
            os.write(writer, bytes([signal_number]))

    for number in FORWARDED:
        signal.signal(number, forward_signal)
    try:
        status = os.waitpid(keeper, 0)[1]
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if os.WIFSIGNALED(status):
        kill_descendants(os.getpid(), policy)
    os.close(writer)
    return 128 + received[0] if received else wait_status_to_exit_code(status)


@dataclass
class _Supervisor:
    work: Callable[[], int]
    policy: SupervisionPolicy
    reader: int
    handlers: Mapping[signal.Signals, object]
    stopped: int = 0
    group: int = 0

    def run_work(self) -> int:
        """Start the work and stay until it has ended; return its exit code."""
        self.group = os.getpgid(os.getppid())
        os.setpgid(0, 0)
        call_prctl(PR_SET_CHILD_SUBREAPER, 1)
        wake_reader, wake_writer = os.pipe()
        os.set_blocking(wake_writer, False)
        for number in FORWARDED:
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_writer)
        me, child = os.getpid(), os.fork()
        if not child:
            signal.set_wakeup_fd(-1)
            for descriptor in (self.reader, wake_reader, wake_writer):
                os.close(descriptor)
            self._work(me)
        self._close_streams()
        status = self._wait(child, wake_reader)
        if status is None:
            status = self._stop(child)
        if self.stopped or os.WIFSIGNALED(status) or self.policy.after_success:
            kill_descendants(me, self.policy)
        else:
            self._stop_ssh_masters(me)
        if self.policy.scratch and (self.stopped or os.WIFSIGNALED(status)):
            shutil.rmtree(self.policy.scratch, ignore_errors=True)
        self.policy.on_end()
        return wait_status_to_exit_code(status)

    def _on_signal(self, number: int, _frame: object) -> None:
        self.stopped = self.stopped or number

    def _work(self, keeper: int) -> None:
        """Run the work and exit; never returns."""
        code = 1
        try:
            if self.policy.foreground:
                with contextlib.suppress(OSError):  # the front is gone: the keeper will see
                    os.setpgid(0, self.group)
            die_with_parent(keeper)
            for number, handler in self.handlers.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)  # type: ignore[arg-type]
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            code = self.work()
            sys.stdout.flush()
        finally:
            os._exit(code)

    def _close_streams(self) -> None:
        """Close the streams, so that their readers see the end when the work ends."""
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.close(null)

    def _wait(self, child: int, wake: int) -> int | None:
        """Return the work's wait status, or None when the work is to be stopped."""
        next_look = time.monotonic() + POLL_SECONDS
        while True:
            wait_s = max(0.0, next_look - time.monotonic())
            ready = select.select([self.reader, wake], [], [], wait_s)[0]
            if wake in ready:
                os.read(wake, 4096)
            statuses = reap_children()
            if child in statuses:
                return statuses[child]
            if self.reader in ready:
                self.stopped = self.stopped or int.from_bytes(os.read(self.reader, 1) or b"\x0f", "big")
            elif time.monotonic() >= next_look:  # also where orphans that end wake us all the time
                next_look = time.monotonic() + POLL_SECONDS
                if self.policy.is_orphaned():
                    self.stopped = self.stopped or signal.SIGHUP
            if self.stopped:
                return None

    def _stop(self, child: int) -> int:
        """Ask the work's group to end where there is grace, and wait for it; return the status to report."""
        if not self.policy.grace_s:
            return self.stopped
        # The terminal has sent SIGINT to the whole group; twice would mean at once.
        if self.stopped != signal.SIGINT:
            for pid in self._group_members():
                send_signal(pid, signal.SIGTERM)
        deadline, status = time.monotonic() + self.policy.grace_s, self.stopped
        while self._group_members() and time.monotonic() < deadline:
            status = reap_children().get(child, status)
            time.sleep(0.05)
        return status

    def _group_members(self) -> list[int]:
        """Return the work's processes that are in its group still, as it was started."""
        members = []
        for process in list_live_descendants(os.getpid()):
            with contextlib.suppress(OSError):
                if os.getpgid(process.pid) == self.group:
                    members.append(process.pid)
        return members

    def _stop_ssh_masters(self, root: int) -> None:
        """Stop the SSH connections that the work left open for later commands."""
        title_prefix = b"ssh: " + os.fsencode(self.policy.scratch) + b"/"
        for process in list_live_descendants(root) if self.policy.scratch else ():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(title_prefix):
                    send_signal(process.pid, signal.SIGTERM)


def read_process_start_time(pid: int) -> str:
    """Return when a process began, in the kernel's ticks; empty when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return _read_start_time_with_ps(pid) if not os.path.isdir("/proc/1") else ""  # noqa: PTH112
    return "" if fields[0] in "ZX" else fields[19]


def _read_start_time_with_ps(pid: int) -> str:
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main(argv: list[str] | None = None) -> int:
    """Run a command under supervision."""
    parser = argparse.ArgumentParser(prog="supervisor.py")
    parser.add_argument("--scratch", default="")
    parser.add_argument("--grace", type=float, default=0.0)
    parser.add_argument("--follow-parent", action="store_true")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(argv)
    if options.follow_parent:
        die_with_parent(signal_number=signal.SIGTERM)

    def execute_command() -> int:
        os.execvp(options.command[0], options.command)  # noqa: S606 - no shell on purpose

    policy = SupervisionPolicy(
        grace_s=options.grace,
        foreground=True,
        spare_packages=True,
        after_success=False,
        scratch=options.scratch,
    )
    return run_supervised(execute_command, policy)


if __name__ == "__main__":
    sys.exit(main())
