"""The help of every command, as recorded: options, arguments and what they take.

After an intended change: ``pytest tests/cli/test_help.py --regenerate``, and read the difference before you commit it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RECORD = Path(__file__).resolve().parents[1] / "cases/cli/help.txt"
# In a process of its own: click keeps a command's help option as its first caller wanted it.
PRINT_HELP = """
import click
from click.testing import CliRunner
from gpufleet.cli import gpufleet

def list_commands(command, path):
    yield path
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                yield from list_commands(command.get_command(context, name), (*path, name))

for path in list_commands(gpufleet, ()):
    result = CliRunner().invoke(gpufleet, [*path, "--help"], prog_name="gpufleet", terminal_width=110)
    assert result.exit_code == 0, result.output
    print("$ " + " ".join(("gpufleet", *path, "--help")))
    print(result.output)
"""


def test_help_texts_match_the_golden_files(golden):
    printed = subprocess.run(
        [sys.executable, "-c", PRINT_HELP], capture_output=True, text=True, check=True, env={"COLUMNS": "110"}
    )
    assert printed.stdout.count("\n$ ") > 40
    golden(RECORD, printed.stdout)
