"""The processes of a confined call.

The tree of one confined call is

    caller ─ supervisor ─ init (process 1 of a PID namespace) ─ the call

The supervisor waits in the caller's namespaces. When the call ends, when standard input of the supervisor ends
(the parent has died) or when the caller dies, the supervisor stops init, and the kernel ends everything in the PID
namespace with it. Without namespaces the supervisor adopts orphans (Linux) and stops what it started by itself.

What cannot be confined is decided and reported before anything of the call runs. A step that fails ends all of it.
"""

# ruff: noqa: PTH123 - the kernel's files

from __future__ import annotations

import os
import resource
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from .namespace import can_enter_namespaces, enter_namespaces
from .privilege import PR_SET_DUMPABLE, drop_privileges, limit_process_count, limit_resources
from .root_filesystem import make_root
from .system_call import call_library

NETWORK, FILES = "the network", "files outside the project"
PROCESSES, PROCESS_COUNT = "other processes and their environment", "the number of processes"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

Bounds = dict[str, Any]
"""``visible`` paths, a folder that is ``covered`` if one of them contains it, the ``project`` (its ``folder``, ``view``
and ``parts``), folders ``mounted`` in other places (source, target), ``folder`` (the one place to write), ``cpu_s``,
``may_be_unconfined``; ``trusted`` confines nothing. A build has folders that are ``writable``, and ``file_bytes``."""
Report = Callable[[dict[str, Any]], object]


def start_sandboxed_call(bounds: Bounds, call: Callable[[], object], report: Report) -> int:
    """Start a call confined, and return its supervisor's process id.

    ``report`` gets one mapping before the call is made, in a process that the call cannot reach: ``missing`` is a list
    of what is not confined; with ``refused`` (no namespaces) or ``failed`` (a step), nothing runs.
    """
    caller = os.getpid()
    supervisor = os.fork()
    if supervisor:
        return supervisor
    with suppress(BaseException):
        _die_with(caller)
        _supervise(bounds, call, report)
    os._exit(1)


def _supervise(bounds: Bounds, call: Callable[[], object], report: Report) -> NoReturn:
    is_root = os.getuid() == 0
    is_alone = not bounds["trusted"] and not (bounds["may_be_unconfined"] and not can_enter_namespaces())
    if is_alone:
        try:
            enter_namespaces()
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing may run
            report({"refused": str(error)})
            os._exit(1)
    else:
        _adopt_orphans()
        if not bounds["trusted"]:
            report({"missing": [NETWORK, FILES, PROCESSES, PROCESS_COUNT]})
    init_end, own_end = os.pipe()  # ends for init when the supervisor does
    child = os.fork()
    if child == 0:
        if is_alone:
            os.close(own_end)
            _be_init({**bounds, "is_root": is_root}, call, report, init_end)
        _run(bounds, call)
    status = _wait(child, os.dup(0), own_end)
    if not is_alone:
        _stop_descendants(child)
    os._exit(os.waitstatus_to_exitcode(status) & 0x7F)


def _wait(child: int, parent: int, own_end: int) -> int:
    """Wait for the child; stop it when the pipe from the parent ends, which says that the parent has."""
    _close_all_but({parent, own_end})
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    watched = [parent, wake]
    while True:
        ended_child, status = os.waitpid(child, os.WNOHANG)
        if ended_child:
            return status
        ready, _, _ = select.select(watched, [], [])
        if wake in ready:
            os.read(wake, 512)
        if parent in ready and not os.read(parent, 512):
            os.kill(child, signal.SIGKILL)
            watched.remove(parent)


def _be_init(bounds: Bounds, call: Callable[[], object], report: Report, supervisor: int) -> NoReturn:
    """Be process 1: make the file system, start the call, and end with it. Nothing runs if a step fails."""
    try:
        _die_with(0)
        if select.select([supervisor], [], [], 0)[0] and not os.read(supervisor, 1):
            os._exit(1)
        missing = [] if limit_process_count(bounds["is_root"]) else [PROCESS_COUNT]
        make_root(bounds)
        call_library("prctl", PR_SET_DUMPABLE, 0)  # nothing inside may trace this process
    except Exception as error:  # noqa: BLE001 - whatever it is, nothing may run
        report({"failed": str(error) or type(error).__name__})
        os._exit(1)
    report({"missing": missing})
    child = os.fork()
    if child == 0:
        _run({**bounds, "is_alone": True}, call)
    _close_all_but(set())
    while True:
        done, status = os.wait()
        if done == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0x7F)


def _run(bounds: Bounds, call: Callable[[], object]) -> NoReturn:
    """Give up what is left of privileges, and make the call."""
    code = 1
    with suppress(BaseException):
        for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, signal.SIG_DFL)
        if not bounds["trusted"]:
            limits = {name: bounds[name] for name in ("file_bytes",) if name in bounds}
            _limit_call(bounds["cpu_s"], bounds.get("is_alone", False), **limits)
        if bounds["trusted"] or sys.platform != "linux":
            os.setsid()
        call()
        code = 0
    os._exit(code)


def _limit_call(cpu_s: int, is_alone: bool, **limits: int) -> None:
    try:
        os.umask(0o077)
        limit_resources(cpu_s, is_alone, **limits)
        drop_privileges()
    except Exception as error:
        os.write(2, f"its confinement failed: {error}\n".encode())
        raise


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; where it cannot, the pipe's end does."""
    if sys.platform == "linux":
        call_library("prctl", PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def _adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    if sys.platform == "linux":
        call_library("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        call_library("prctl", PR_SET_PDEATHSIG, 0, 0, 0, 0)  # it must live to stop what it adopted


def _stop_descendants(child: int) -> None:
    """Kill what the call left behind: on Linux every descendant, elsewhere its session."""
    with suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    if sys.platform != "linux":
        return
    while True:
        for process in _children_of(os.getpid()):
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children_of(parent: int) -> list[int]:
    with open(f"/proc/{parent}/task/{parent}/children", encoding="ascii") as listing:
        return [int(token) for token in listing.read().split()]


def _close_all_but(open_descriptors: set[int]) -> None:
    highest = max(open_descriptors, default=-1)
    for descriptor in range(highest + 1):
        if descriptor not in open_descriptors:
            with suppress(OSError):
                os.close(descriptor)
    os.closerange(highest + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
