"""Write docs/commands.md, every command with its options: `python -m tools.command_page` (a test says when)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from gpufleet.cli import gpufleet as program

PAGE = Path(__file__).parents[1] / "docs/commands.md"
HEADER = """# Commands

<!-- Written by tools/command_page.py from the commands' help; change that instead. -->

Exit codes: 0 done; 1 a limit, check or host failed; 2 wrong input, with one line that says what, where and what would
be right; 3 something that is needed is missing here.
"""


def format_page() -> str:
    """Return the page."""
    return HEADER + "".join(
        format_command(command, path) for command, path in list_commands(program, "gpufleet")
    )


def list_commands(command: click.Command, path: str) -> Iterator[tuple[click.Command, str]]:
    """Yield each command that does something, with what to type."""
    if not isinstance(command, click.Group):
        yield command, path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        if (child := command.get_command(context, name)) and not child.hidden:
            yield from list_commands(child, f"{path} {name}")


def format_command(command: click.Command, path: str) -> str:
    """Return a command's section: its help as it is printed."""
    context = click.Context(command, info_name=path, max_content_width=100, terminal_width=100)
    return f"\n## {path}\n\n```text\n{command.get_help(context).strip()}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(format_page(), encoding="utf-8")
