"""Rack files on disk: the fast parser first; the slower one that knows line numbers only for errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from gpufleet import catalog
from gpufleet.boundary import decode_yaml, decode_yaml_subset, read_text
from gpufleet.errors import InputError
from gpufleet.fleet.document import SpecProblem, YamlDocument, find_ambiguous_numbers, read_yaml_document
from gpufleet.fleet.error_explanation import explain_validation_errors
from gpufleet.fleet.node_hardware import NodeHardware
from gpufleet.fleet.partial_model import build_partial_model, find_model_problems
from gpufleet.fleet.rack import Rack

RACK_PLUGIN = "gpufleet.fleet.rack"
_MAX_CACHED = 4096  # rack files whose content is remembered within a process


def load_rack(path: Path, root: Path | None = None) -> Rack:
    """Return what a rack file declares; what is wrong is one line with file, line and key."""
    label = project_relative_path(path, root or Path.cwd())
    return _load_rack(path, label, read_text(path, where=label))


def load_racks(folder: Path, root: Path | None = None, *, skip_broken: bool = False) -> dict[Path, Rack]:
    """Return the racks of an inventory folder by file, in the order of names; each file is read once.

    Other YAML files there are left to Ansible. One that is not YAML, or looks like a rack but has no ``plugin`` line,
    is an InputError, as is a rack with a mistake; ``skip_broken`` leaves those out.
    """
    racks: dict[Path, Rack] = {}
    for path, label in _yaml_files(folder, root):
        try:
            rack = find_rack(path, label)
            if rack:
                racks[path] = rack
        except InputError:
            if not skip_broken:
                raise
    return racks


def find_rack(path: Path, label: str) -> Rack | None:
    """Return the rack that a YAML file declares, None for another file of Ansible's."""
    text = read_text(path, where=label)
    return _load_rack(path, label, text) if _is_rack(text, label) else None


def is_rack_file_candidate(path: Path) -> bool:
    """Return True if a file looks like a rack file, however broken it is: for remedies that name racks."""
    return f"plugin: {RACK_PLUGIN}" in path.read_text(encoding="utf-8", errors="replace")


def list_rack_file_names(root: Path) -> list[str]:
    """Return the names of the project's rack files, broken ones included."""
    files = (root / "inventory").glob("*.yaml")
    return sorted(file.stem for file in files if is_rack_file_candidate(file))


def project_relative_path(path: Path, root: Path) -> str:
    """Return a path as the user would type it in the project."""
    try:
        return str(path.resolve().relative_to(root.resolve()))
    except ValueError:
        return str(path)


def _yaml_files(folder: Path, root: Path | None) -> Iterator[tuple[Path, str]]:
    """Yield the YAML files of a folder, each with its label; symbolic links of the folder are followed once."""
    prefix = project_relative_path(folder, root or folder.parent)
    for path in sorted(folder.glob("*.y*ml")):
        yield path, f"{prefix}/{path.name}"


# The key is the content itself, so that an answer is never stale. Nobody changes what is read.
_decode_values = lru_cache(maxsize=_MAX_CACHED)(decode_yaml_subset)


def _is_rack(text: str, label: str) -> bool:
    data = _decode_values(text)
    if data is None:
        try:
            data = decode_yaml(text, label)
        except InputError as error:
            raise InputError(
                error.problem.replace("is not valid YAML:", "is not YAML:"),
                where=error.where,
                remedy=error.remedy,
            ) from None
    if not isinstance(data, Mapping):
        return False
    if "plugin" not in data and {"nodes", "machine"} <= data.keys():
        raise InputError("is missing", where=label, key="plugin", remedy=f"begin with plugin: {RACK_PLUGIN}")
    return data.get("plugin") == RACK_PLUGIN


def _load_rack(path: Path, label: str, text: str) -> Rack:
    rack = _decode(text, path.stem)
    if rack is not None:
        return rack
    return _load_with_lines(path, label)


@lru_cache(maxsize=_MAX_CACHED)
def _decode(text: str, stem: str) -> Rack | None:
    """Return a rack from its file's text, or None where anything in it is unusual or wrong."""
    try:
        rack = Rack.model_validate(_decode_values(text))
    except ValidationError:
        return None
    return None if rack.name != stem or _machine_problems(rack) else rack


def _load_with_lines(path: Path, label: str) -> Rack:
    document = read_yaml_document(path, label)
    data = document.plain_data
    problems = list(find_ambiguous_numbers(document.node))
    try:
        rack = Rack.model_validate(data)
    except ValidationError as error:
        problems += explain_validation_errors(error, Rack, data)
        if not isinstance(data, dict):
            document.raise_first_problem(problems)
        rack = build_partial_model(Rack, data, error)
        problems = list(dict.fromkeys([*problems, *find_model_problems(rack)]))
    try:
        problems += _machine_problems(rack)
    except (AttributeError, ValidationError):
        if not problems:
            raise
    if getattr(rack, "name", path.stem) != path.stem:
        problems.append(_name_problem(rack, path))
    document.raise_first_problem(problems)
    return rack


def _name_problem(rack: Rack, path: Path) -> SpecProblem:
    return SpecProblem(
        ("name",),
        f"the rack's name is {rack.name!r}, but the file is called {path.name}",
        f"set {path.stem!r}",
    )


def _machine_problems(rack: Rack) -> list[SpecProblem]:
    """Return a problem for every machine of a rack that is unknown, or has built-in cards besides the declared ones.

    A server may be custom-built: then its accelerators must be declared, or its cores and memory if it has none.
    """
    declared_machines: list[tuple[tuple[str | int, ...], str, bool, NodeHardware]] = (
        [(("machine",), rack.machine, bool(rack.accelerators), rack.hardware)] if rack.machine else []
    )
    for index, entry in enumerate(rack.entries):
        if entry.machine:
            cards = rack.accelerators if entry.accelerators is None else entry.accelerators
            hardware = entry.hardware.with_defaults_from(rack.hardware) if entry.hardware else rack.hardware
            declared_machines.append((("nodes", index, "machine"), entry.machine, bool(cards), hardware))
    problems = []
    for key, name, has_accelerators, hardware in declared_machines:
        try:
            machine = catalog.get_machine(name, "onprem")
        except InputError as error:
            is_described = has_accelerators or (hardware.vcpus and hardware.memory_gib)
            if rack.kind != "servers" or not is_described:
                problems.append(
                    SpecProblem(key, error.problem, _explain_custom_server(error.remedy, rack.kind, key))
                )
            continue
        if rack.kind == "servers" and has_accelerators and machine.accelerators:
            built_in = ", ".join(f"{card.count} x {card.model}" for card in machine.accelerators)
            problem = f"{name} brings {built_in} already; accelerators would be added to them"
            problems.append(
                SpecProblem(key, problem, "remove accelerators, or give your server its own machine name")
            )
    return problems


def _explain_custom_server(suggestion: str, kind: str, key: tuple[str | int, ...]) -> str:
    """Return the remedy for an unknown machine: a known one, or the keys that describe a custom server."""
    place = "on the same node" if key[0] == "nodes" else "at the rack, or set machine on the nodes"
    set_kind = "" if kind == "servers" else "set kind: servers and "
    keys = "its accelerators, or hardware.vcpus and hardware.memory_gib"
    return f"{suggestion}; for a custom server {set_kind}declare {keys}, {place}"


def read_rack_document(path: Path, root: Path) -> YamlDocument:
    """Return a rack file with the line of every key, for errors that concern several files."""
    return read_yaml_document(path, project_relative_path(path, root))
