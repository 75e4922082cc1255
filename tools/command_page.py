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
    """Return the page. In a fresh process: click keeps each command's help option as its first context names it."""
    root = _make_context(program, "gpufleet")
    sections = (
        f"\n## {context.command_path}\n\n```text\n{context.get_help().strip()}\n```\n"
        for context in list_commands(root)
    )
    return HEADER + "".join(sections)


def list_commands(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of each command that does something."""
    group = context.command
    if not isinstance(group, click.Group):
        yield context
        return
    for name in group.list_commands(context):
        if (command := group.get_command(context, name)) and not command.hidden:
            yield from list_commands(_make_context(command, name, context))


def _make_context(command: click.Command, name: str, parent: click.Context | None = None) -> click.Context:
    return click.Context(
        command, parent, name, max_content_width=100, terminal_width=100, **command.context_settings
    )


if __name__ == "__main__":
    PAGE.write_text(format_page(), encoding="utf-8")
