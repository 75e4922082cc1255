# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Users of a host: made, changed or removed by the host's own useradd, usermod and userdel, only where one differs."""

from __future__ import annotations

import grp
import pwd
import re
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.module_utils.files import FileEntry
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    Diff,
    HostError,
    diff_entry,
    first_line,
    run,
)


class UserEntry(TypedDict):
    """One entry of the option ``users``; None leaves a thing as it is."""

    name: str
    comment: str | None
    shell: str | None
    groups: list[str]
    authorized_keys: list[str]
    revoked_keys: list[str]
    system: bool
    state: str


def argument_spec() -> dict[str, Any]:
    """Return the argument specification of the part ``users``."""
    texts = {"type": "list", "elements": "str", "default": []}
    entry = {
        "name": {"type": "str", "required": True},
        "comment": {"type": "str"},
        "shell": {"type": "str"},
        "groups": texts,
        "authorized_keys": texts,
        "revoked_keys": texts,
        "system": {"type": "bool", "default": False},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    }
    return {"type": "list", "elements": "dict", "default": [], "options": entry}


def find_account(name: str) -> pwd.struct_passwd | None:
    """Return the user's entry, or None."""
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def missing_groups(entry: UserEntry) -> list[str]:
    """Return the wanted groups that the user is not in; unknown ones too."""
    member = {group.gr_name for group in grp.getgrall() if entry["name"] in group.gr_mem}
    return [name for name in entry["groups"] if name not in member]


def user_command(entry: UserEntry) -> list[str] | None:
    """Return the command line that brings a user to what is wanted, or None."""
    name, now = entry["name"], find_account(entry["name"])
    if entry["state"] == "absent":
        return ["userdel", name] if now else None
    options = []
    if entry["comment"] is not None and (now is None or now.pw_gecos != entry["comment"]):
        options += ["-c", entry["comment"]]
    if entry["shell"] is not None and (now is None or now.pw_shell != entry["shell"]):
        options += ["-s", entry["shell"]]
    if groups := missing_groups(entry):
        options += ["-G", ",".join(groups)] if now is None else ["-a", "-G", ",".join(groups)]
    if now is None:
        return ["useradd", *(["--system"] if entry["system"] else []), "-m", *options, name]
    return ["usermod", *options, name] if options else None


def key_files(entries: list[UserEntry]) -> list[FileEntry]:
    """Return the files that hold the users' keys, as entries of ``files``; a user without keys needs none."""
    files: list[FileEntry] = []
    for entry in entries:
        if entry["state"] == "absent" or not (entry["authorized_keys"] or entry["revoked_keys"]):
            continue
        folder: FileEntry = {
            "path": f"~{entry['name']}/.ssh", "state": "directory", "mode": "0700", "owner": entry["name"],
            "group": None, "content": None, "lines": None, "remove": None, "target": None, "validate": None,
        }  # fmt: skip
        revoked = [re.escape(key) for key in entry["revoked_keys"]]
        keys: FileEntry = {
            **folder, "path": f"{folder['path']}/authorized_keys", "state": "lines", "mode": "0600",
            "lines": entry["authorized_keys"], "remove": revoked,
        }  # fmt: skip
        files += [folder, keys]
    return files


def describe_user(name: str) -> str:
    """Return a user as a line of the diff."""
    now = find_account(name)
    return f"{name}: {now.pw_gecos}, {now.pw_shell}\n" if now else ""


def apply(entries: list[UserEntry], check_mode: bool) -> tuple[list[str], list[Diff]]:
    """Bring the users to what is wanted; return their names and the diffs."""
    changed, diffs = [], []
    for entry in entries:
        argv = user_command(entry)
        if argv is None:
            continue
        name, before = entry["name"], describe_user(entry["name"])
        after = "" if entry["state"] == "absent" else f"{name}: {entry['comment']}, {entry['shell']}\n"
        if not check_mode:
            status, out, err = run(argv)
            if status != 0:
                raise HostError(f"{argv[0]} {name}: {first_line(err, out)}", user=name)
            after = describe_user(name)
        changed.append(name)
        diffs.append(diff_entry(f"user {name}", before, after))
    return changed, diffs
