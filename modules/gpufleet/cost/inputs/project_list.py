"""Read the list of a repository's Pulumi projects, ``gpufleet-cost.yaml``.

    name: acme                     # of all together, in the report; default: the folder's name
    policy: cost/policy.yaml       # limits of all projects together; paths are relative to this file
    projects:
      - {path: infra/network, stack: production}
      - {name: cluster, path: infra/cluster, stack: production, usage: cost/cluster-usage.yaml}

The file may come from a pull request: every path in it must be in the repository.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from gpufleet.boundary import (
    decode_yaml_with_line_numbers,
    format_key_location,
    read_text,
    shorten_repr,
)
from gpufleet.cost.inputs.gate_file import (
    GateFileReader,
    describe_link,
    find_link_in_repository,
    refuse_links_in_repository,
)
from gpufleet.cost.inputs.program.allowlist import find_repository
from gpufleet.cost.inputs.program.gitref import is_tracked
from gpufleet.cost.inputs.stack_name import parse_stack_name
from gpufleet.errors import InputError

LIST_KEYS = ("name", "policy", "projects")
PROJECT_KEYS = ("name", "path", "stack", "config_file", "usage")
MAX_PROJECTS = 100
MAX_PATH_CHARACTERS = 1000


@dataclass(frozen=True)
class ProjectEntry:
    """One project and its stack; ``name`` is its heading in the report."""

    name: str
    root: Path
    stack: str
    config_file: Path | None = None
    usage: Path | None = None


@dataclass(frozen=True)
class ProjectList:
    """The projects of a repository, and the policy of all together; ``is_policy_new`` if only the branch names it."""

    name: str
    projects: tuple[ProjectEntry, ...]
    policy: Path | None = None
    file: Path | None = None
    is_policy_new: bool = False


def find_removed_projects(projects: ProjectList, gate: GateFileReader) -> list[str]:
    """Return the projects, PATH (STACK), that only the list at the base has; none without such a list."""
    current = {(entry.root, entry.stack) for entry in projects.projects}
    return [
        f"{item['path']} ({item['stack']})"
        for key, item in _index_entries(_read_base_list(projects, gate), projects, gate).items()
        if key not in current
    ]


def with_gate_files_of_base(projects: ProjectList, gate: GateFileReader) -> ProjectList:
    """Return the list with the policy and the usage files that the list at the base names.

    A branch must not choose its own limits: a usage file that only its list names does not apply. Such a policy does,
    because its limits forbid more.
    """
    data, path = _read_base_list(projects, gate), projects.file
    if path is None or gate.repository is None:
        return projects
    if not data:
        gate.warn(f"{path.name} has no list at {gate.base}: that of this branch applies")
    policy = _resolve_gate_path(data, "policy", path) if "policy" in data else projects.policy
    if policy != projects.policy:
        gate.warn(f"this branch changes the policy of {path.name}: that of the base applies")
    base_entries = _index_entries(data, projects, gate)
    entries = []
    for entry in projects.projects:
        item = base_entries.get((entry.root, entry.stack))
        usage = None if item is None else _resolve_gate_path(item, "usage", path)
        if usage != entry.usage:
            gate.warn(
                f"{entry.name} is not in the list at {gate.base}: its usage file applies when it is merged"
                if item is None
                else f"this branch changes the usage file of {entry.name}: that of the base applies"
            )
        entries.append(replace(entry, usage=usage))
    return replace(projects, policy=policy, projects=tuple(entries), is_policy_new="policy" not in data)


def _read_base_list(projects: ProjectList, gate: GateFileReader) -> Mapping[str, Any]:
    """Return the list as it is at the base, empty if there is none; raise InputError if it is invalid.

    That of the branch in its place would let a branch choose its own limits.
    """
    if projects.file is None or gate.repository is None:
        return {}
    text = gate.repository.read_at_base(projects.file)
    if text is None:
        return {}
    where = f"{projects.file.name} at {gate.repository.base}"
    data = decode_yaml_with_line_numbers(text, where)
    entries = data.get("projects") if isinstance(data, dict) else None
    if not isinstance(entries, list) or not all(map(_names_project, entries)):
        raise InputError("is not a list of projects", where=where, remedy="repair it there first")
    return cast("Mapping[str, Any]", data)


def _index_entries(
    data: Mapping[str, Any], projects: ProjectList, gate: GateFileReader
) -> dict[tuple[Path, str], Mapping[str, Any]]:
    """Return the entries of the base's list by folder and stack; a link of the branch's is not followed."""
    entries: list[Mapping[str, Any]] = data.get("projects", [])
    if projects.file is None or not entries:
        return {}
    folder, where = projects.file.resolve().parent, f"{projects.file.name} at {gate.base}"
    return {
        (
            Path(os.path.abspath(folder / item["path"])),  # noqa: PTH100 - resolve() follows links
            parse_stack_name(item["stack"], where),
        ): item
        for item in entries[:MAX_PROJECTS]
    }


def _names_project(item: Any) -> bool:
    return isinstance(item, dict) and all(isinstance(item.get(key), str) for key in ("path", "stack"))


def load_project_list(path: Path) -> ProjectList:
    """Read a list of projects; raise InputError if it, a project or a stack's file is reached through a link."""
    refuse_links_in_repository(path)
    data = decode_yaml_with_line_numbers(read_text(path), str(path))
    if not isinstance(data, dict) or not isinstance(data.get("projects"), list) or not data["projects"]:
        raise InputError(
            "has no list of projects",
            where=f"{path}:1",
            remedy="projects: [{path: infra, stack: production}]",
        )
    _check_keys(data, LIST_KEYS, path)
    if len(data["projects"]) > MAX_PROJECTS:
        raise InputError(
            f"has more than {MAX_PROJECTS} projects", where=format_key_location(data, "projects", path)
        )
    projects = tuple(_parse_project(item, path) for item in data["projects"])
    names = [project.name for project in projects]
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        where = format_key_location(data, "projects", path)
        raise InputError(f"two projects are named {duplicate!r}", where=where, remedy="add `name: …`")
    name = _read_text(data, "name", path, path.resolve().parent.name)
    project_list = ProjectList(name, projects, _resolve_gate_path(data, "policy", path), path)
    _require_tracked_files(project_list, path.resolve())
    return project_list


