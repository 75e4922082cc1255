"""The language of a program, and the settings of its file that decide how it is started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.boundary import decode_text, read_text
from gpufleet.cost.inputs.program.gitref import read_git_file
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.engine.project_file import PROJECT_FILE
from gpufleet.errors import InputError


@dataclass(frozen=True)
class ProgramRuntime:
    """A language as ``runtime`` of Pulumi.yaml names it, ``main``, and the texts among the options of ``runtime``."""

    name: str = ""
    main: str = "."
    binary: str = ""


def read_program_runtime(program: StackProgram, name: str) -> ProgramRuntime | None:
    """Return the settings of a program if it is in the language ``name``; an unreadable file is reported later."""
    from gpufleet.boundary import decode_yaml  # 60 ms, while the child starts

    with suppress(InputError, OSError):
        text = _read_project_file(program)
        document: Any = decode_yaml(text, PROJECT_FILE) if name in text else None
        runtime = document.get("runtime") if isinstance(document, dict) else None
        options = runtime.get("options") if isinstance(runtime, dict) else None
        found = runtime.get("name") if isinstance(runtime, dict) else runtime
        if found == name:
            binary = options.get("binary") if isinstance(options, dict) else None
            main = document.get("main")
            return ProgramRuntime(
                name, main if isinstance(main, str) else ".", binary if isinstance(binary, str) else ""
            )
    return None


def _read_project_file(program: StackProgram) -> str:
    if program.tree is not None:
        return decode_text(read_git_file(program.root, program.tree, PROJECT_FILE) or b"", PROJECT_FILE)
    path: Path = program.root / PROJECT_FILE
    return read_text(path) if path.is_file() else ""


def describe_go(variables: Mapping[str, str]) -> str:
    """Return which Go builds a program, as its installation says; empty if that is not known."""
    found = shutil.which("go", path=variables.get("PATH"))
    version = Path(os.path.realpath(found)).parents[1] / "VERSION" if found else None
    return f"{version}\n{read_text(version)}" if version and version.is_file() else ""
