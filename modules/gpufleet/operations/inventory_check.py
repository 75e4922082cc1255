"""Check the files of ``inventory/``: racks, the options of our inventory plugin, and variables of our roles.

Other variables are Ansible's and the user's: they are read as YAML and not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import gpufleet
from gpufleet import fleet
from gpufleet.boundary import (
    decode_plain_yaml,
    decode_yaml_with_line_numbers,
    format_key_location,
    read_text,
    shorten_repr,
)
from gpufleet.errors import InputError

ROLES = Path(gpufleet.__file__).parents[1] / "ansible_collections/gpufleet/fleet/roles"
NODES_PLUGIN = "gpufleet.fleet.nodes"
# Those of plugins/inventory/nodes.py, then those of Ansible's fragments `constructed` and `inventory_cache`.
NODES_OPTIONS = (
    "plugin", "database_url", "include_missing",
    "compose", "groups", "keyed_groups", "leading_separator", "strict", "use_extra_vars",
    "cache", "cache_connection", "cache_plugin", "cache_prefix", "cache_timeout",
)  # fmt: skip
VARIABLE_FOLDERS = ("group_vars", "host_vars")
NOT_PLAIN = ("$ANSIBLE_VAULT", "!vault", "!unsafe")  # only Ansible reads such a file
KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "list": ((list,), "a list"),
    "dict": ((dict,), "a mapping of keys to values"),
}
SIMILAR = 0.85  # a variable of the user's own may begin like one of ours


def list_inventory_files(root: Path) -> list[Path]:
    """Return the YAML files of ``inventory/`` and of its folders of variables."""
    folder = root / "inventory"
    variables = (path for name in VARIABLE_FOLDERS for path in sorted(folder.glob(f"{name}/**/*.y*ml")))
    return [*sorted(folder.glob("*.y*ml")), *variables]


def check_inventory_file(path: Path, root: Path) -> list[InputError]:
    """Return the warnings of a YAML file of ``inventory/``; raise InputError for its mistakes."""
    label = fleet.project_relative_path(path, root)
    text = read_text(path, where=label)
    if any(mark in text for mark in NOT_PLAIN):
        return []
    if path.parent != root / "inventory":
        return _check_variables(text, label)
    rack = fleet.find_rack(path, label)
    if rack:
        return fleet.list_rack_warnings(rack, root)
    _check_plugin_options(text, label)
    return []


def _check_plugin_options(text: str, label: str) -> None:
    options = decode_plain_yaml(text, label) if NODES_PLUGIN in text else None
    if not isinstance(options, dict) or options.get("plugin") != NODES_PLUGIN:
        return
    lines = decode_yaml_with_line_numbers(text, label)
    fleet.raise_first_error([
        InputError(
            f"unknown option {key!r}", where=format_key_location(lines, key, Path(label)),
            remedy=f"options: {', '.join(get_close_matches(str(key), NODES_OPTIONS, n=1) or NODES_OPTIONS)}",
        )
        for key in lines if key not in NODES_OPTIONS
    ])  # fmt: skip


def _check_variables(text: str, label: str) -> list[InputError]:
    lines = decode_yaml_with_line_numbers(text, label)
    if lines is None:
        return []
    if not isinstance(lines, Mapping):
        raise InputError("is not a mapping of variables", where=f"{label}:1", remedy="write name: value")
    errors, warnings = [], []
    for name, value in lines.items():
        options = _find_role_options(str(name))
        where = format_key_location(lines, name, Path(label))
        if name in options:
            errors += [
                InputError(f"is {shorten_repr(value)}", where=where, key=str(name), remedy=f"give {form}")
                for form in _list_wrong_forms(options[name], value)
            ]
        elif close := get_close_matches(str(name), options, n=1, cutoff=SIMILAR):
            problem = f"{name!r} is not a variable of the role {options[close[0]]['role']}"
            warnings.append(InputError(problem, where=where, remedy=f"did you mean {close[0]!r}?"))
    fleet.raise_first_error(errors)
    return warnings


def _list_wrong_forms(option: Mapping[str, Any], value: Any) -> Iterator[str]:
    """Yield what a role's variable must be, if its value is something else; templates are Ansible's to judge."""
    if value is None or (isinstance(value, str) and "{{" in value):
        return
    types, form = KINDS.get(option.get("type", "str"), ((), ""))
    if types and (not isinstance(value, types) or (isinstance(value, bool) and bool not in types)):
        yield form
    elif not isinstance(value, list) and "choices" in option and value not in option["choices"]:
        *others, last = map(str, option["choices"])
        yield f"{', '.join(others)} or {last}"


def _find_role_options(variable: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the options of the role that a variable is named after; empty for other variables."""
    roles = [role.name for role in _list_roles() if variable.startswith(f"{role.name}_")]
    return _read_role_options(max(roles, key=len)) if roles else {}


@cache
def _list_roles() -> tuple[Path, ...]:
    return tuple(path.parents[1] for path in ROLES.glob("*/meta/argument_specs.yml"))


@cache
def _read_role_options(role: str) -> Mapping[str, Mapping[str, Any]]:
    path = ROLES / role / "meta/argument_specs.yml"
    specs = decode_plain_yaml(read_text(path), path.name)["argument_specs"].values()
    return {
        name: {**option, "role": role} for spec in specs for name, option in spec.get("options", {}).items()
    }
