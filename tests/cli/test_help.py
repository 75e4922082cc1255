"""The help of every command, as recorded: options, arguments and what they take; and the help that starts quickly.

After an intended change: ``pytest tests/cli/test_help.py --regenerate``, and read the difference before you commit it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gpufleet import start

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


PRINT_TOP_HELP = """
import sys
from gpufleet import {module}

sys.argv = ["gpufleet", "--help"]
try:
    {module}.main()
finally:
    print("click" in sys.modules, file=sys.stderr)
"""


def print_top_help(module, **environment):
    return subprocess.run(
        [sys.executable, "-c", PRINT_TOP_HELP.format(module=module)],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip


def test_recorded_help_is_the_parser_s(golden):
    golden(Path(start.HELP_FILE), print_top_help("cli", COLUMNS="80").stdout)


def test_help_starts_without_the_parser_and_is_folded_by_it():
    quick, narrow = print_top_help("start"), print_top_help("start", COLUMNS="60")
    assert (quick.stdout, quick.stderr) == (Path(start.HELP_FILE).read_text(), "False\n")
    assert narrow.stderr == "True\n"
    assert max(map(len, narrow.stdout.splitlines())) < 60


# A page and a show for people; both write what they found to files.
WITHOUT_JSON = {"gpufleet console", "gpufleet rehearse demo"}


def test_every_command_that_prints_a_result_has_json():
    commands = RECORD.read_text(encoding="utf-8").split("$ ")[1:]
    verbs = {text.partition(" --help")[0]: text for text in commands if "\nCommands:\n" not in text}
    assert len(verbs) > 50
    assert {name for name, text in verbs.items() if " --json" not in text} == WITHOUT_JSON
