"""The help of every command, as recorded: options, arguments and what they take.

After an intended change: ``pytest tests/cli/test_help.py --regenerate``, and read the difference before you commit it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from click.testing import CliRunner

from gpufleet.cli import gpufleet

RECORD = Path(__file__).resolve().parents[1] / "cases/cli/help.txt"


def list_commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                yield from list_commands(command.get_command(context, name), (*path, name))


def read_help(path: tuple[str, ...]) -> str:
    result = CliRunner().invoke(
        gpufleet, [*path, "--help"], prog_name="gpufleet", terminal_width=110, env={"COLUMNS": "110"}
    )
    assert result.exit_code == 0, result.output
    return f"$ {' '.join(('gpufleet', *path, '--help'))}\n{result.output}"


def test_the_help_of_every_command_is_as_recorded(golden):
    commands = list(list_commands(gpufleet, ()))
    assert len(commands) > 40
    golden(RECORD, "\n".join(map(read_help, commands)))
