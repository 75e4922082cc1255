"""Write the list of variable names that roles, plays and the inventory use: `python -m tools.role_variables`.

The task that checks the settings of all roles reads it. A test says when it is due.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.variable_names import (
    COLLECTION,
    INTERNAL_MARK,
    LIST_FILE,
    OTHER_VARIABLES,
    SHARED_PREFIX,
)
from gpufleet.nodes.host import VARIABLE_FIELDS

ROLES = COLLECTION / "roles"
PLAYBOOKS = COLLECTION / "playbooks"
PACKAGE = COLLECTION.parents[2] / "gpufleet"
HEADER = f"""\
# Written by tools/role_variables.py: the settings, and after {INTERNAL_MARK.strip()!r} every other name that is in use.
"""
# The names of filters (gpufleet.fleet.NAME) are not variables.
NAME = r"(?<![\w/-])(?<!fleet\.)((?:{})_[a-z0-9_]*[a-z0-9])(?!\w)"


def format_list() -> str:
    """Return the text of the list."""
    settings = list_settings()
    lines = [*sorted(settings), *(f"{INTERNAL_MARK}{name}" for name in sorted(list_names() - settings))]
    return HEADER + "".join(f"{line}\n" for line in lines)


def list_settings() -> set[str]:
    """Return the documented options of all roles, and the variables with our own prefix of plays and inventory."""
    settings = {OTHER_VARIABLES, *(f"{SHARED_PREFIX}_{field}" for field in VARIABLE_FIELDS)}
    for role in list_roles():
        spec = yaml.safe_load((ROLES / role / "meta/argument_specs.yml").read_text())
        for entry in spec["argument_specs"].values():
            settings.update(entry.get("options") or {})
    return settings | set(find_names([SHARED_PREFIX], [ROLES, PLAYBOOKS], (".yml",)))


def list_names() -> set[str]:
    """Return every name with one of our prefixes that a role, a play or the package mentions."""
    names = set(find_names([SHARED_PREFIX, *list_roles()], [ROLES, PLAYBOOKS], (".yml", ".j2")))
    return names | set(find_names([SHARED_PREFIX], [PACKAGE, COLLECTION / "plugins"], (".py",)))


def list_roles() -> list[str]:
    """Return the names of the roles, the longest first."""
    return sorted((folder.name for folder in ROLES.iterdir() if folder.is_dir()), key=len, reverse=True)


def find_names(prefixes: list[str], folders: list[Path], suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yield the names with one of these prefixes in the files of these folders."""
    pattern = re.compile(NAME.format("|".join(prefixes)))
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if file.suffix in suffixes and file.is_file():
                yield from pattern.findall(file.read_text(encoding="utf-8"))


def main() -> None:
    """Write the list."""
    LIST_FILE.write_text(format_list(), encoding="utf-8")


if __name__ == "__main__":
    main()
