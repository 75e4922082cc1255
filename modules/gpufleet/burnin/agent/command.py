"""Run a tool: bounded in time, in memory and in what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from functools import partial
from typing import Callable, Sequence  # noqa: UP035 - Python 3.9 runs this

from .spill import OutputSpill, SpillFile
from .supervisor import (
    PR_SET_CHILD_SUBREAPER,
    call_prctl,
    die_with_parent,
    kill_processes,
    list_live_descendants,
    send_signal,
)

# A tool that prints more than this is broken; the record must stay small.
MAX_OUTPUT_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 16
CHUNK_BYTES = 1 << 16
# How often a tool that has closed its output, or left it open to a process in the background, is looked at.
POLL_SECONDS = 0.1
# SIGKILL takes effect at once, except on a process that waits for a device: it is left behind after this time.
STOP_SECONDS = 5.0
TIMED_OUT, NOT_STARTED = 124, 127


@dataclass(frozen=True)
class CommandOutput:
    """A command's exit code and the beginning of its output; ``size`` counts all bytes that it printed."""

    code: int
    out: str
    err: str
    size: int = 0


class OutputReader:
    """One stream of a tool: keeps its beginning, hands whole lines on, and counts the rest."""

    def __init__(self, consume: Callable[[str], None] | None = None, spill: SpillFile | None = None) -> None:
        self.consume, self.spill = consume, spill
        self.head, self.line, self.size = bytearray(), bytearray(), 0

    def feed(self, chunk: bytes) -> None:
        """Take in what the tool printed."""
        self.size += len(chunk)
        if self.spill:
            self.spill.write(chunk)
        if self.consume is None:
            self.head += chunk[: MAX_OUTPUT_BYTES - len(self.head)]
            return
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._end_line(line)
        self.line += rest[: MAX_LINE_BYTES - len(self.line)]

    def _end_line(self, chunk: bytes) -> None:
        self.line += chunk[: MAX_LINE_BYTES - len(self.line)]
        assert self.consume is not None  # noqa: S101 - feed() calls this only with a consumer
        self.consume(self.line.decode("utf-8", "replace"))
        self.line.clear()

    def finish(self) -> str:
        """Return the beginning of the output, as text."""
        if self.line:
            self._end_line(b"")
        return self.head.decode("utf-8", "replace")


def run_command(
    argv: Sequence[str],
    timeout_s: float,
    consume: Callable[[str], None] | None = None,
    spill: OutputSpill | None = None,
) -> CommandOutput:
    """Run a program with a time limit; code 124 when it ran past it, 127 when it cannot be started.

    ``consume`` gets each line of standard output, for reports longer than what is kept. Whatever the program left
    running is killed, also in another session; so no two threads of a check may run programs at the same time.
    """
    deadline = time.monotonic() + timeout_s
    call_prctl(PR_SET_CHILD_SUBREAPER, 1)
    before = {process.pid for process in list_live_descendants(os.getpid())}
    try:
        process = subprocess.Popen(
            list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=partial(die_with_parent, os.getpid()), bufsize=0,  # noqa: PLW1509 - no threads here
        )  # fmt: skip
    except (OSError, ValueError) as error:
        return CommandOutput(NOT_STARTED, "", str(error))
    with contextlib.closing(spill.open(argv)) if spill else contextlib.nullcontext() as spill_file:
        out, err = OutputReader(consume, spill_file), OutputReader(spill=spill_file)
        code = read_until_exit(process, out, err, deadline)
        leftovers = kill_processes(
            lambda: [row for row in list_live_descendants(os.getpid()) if row.pid not in before], STOP_SECONDS
        )
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
    size = out.size + err.size
    if code is not None:
        return CommandOutput(code, out.finish(), err.finish(), size)
    reason = f"no answer within {timeout_s:g} s"
    if process.pid in leftovers:
        reason += f", and process {process.pid} cannot be stopped: it waits for a device"
    return CommandOutput(TIMED_OUT, out.finish(), reason, size)


def read_until_exit(
    process: subprocess.Popen[bytes], out: OutputReader, err: OutputReader, deadline: float
) -> int | None:
    """Read both streams until the program has ended; return its exit code, or None when its time is over."""
    readers = {
        stream.fileno(): reader for stream, reader in ((process.stdout, out), (process.stderr, err)) if stream
    }
    while True:
        left = deadline - time.monotonic()
        code = process.poll()
        ready = select.select(
            list(readers), [], [], 0 if code is not None else min(max(left, 0), POLL_SECONDS)
        )[0]
        for descriptor in ready:
            chunk = os.read(descriptor, CHUNK_BYTES)
            if chunk:
                readers[descriptor].feed(chunk)
            else:
                del readers[descriptor]
        # What a process in the background still holds open never ends: what is there now is all.
        if code is not None and not ready:
            return code
        if left <= 0:
            send_signal(process.pid, signal.SIGKILL)
            return None
