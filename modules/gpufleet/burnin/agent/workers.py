"""Run a function in child processes with a deadline: a crash or a hang costs one result, not the run."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
import traceback
from functools import partial
from typing import Any, Callable  # noqa: UP035 - Python 3.9 runs this

from .supervisor import PR_SET_CHILD_SUBREAPER, call_prctl, die_with_parent

# SIGKILL takes effect at once, except on a process that waits for a device: it is left behind after this time.
STOP_SECONDS = 5.0


def fork_job(job: Callable[[], Any], *, new_session: bool) -> tuple[int, int]:
    """Fork a child that writes its result as JSON; return its pid and the pipe to read.

    ``new_session``: the child and its children can be killed together.
    """
    reader, writer = os.pipe()
    parent, pid = os.getpid(), os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    code = 1
    try:
        os.close(reader)
        die_with_parent(parent)
        if new_session:
            os.setsid()
        # What its tools leave behind in another session becomes its child, so that it can be found.
        call_prctl(PR_SET_CHILD_SUBREAPER, 1)
        close_streams()
        pipe = os.fdopen(writer, "w")
        json.dump(capture_job_result(job), pipe)
        # The end of the line ends the answer: a process that the job left behind may hold the pipe open.
        pipe.write("\n")
        pipe.flush()
        code = 0
    finally:
        os._exit(code)


def close_streams() -> None:
    """Give up the agent's input and output: a child that outlives it must not keep its reader waiting."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def capture_job_result(job: Callable[[], Any]) -> Any:
    """Return ``{"value": ...}``, or ``{"error": ...}`` with the place where it went wrong."""
    try:
        return {"value": job()}
    except Exception as error:  # noqa: BLE001 - whatever a check raises becomes its recorded reason
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(place.filename)}:{place.lineno}"  # noqa: PTH119 - a path inside the zipapp
        return {"error": f"{type(error).__name__}: {error} ({where})"}


def read_line_until(reader: int, deadline: float) -> bytes | None:
    """Read a line, or what there is of it when the pipe ends; None when the deadline passes first."""
    text = bytearray()
    while not text.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return None
        part = os.read(reader, 1 << 16)
        if not part:
            break
        text += part
    return bytes(text)


def kill_child_and_wait(pid: int, *, kills_group: bool) -> int | None:
    """Kill a child (and its session) if it still runs; return its wait status, None if it cannot be stopped."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if kills_group:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.005)
    return None


def collect_child_result(child: tuple[int, int], deadline: float, *, kills_group: bool) -> Any:
    """Return a child's answer; a missing one becomes an error with the cause."""
    pid, reader = child
    text = read_line_until(reader, deadline)
    os.close(reader)
    status = kill_child_and_wait(pid, kills_group=kills_group)
    if text is None:
        stuck = f"; process {pid} cannot be stopped: it waits for a device" if status is None else ""
        return {"error": f"the check exceeded its time limit and was stopped{stuck}"}
    try:
        return json.loads(text)
    except ValueError:
        return {"error": f"the process of the check died ({describe_wait_status(status)})"}


def describe_wait_status(status: int | None) -> str:
    """Return how a process ended."""
    if status is None:
        return "it waits for a device"
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"


def run_job_with_deadline(job: Callable[[], Any], seconds: float) -> Any:
    """Run one job in a session of its own; return ``{"value"}`` or ``{"error"}`` within ``seconds``."""
    child = fork_job(job, new_session=True)
    return collect_child_result(child, time.monotonic() + seconds, kills_group=True)


def run_jobs_in_parallel(job: Callable[[int], Any], count: int, seconds: float) -> list[Any]:
    """Run ``job(0) … job(count - 1)`` at once, one process each; return their answers."""
    deadline = time.monotonic() + seconds
    children = [fork_job(partial(job, index), new_session=False) for index in range(count)]
    return [collect_child_result(child, deadline, kills_group=False) for child in children]
