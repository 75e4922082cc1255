"""Which Python evaluates a project: never one that the branch under evaluation brings or chooses for the base."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpufleet import boundary
from gpufleet.cost.inputs.program import allowlist
from gpufleet.cost.inputs.program.gitref import is_tracked, read_git_file
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.engine import read_project_setting
from gpufleet.errors import InputError

SETTING = ("runtime", "options", "virtualenv")

_log = logging.getLogger(__name__)


def choose_python(
    base: StackProgram | None, program: StackProgram, variables: Mapping[str, str]
) -> Path | None:
    """Return the Python of the project's virtual environment, None if it is this one.

    With a base, the base names the environment; the same one evaluates both. Without one, ``program`` names it, and
    it must be in the program's repository or be the active one, ``VIRTUAL_ENV``.
    """
    own_name = _read_setting(program.root)
    if base is None or base.tree is None:
        return _find_python(program, own_name, variables, is_base=False)
    content = read_git_file(base.root, base.tree, "Pulumi.yaml")
    if content is None:  # a new project: nothing is evaluated at the base
        return _find_python(program, own_name, variables, is_base=False)
    name = _parse_setting(content)
    if base is not program and own_name != name:
        _warn(f"the working tree sets virtualenv to {own_name or 'nothing'}; {base.label} sets it to "
              f"{name or 'nothing'}, and that evaluates both")  # fmt: skip
    return _find_python(program, name, variables, is_base=True)


def _find_python(
    program: StackProgram, name: str, variables: Mapping[str, str], *, is_base: bool
) -> Path | None:
    if not name:
        return None
    folder = Path(os.path.abspath(program.root.resolve() / name))  # noqa: PTH100 - a link is not followed yet
    real = Path(os.path.realpath(folder))
    if real == Path(sys.prefix).resolve():
        return None
    problem = "" if (real / "bin" / "python").exists() else "it has no bin/python"
    if not problem and not program.trusted:
        problem = _find_problem(program.root.resolve(), folder, real, variables, is_base=is_base)
    if problem:
        _warn(f"virtualenv {name} is not used: {problem}")
        return None
    return real / "bin" / "python"


def _find_problem(
    root: Path, folder: Path, real: Path, variables: Mapping[str, str], *, is_base: bool
) -> str:
    """Return why a folder may not evaluate a program, empty if it may."""
    marker = real / "pyvenv.cfg"
    if marker.is_symlink() or not marker.is_file():
        return "it has no pyvenv.cfg"
    if not allowlist.is_apart_from_home(real):
        return "it is a home folder"
    top = allowlist.find_repository(root)
    if top:
        for place in {folder, real}:
            if place.is_relative_to(top) and _comes_with_repository(top, place):
                return "git tracks it, or a part of its path"
    active = variables.get("VIRTUAL_ENV")
    if is_base or folder.is_relative_to(top or root) or (active and real == Path(os.path.realpath(active))):
        return ""
    return "it is outside of the project; activate it, or install gpufleet into it"


def _comes_with_repository(top: Path, folder: Path) -> bool:
    """Return whether git tracks a folder in any way: files in it, a link on the way to it, a repository in it."""
    places = [folder, *(above for above in folder.parents if above != top and above.is_relative_to(top))]
    if folder == top or any(os.path.lexists(place / ".git") for place in places):
        return True
    return any(place.is_symlink() for place in places[1:]) or is_tracked(top, folder)


def _read_setting(root: Path) -> str:
    """Return the setting of the working tree, empty if the file is unreadable: the evaluation reports the error."""
    with suppress(InputError):
        return read_project_setting(root, *SETTING)
    return ""


def _parse_setting(content: bytes) -> str:
    """Return the setting of a project's file; the reader takes a tenth of a second to load."""
    if SETTING[-1].encode() not in content:
        return ""
    with suppress(InputError):
        value: Any = boundary.decode_yaml(boundary.decode_text(content, "Pulumi.yaml"), "Pulumi.yaml")
        for key in SETTING:
            value = value.get(key) if isinstance(value, dict) else None
        return value if isinstance(value, str) else ""
    return ""


def _warn(text: str) -> None:
    _log.warning("warning: %s", boundary.make_printable(text))