def _require_tracked_files(projects: ProjectList, path: Path) -> None:
    """Refuse a file that git does not track, in a list that it does: a branch's list must not show what is private."""
    repository = find_repository(path.parent)
    if repository is None or not is_tracked(repository, path):
        return
    files = [
        projects.policy,
        *(file for each in projects.projects for file in (each.config_file, each.usage)),
    ]
    for file in files:
        if file is not None and not is_tracked(repository, file):
            problem = f"names {shorten_repr(os.path.relpath(file, path.parent))}, which git does not track"
            raise InputError(problem, where=str(path), remedy="git add that file")


def _parse_project(item: Any, path: Path) -> ProjectEntry:
    if not isinstance(item, dict):
        raise InputError(
            f"{shorten_repr(item)} is not a project", where=str(path), remedy="{path: …, stack: …}"
        )
    _check_keys(item, PROJECT_KEYS, path)
    for key in ("path", "stack"):
        if key not in item:
            raise InputError(
                "is missing",
                where=format_key_location(item, next(iter(item), ""), path),
                key=key,
                remedy=f"{key}: …",
            )
    root = _resolve_path(item, "path", path, may_be_link=False)
    if not (root / "Pulumi.yaml").is_file():
        raise InputError(
            "has no Pulumi.yaml", where=format_key_location(item, "path", path), key=str(item["path"])
        )
    return ProjectEntry(
        _read_text(item, "name", path, str(item["path"]).strip("/")),
        root,
        parse_stack_name(_read_text(item, "stack", path), format_key_location(item, "stack", path)),
        _resolve_optional_path(item, "config_file", path),
        _resolve_gate_path(item, "usage", path),
    )


def _check_keys(data: Mapping[Any, Any], known: tuple[str, ...], path: Path) -> None:
    for key in data:
        if key not in known:
            remedy = f"keys: {', '.join(known)}"
            raise InputError(
                "unknown key", where=format_key_location(data, key, path), key=str(key), remedy=remedy
            )


def _read_text(data: Mapping[Any, Any], key: str, path: Path, default: str = "") -> str:
    value = data.get(key, default)
    if not isinstance(value, str) or not value.strip():
        where = format_key_location(data, key, path) if key in data else str(path)
        raise InputError(f"{shorten_repr(value)} is not a name", where=where, key=key)
    return str(value).strip()


def _resolve_optional_path(data: Mapping[Any, Any], key: str, path: Path) -> Path | None:
    return _resolve_path(data, key, path, may_be_link=False) if key in data else None


def _resolve_gate_path(data: Mapping[Any, Any], key: str, path: Path) -> Path | None:
    """Return the path of a file that decides the verdict, as it is written: a branch may make it a link."""
    if key not in data:
        return None
    _resolve_path(data, key, path)
    return Path(os.path.abspath(path.parent / str(data[key]).strip()))  # noqa: PTH100 - resolve() follows links


def _resolve_path(data: Mapping[Any, Any], key: str, path: Path, *, may_be_link: bool = True) -> Path:
    """Return a path relative to the list; raise InputError if it leaves the repository."""
    folder = path.resolve().parent
    text = _read_text(data, key, path)
    if len(text) > MAX_PATH_CHARACTERS or not text.isprintable():
        raise InputError(
            f"{shorten_repr(text)} is not a path", where=format_key_location(data, key, path), key=key
        )
    try:
        resolved = (folder / text).resolve()
        resolved.exists()
    except (OSError, RuntimeError) as error:  # a name too long, links in a circle
        problem = f"{shorten_repr(text)} is not a path: {error}"
        raise InputError(problem, where=format_key_location(data, key, path), key=key) from None
    repository = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)
    if not resolved.is_relative_to(repository):
        problem = f"{shorten_repr(str(data[key]))} is outside the repository"
        raise InputError(problem, where=format_key_location(data, key, path), key=key)
    if not may_be_link and (link := find_link_in_repository(folder / text)):
        problem, remedy = describe_link(link)
        raise InputError(problem, where=format_key_location(data, key, path), key=text, remedy=remedy)
    return resolved
