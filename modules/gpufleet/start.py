"""The program's start: ``gpufleet --help`` needs no parser of arguments, whose import takes most of its time."""

from __future__ import annotations

import os
import sys

HELP_FILE = os.path.join(os.path.dirname(__file__), "help.txt")  # noqa: PTH118, PTH120 - pathlib takes 10 ms
WIDTH = 80  # columns that the recorded help needs


def main() -> None:
    """Print the recorded help where it fits, otherwise run the command line."""
    if sys.argv[1:] in (["--help"], ["-h"]) and not _is_narrow():
        with open(HELP_FILE, encoding="utf-8") as file:  # noqa: PTH123 - as above
            sys.stdout.write(file.read())
        return
    from gpufleet.cli import main as run_command_line

    run_command_line()


def _is_narrow() -> bool:
    """Return whether lines must be folded before that column, as click does."""
    return "COLUMNS" in os.environ or (sys.stdout.isatty() and os.get_terminal_size().columns < WIDTH)
