"""The file of a stack's settings on both sides of a comparison: each side's project says where it is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpufleet.boundary import read_text
from gpufleet.cost.inputs.gate_file import GateFileReader, GateRepository, refuse_links_in_repository
from gpufleet.cost.inputs.program.allowlist import find_declared_stack_file, find_stack_file
from gpufleet.cost.inputs.program.gitref import is_tracked
from gpufleet.engine.project_file import PROJECT_FILE


@dataclass(frozen=True)
class ComparedStackFile:
    """The place and the text of a stack's file, and its text at the base; a text is empty if there is no such file.

    ``config_file`` and ``base_config`` are what a program must be given, because the files of its project that it sees
    do not have it: a file that the user names, or one in another folder of the repository.
    """

    path: Path
    text: str
    base_text: str
    config_file: Path | None
    base_config: str | None
    is_elsewhere: bool

    def list_changes(self) -> frozenset[str]:
        """Return the file's name if it differs and is not among the project's own files, whose changes git lists."""
        return frozenset({self.path.name} if self.is_elsewhere and self.text != self.base_text else ())


def find_compared_stack_file(
    gate: GateFileReader, root: Path, stack: str, config_file: Path | None
) -> ComparedStackFile:
    """Return the file of a stack; ``config_file`` is used in its place, at the base if it is there."""
    path = _absolute(config_file or find_stack_file(root, stack))
    is_elsewhere = not path.is_relative_to(_absolute(root))
    base_text, base_config = _read_at_base(gate.repository, root, stack, config_file)
    if config_file is None and is_elsewhere and _is_in_repository(gate.repository, path):
        refuse_links_in_repository(path)
        config_file = path
    text = read_text(path) if path.is_file() else ""
    return ComparedStackFile(path, text, base_text, config_file, base_config, is_elsewhere)


def _read_at_base(
    repository: GateRepository | None, root: Path, stack: str, config_file: Path | None
) -> tuple[str, str | None]:
    """Return the text at the base, and the same again if a program there must be given it."""
    if repository is None:
        return "", None
    named = repository.read_at_base(config_file) if config_file else None
    if named is not None:
        return named, named
    project_text = repository.read_at_base(root / PROJECT_FILE) or ""
    path = _absolute(find_declared_stack_file(root, stack, project_text))
    text = repository.read_at_base(path)
    return text or "", None if path.is_relative_to(_absolute(root)) else text


def _is_in_repository(repository: GateRepository | None, path: Path) -> bool:
    return (
        repository is not None
        and repository.relative_path(path) is not None
        and is_tracked(repository.top, path)
    )


def _absolute(path: Path) -> Path:
    """Return a path without ``..``; unlike resolve(), no link of a branch is followed."""
    return Path(os.path.abspath(path))  # noqa: PTH100
