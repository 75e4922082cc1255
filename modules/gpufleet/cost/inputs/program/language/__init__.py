"""Run a program of another language than Python against the monitor, over gRPC.

``child.py`` loads this package by its folder, inside the confinement, and it imports nothing of gpufleet. ``RUNTIMES``
names the languages: each has a function that returns the command which starts a program.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from . import golang, nodejs
from .program import InputError, LanguageProgram, ProgramCommand

__all__ = ["LANGUAGES", "InputError", "LanguageProgram", "ProgramCommand", "evaluate_program"]

RUNTIMES: dict[str, Callable[[LanguageProgram, str], ProgramCommand]] = {
    "nodejs": nodejs.make_command,
    "go": golang.make_command,
}
# Languages whose installed packages say which outputs a lookup has.
LOOKUP_OUTPUTS: dict[str, Callable[[LanguageProgram, str], list[str]]] = {
    "nodejs": nodejs.list_lookup_outputs
}
YAML = "yaml"
LANGUAGES = (*RUNTIMES, YAML)


def evaluate_program(
    runtime: str, program: LanguageProgram, recorder: Any, read_yaml: Callable[[Path], dict[str, Any]]
) -> None:
    """Run a program of one of ``LANGUAGES`` until it ends; ``recorder`` then has its resources."""
    if runtime == YAML:
        from . import yaml_program  # the SDK: only the confined process needs it

        yaml_program.evaluate(program, recorder, read_yaml)
        return
    from .monitor_server import run_program  # gRPC: only the confined process needs it

    list_outputs = LOOKUP_OUTPUTS.get(runtime)
    run_program(
        recorder, partial(RUNTIMES[runtime], program), list_outputs and partial(list_outputs, program)
    )
