"""A program of another language as its runner needs it, and the command that starts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class InputError(Exception):
    """An error of the project; it is reported like gpufleet's InputError."""

    def __init__(self, problem: str, where: Path | str, key: str = "", remedy: str = "") -> None:
        super().__init__(problem)
        self.problem, self.where, self.key, self.remedy = problem, where, key, remedy


@dataclass(frozen=True)
class LanguageProgram:
    """A program: its project and stack, what Pulumi.yaml says of it, and its configuration as the engine passes it.

    ``main`` is a path in the project, ``options`` are those of ``runtime``. ``tools`` has the place of each program
    that runs it, such as ``node``.
    """

    root: Path
    project: str
    stack: str
    main: str
    options: Mapping[str, Any]
    configuration: Mapping[str, str]
    secret_keys: Sequence[str]
    tools: Mapping[str, str]

    def find_folder_and_entry(self) -> tuple[Path, str]:
        """Return the folder to run in and the entry point in it, "." for the folder itself, as the engine does."""
        main = self.root / self.main
        if main.is_dir():
            return main, "."
        if not main.is_file():
            raise InputError(
                "not found", main, "main", "write the Pulumi program there, or set main in Pulumi.yaml"
            )
        return main.parent, main.name


@dataclass(frozen=True)
class ProgramCommand:
    """How a program is started: arguments, the variables of its process, and its folder."""

    arguments: Sequence[str]
    variables: Mapping[str, str]
    folder: Path
