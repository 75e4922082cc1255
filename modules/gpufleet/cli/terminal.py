"""The terminal of a command: colours, its width, a line of progress; and the file that results may go to instead."""

from __future__ import annotations

import io
import os
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

import click

from gpufleet import progress, text_table
from gpufleet.boundary import make_printable

COMMAND, QUIET = "gpufleet.command", "gpufleet.quiet"
"""Keys of ``Context.meta``: the command that runs, and whether only results and errors are printed."""
COLOURS = {
    "green": "healthy|ready|assigned|pass|passed|ok",
    "yellow": r"degraded|incomplete|warn|not_run|burn_in|commissioning|warning:|conflict:",
    "red": r"faulty|fail|failed|unreachable|quarantined|repair|missing|MISSING|error:|policy violated",
    "cyan": "hint:|next:",
}
CELL = re.compile(
    r"(?:^|(?<=  ))(?:"
    + "|".join(f"(?P<{colour}>{words})" for colour, words in COLOURS.items())
    + r")(?=[ :]|$)",
    re.MULTILINE,
)
"""A verdict as a cell of a table, or what a message begins with."""
PROGRESS_AFTER_S, PROGRESS_EVERY_S = 2.0, 0.5


def is_quiet() -> bool:
    """Return True if --quiet was given."""
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(QUIET))


class ProgressStream:
    """Standard error for a run that shows its own progress: its first output ends the line of progress."""

    def write(self, text: str) -> int:
        """Write a text."""
        progress_line.stop()
        return sys.stderr.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write some lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


def open_progress_stream() -> TextIO:
    """Return where a run shows its own progress: standard error, or nowhere with --quiet."""
    return io.StringIO() if is_quiet() else cast("TextIO", ProgressStream())


def has_colour(stream: TextIO) -> bool:
    """Return whether a stream gets colours: a terminal, unless NO_COLOR or FORCE_COLOR say otherwise."""
    if os.environ.get("NO_COLOR"):
        return False
    if forced := os.environ.get("FORCE_COLOR"):
        return forced != "0"
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def measure_terminal() -> int | None:
    """Return the columns of the terminal that results go to; None for a file or a pipe."""
    if _captured is not None or not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def write_text_out(text: str, *, err: bool = False) -> None:
    """Write a text that is harmless, in colours on a terminal; a result goes to the file that was asked for."""
    if _captured is not None and not err:
        _captured.append(text)
        return
    progress_line.clear()
    coloured = has_colour(sys.stderr if err else sys.stdout)
    if coloured:
        text = CELL.sub(lambda match: click.style(match[0], fg=match.lastgroup), text)
    click.echo(text, err=err, color=coloured)


_captured: list[str] | None = None
"""What goes to a file in place of standard output."""


@contextmanager
def keep_lines_whole() -> Iterator[None]:
    """Do not cut tables: they go to a file."""
    before, text_table.line_width = text_table.line_width, None
    try:
        yield
    finally:
        text_table.line_width = before


@contextmanager
def write_results_to(file: Path | None) -> Iterator[None]:
    """Write what a command prints as its result to a file; the command that fails has none, or its report."""
    global _captured  # noqa: PLW0603 - one command per process
    if file is None:
        yield
        return
    _captured = []
    try:
        with keep_lines_whole():
            yield
    finally:
        texts, _captured = _captured, None
        if texts:
            from gpufleet.boundary import write_text

            write_text(file, "\n".join(texts).rstrip("\n") + "\n")


class ProgressLine:
    """One line on a terminal's standard error: which command runs, what it does, and for how long."""

    def __init__(self, context: click.Context | None = None) -> None:
        self.context, self.started, self.is_shown = context, time.monotonic(), False
        self.lock, self.finished = threading.Lock(), threading.Event()

    @contextmanager
    def keep_drawing(self) -> Iterator[None]:
        """Draw the line again and again, beginning after two seconds."""
        threading.Thread(target=self._draw_until_finished, daemon=True).start()
        try:
            yield
        finally:
            self.stop()

    def _draw_until_finished(self) -> None:
        wait_s = PROGRESS_AFTER_S
        while not self.finished.wait(wait_s):
            wait_s = PROGRESS_EVERY_S
            self.draw()

    def draw(self) -> None:
        """Draw the line over what it was before."""
        with self.lock:
            if not self.finished.is_set():
                step = f": {progress.current_step}" if progress.current_step else ""
                command = self.context.meta.get(COMMAND, "gpufleet") if self.context else "gpufleet"
                text = f"{command}{step} ({time.monotonic() - self.started:.0f} s)"
                click.echo(f"\r\x1b[2K{make_printable(text, 78)}", nl=False, err=True, color=True)
                self.is_shown = True

    def clear(self) -> None:
        """Remove the line, so that something else can be printed."""
        with self.lock:
            if self.is_shown:
                click.echo("\r\x1b[2K", nl=False, err=True, color=True)
                self.is_shown = False

    def stop(self) -> None:
        """Remove the line for good."""
        self.finished.set()
        self.clear()


progress_line = ProgressLine()


@contextmanager
def show_progress(context: click.Context) -> Iterator[None]:
    """Show on a terminal that a command is at work, until it ends, asks, or shows its own progress."""
    global progress_line  # noqa: PLW0603 - one command per process
    if not sys.stderr.isatty() or is_quiet() or os.environ.get("TERM") == "dumb":
        yield
        return
    progress_line = ProgressLine(context)
    with progress_line.keep_drawing():
        yield
