"""Show a run while it lasts: a live table on a terminal, folded lines everywhere else.

Both write to a stream given to them (standard error), never to standard output.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO

from gpufleet.boundary import make_printable
from gpufleet.boundary.name_range import fold_names_to_ranges
from gpufleet.remote.progress import HostProgress, ProgressUpdate, RunProgress
from gpufleet.text_table import align_columns

# A long task (burn-in, one host after the other) says how far it is this often.
QUIET_SECONDS = 5.0
REFRESH_PER_SECOND = 4


class RunDisplay(Protocol):
    """Shows a run: each step, and the end."""

    def show_update(self, update: ProgressUpdate | None) -> None: ...
    def close_display(self) -> None: ...


def format_progress_line(hosts: Iterable[str], step: str, done: int, total: int, task: str) -> str:
    """Write one line of progress."""
    return f"{fold_names_to_ranges(hosts):<22}  {step:<11} {f'{done}/{total}':>6}  {task}"


class LineDisplay:
    """Plain lines: hosts that made the same step share one; trouble has its own and comes at once."""

    def __init__(
        self, progress: RunProgress, stream: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.progress, self.stream, self.clock = progress, stream, clock
        self.waiting: list[ProgressUpdate] = []
        self.task = ""
        self.last = clock()

    def show_update(self, update: ProgressUpdate | None) -> None:
        """Keep the step until its task is over, or write it now if the task takes long."""
        if self.progress.task != self.task:
            self.flush_waiting_updates()
            self.task = self.progress.task
        if update is None:
            return
        if update.step in ("failed", "unreachable"):
            self.write_line(
                format_progress_line(
                    [update.host], update.step, update.done, len(self.progress.tasks), update.reason
                )
            )
        elif update.step != "skipped":
            self.waiting.append(update)
        if self.clock() - self.last >= QUIET_SECONDS:
            self.flush_waiting_updates()

    def flush_waiting_updates(self) -> None:
        """Write what waits: one line for all hosts that did the same."""
        groups: dict[tuple[str, str], list[ProgressUpdate]] = {}
        for update in self.waiting:
            groups.setdefault((update.step, update.task), []).append(update)
        for (step, task), updates in groups.items():
            if not task.partition(" : ")[2].startswith("Validating arguments"):
                done = max(update.done for update in updates)
                self.write_line(
                    format_progress_line(
                        {update.host for update in updates}, step, done, len(self.progress.tasks), task
                    )
                )
        self.waiting = []
        self.last = self.clock()

    def write_line(self, text: str) -> None:
        """Write one line at once, so that it is seen through a pipe too."""
        self.stream.write(f"{make_printable(text, None)}\n")
        self.stream.flush()

    def close_display(self) -> None:
        """Write what still waits."""
        self.flush_waiting_updates()


MARKS = {
    "waiting": "·",
    "running": "…",
    "ok": "✓",
    "rescued": "!",
    "failed": "✗",
    "unreachable": "?",
    "stopped": "·",
    "not_reached": "·",
}


class TableDisplay:
    """A live table on a terminal: one row per host, redrawn in its place and never wider or higher than the screen."""

    def __init__(
        self, progress: RunProgress, stream: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.progress, self.stream, self.clock = progress, stream, clock
        self.task = ""
        self.height = 0
        self.draw_host_table()

    def show_update(self, update: ProgressUpdate | None) -> None:  # noqa: ARG002 - the table shows states, not steps
        """Draw the present state when a task starts, else at most four times a second."""
        if self.progress.task != self.task or self.clock() - self.last >= 1 / REFRESH_PER_SECOND:
            self.draw_host_table()

    def draw_host_table(self) -> None:
        """Write every host with how far it is over the table that was written before."""
        self.task, self.last = self.progress.task, self.clock()
        columns, screen_rows = shutil.get_terminal_size()
        names = sorted(self.progress.hosts)
        shown = names if len(names) < screen_rows - 2 else names[: max(screen_rows - 3, 1)]
        rows = [
            [make_printable(cell, None) for cell in self.build_host_row(self.progress.hosts[name])]
            for name in shown
        ]
        lines = align_columns(("", "host", "state", "done", "task"), rows)
        if hidden := len(names) - len(shown):
            lines.append(f"and {hidden} more")
        shortened = (line if len(line) < columns else f"{line[: columns - 2]}…" for line in lines)
        to_first_line = f"\x1b[{self.height}F" if self.height else ""
        self.stream.write(to_first_line + "".join(f"{line}\x1b[K\n" for line in shortened))
        self.stream.flush()
        self.height = len(lines)

    def build_host_row(self, host: HostProgress) -> tuple[str, str, str, str, str]:
        """Return one host's cells; the state is next to its mark, so that nothing depends on colour."""
        done = f"{host.done}/{len(self.progress.tasks)}"
        # A finished host shows no task: its last one may have been skipped, and would read as done.
        task = "" if host.status == "ok" else host.task
        return MARKS[host.status], host.name, host.status, done, host.reason or task

    def close_display(self) -> None:
        """Leave the last state on the screen."""
        self.draw_host_table()


def open_run_display(progress: RunProgress, stream: TextIO) -> RunDisplay:
    """Choose the display that fits the stream."""
    return TableDisplay(progress, stream) if stream.isatty() else LineDisplay(progress, stream)


@dataclass
class RunEventHandler:
    """Applies every event of a run to its progress and shows it; calls ``on_host_finished`` for each host done."""

    progress: RunProgress
    display: RunDisplay
    on_event: Callable[[dict[str, Any]], None] | None = None
    on_host_finished: Callable[[str], None] | None = None
    _finished: set[str] = field(default_factory=set)

    def handle_run_event(self, event: dict[str, Any]) -> None:
        """Apply and show one event."""
        update = self.progress.apply_runner_event(event)
        self.display.show_update(update)
        if self.on_event:
            self.on_event(event)
        finished = set(self.progress.list_finished_hosts(event))
        action = str((event.get("event_data") or {}).get("task_action") or "")
        if update and self.progress.has_finished_tasks(update.host, action):
            finished.add(update.host)
        if self.on_host_finished:
            for name in sorted(finished - self._finished):
                self.on_host_finished(name)
        self._finished |= finished
