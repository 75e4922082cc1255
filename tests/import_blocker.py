"""Run commands of gpufleet as if no extra were installed: a JSON list of command lines as the argument.

Prints exit code, output and errors of each, and the modules that they imported, as JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys

import click

from gpufleet import cli
from gpufleet.extra import find_extra


class ExtrasBlocker:
    """Finds no module of an extra."""

    def find_spec(self, name, path=None, target=None):
        if find_extra(name):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def list_help_lines(command, words=()):
    """Yield ``… --help`` for a command and all that are under it."""
    yield [*words, "--help"]
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from list_help_lines(command.get_command(click.Context(command), name), (*words, name))


def run(words):
    sys.argv = ["gpufleet", *words]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as end:
            return end.code or 0, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    sys.meta_path.insert(0, ExtrasBlocker())
    lines = json.loads(sys.argv[1]) or list(list_help_lines(cli.gpufleet))
    print(json.dumps([[run(words) for words in lines], list(sys.modules)]))
