"""Which Python evaluates a project: never one that the branch under evaluation brings or chooses for the base."""

from __future__ import annotations

import base64
import glob
import hashlib
import logging
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet import boundary
from gpufleet.cost.inputs.program import allowlist
from gpufleet.cost.inputs.program.gitref import is_tracked, read_git_file
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.errors import InputError

OPTIONS = ("runtime", "options")
POETRY_CACHE = ".cache/pypoetry"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Setting:
    """What a project's file says about its Python, and the name that its ``pyproject.toml`` gives it."""

    virtualenv: str = ""
    toolchain: str = ""
    project: str = ""

    def describe(self) -> str:
        return self.virtualenv or (f"that of {self.toolchain}" if self.toolchain else "nothing")


def choose_python(
    base: StackProgram | None, program: StackProgram, variables: Mapping[str, str]
) -> Path | None:
    """Return the Python of the project's virtual environment, None if it is this one.

    With a base, the base names the environment; the same one evaluates both. Without one, ``program`` names it, and
    it must be in the program's repository or be the active one, ``VIRTUAL_ENV``. A project that names none, nor a
    toolchain, is evaluated by the active environment if that has Pulumi, as the engine does it.
    """
    own = _read_working_tree(program.root)
    if base is None or base.tree is None:
        return _find_python(program, own, variables, is_base=False)
    content = read_git_file(base.root, base.tree, "Pulumi.yaml")
    if content is None:  # a new project: nothing is evaluated at the base
        return _find_python(program, own, variables, is_base=False)
    setting = _parse_setting(content, read_git_file(base.root, base.tree, "pyproject.toml") or b"")
    if base is not program and own.describe() != setting.describe():
        _warn(f"the working tree sets virtualenv to {own.describe()}; {base.label} sets it to "
              f"{setting.describe()}, and that evaluates both")  # fmt: skip
    return _find_python(program, setting, variables, is_base=True)


def _find_python(
    program: StackProgram, setting: _Setting, variables: Mapping[str, str], *, is_base: bool
) -> Path | None:
    root = program.root.resolve()
    name = setting.virtualenv
    located = None if name else _locate_environment(root, setting, variables)
    if not name and not located:
        return None
    folder = located or Path(os.path.abspath(root / name))  # noqa: PTH100 - a link is not followed yet
    name = name or str(folder)
    real = Path(os.path.realpath(folder))
    if real == Path(sys.prefix).resolve():
        return None
    problem = "" if (real / "bin" / "python").exists() else "it has no bin/python"
    if not problem and not program.trusted:
        problem = _find_problem(root, folder, real, variables, is_base=is_base or located is not None)
    if problem:
        _warn(f"virtualenv {name} is not used: {problem}; the Python of this command evaluates the program")
        return None
    return real / "bin" / "python"


def _locate_environment(root: Path, setting: _Setting, variables: Mapping[str, str]) -> Path | None:
    """Return the environment of a project that names none: its toolchain's, else the active one if it has Pulumi.

    uv (https://www.pulumi.com/docs/iac/languages-sdks/python/) keeps it next to the nearest uv.lock or pyproject.toml
    above, poetry in the project's ``.venv`` or in its cache.
    """
    candidates: list[Path] = []
    if setting.toolchain == "uv":
        above = (root, *root.parents)
        marked = [
            folder for name in ("uv.lock", "pyproject.toml") for folder in above if (folder / name).is_file()
        ]
        candidates = [(marked[0] if marked else root) / ".venv"]
    elif setting.toolchain == "poetry":
        home = Path(variables.get("HOME", "/"))
        cache = Path(variables.get("POETRY_CACHE_DIR", home / POETRY_CACHE))
        folder = Path(variables.get("POETRY_VIRTUALENVS_PATH", cache / "virtualenvs"))
        pattern = f"{glob.escape(name_poetry_environment(setting.project, root))}-py*"
        candidates = [root / ".venv", *sorted(folder.glob(pattern), reverse=True)]
    active = variables.get("VIRTUAL_ENV")
    if active and not candidates and any(Path(active).glob("lib/python3*/site-packages/pulumi")):
        candidates = [Path(active)]
    return next((folder for folder in candidates if folder.is_dir()), None)


def name_poetry_environment(project: str, root: Path) -> str:
    """Return the name that poetry (2.5) gives a project's environment, before ``-py3.11``."""
    name = re.sub(r"[-_.]+", "-", project).lower()
    name = re.sub(r'[ $`!*@"\\\r\n\t]', "_", name)[:42]
    digest = hashlib.sha256(os.fsencode(os.path.realpath(root))).digest()
    return f"{name}-{base64.urlsafe_b64encode(digest).decode()[:8]}"


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


def _read_working_tree(root: Path) -> _Setting:
    """Return the setting of the working tree, empty if the file is unreadable: the evaluation reports the error."""
    contents = []
    for name in ("Pulumi.yaml", "pyproject.toml"):
        with suppress(InputError):
            contents.append(boundary.read_text(root / name).encode() if (root / name).is_file() else b"")
    return _parse_setting(*contents) if len(contents) == 2 else _Setting()  # noqa: PLR2004 - both


def _parse_setting(content: bytes, pyproject: bytes) -> _Setting:
    """Return the setting of a project's file; the reader takes a tenth of a second to load."""
    if b"options" not in content and b"\\" not in content:
        return _Setting()
    options: Any = None
    project = ""
    with suppress(InputError):
        options = boundary.decode_yaml(boundary.decode_text(content, "Pulumi.yaml"), "Pulumi.yaml")
        for key in OPTIONS:
            options = options.get(key) if isinstance(options, dict) else None
        project = _parse_project_name(boundary.decode_text(pyproject, "pyproject.toml"))
    names = options if isinstance(options, dict) else {}
    texts = {key: str(names[key]) for key in ("virtualenv", "toolchain") if isinstance(names.get(key), str)}
    return _Setting(**texts, project=project)


def _parse_project_name(text: str) -> str:
    """Return the name in a ``pyproject.toml``: of its table ``project``, else of ``tool.poetry``."""
    tables = re.split(r"^\[", text, flags=re.MULTILINE)
    for header in ("project]", "tool.poetry]"):
        for table in tables:
            if table.startswith(header) and (
                name := re.search(r"""^name\s*=\s*["']([^"']*)""", table, re.MULTILINE)
            ):
                return name[1]
    return ""


def _warn(text: str) -> None:
    _log.warning("warning: %s", boundary.make_printable(text))
