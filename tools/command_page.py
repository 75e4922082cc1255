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

Results go to standard output, notes and progress to standard error.

| option of every command | what it does |
|---|---|
| `--json` | prints JSON in place of text |
| `--output FILE` | writes the result to a file, in the format of its name (`.txt`, `.json`; some have `.md`, `.html`) |
| `-q`, `--quiet` | leaves out notes and progress |
| `-v`, `--verbose` | also prints where in the program an error came from |

Only a terminal gets colours, tables cut to its width and a line of progress after two seconds; `NO_COLOR=1` and
`FORCE_COLOR=1` decide otherwise. A pipe and a file get every row and every column whole.

A shell completes commands, options, and the names of stacks, racks and nodes after one line in its start file:

```text
eval "$(_GPUFLEET_COMPLETE=bash_source gpufleet)"                 # ~/.bashrc
eval "$(_GPUFLEET_COMPLETE=zsh_source gpufleet)"                  # ~/.zshrc
_GPUFLEET_COMPLETE=fish_source gpufleet | source                  # ~/.config/fish/config.fish
```
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
