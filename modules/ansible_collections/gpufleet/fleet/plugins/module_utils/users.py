# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""Users of a host: made, changed or removed by the host's own useradd, usermod and userdel, only where one differs."""

from __future__ import annotations

import pwd
import re
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.module_utils.files import FileEntry
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    AnsibleDiff,
    HostError,
    build_diff_entry,
    first_nonempty_line,
    run_program,
)


class UserEntry(TypedDict):
    """One entry of the option ``users``; None leaves a property unchanged."""

    name: str
    comment: str | None
    shell: str | None
    authorized_keys: list[str]
    revoked_keys: list[str]
    state: str


def user_argument_spec() -> dict[str, Any]:
    """Return the argument specification of the part ``users``."""
    texts = {"type": "list", "elements": "str", "default": []}
    entry = {
        "name": {"type": "str", "required": True},
        "comment": {"type": "str"},
        "shell": {"type": "str"},
        "authorized_keys": {**texts, "no_log": False},  # public keys
        "revoked_keys": {**texts, "no_log": False},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    }
    return {"type": "list", "elements": "dict", "default": [], "options": entry}


def find_user_account(user_name: str) -> pwd.struct_passwd | None:
    """Return the user's entry, or None."""
    try:
        return pwd.getpwnam(user_name)
    except KeyError:
        return None


def build_user_command(entry: UserEntry) -> list[str] | None:
    """Return the command line that creates, changes or removes a user; None if nothing differs."""
    name, account = entry["name"], find_user_account(entry["name"])
    if entry["state"] == "absent":
        return ["userdel", name] if account else None
    options = []
    if entry["comment"] is not None and (account is None or account.pw_gecos != entry["comment"]):
        options += ["-c", entry["comment"]]
    if entry["shell"] is not None and (account is None or account.pw_shell != entry["shell"]):
        options += ["-s", entry["shell"]]
    if account is None:
        return ["useradd", "-m", *options, name]
    return ["usermod", *options, name] if options else None


def authorized_key_files(entries: list[UserEntry]) -> list[FileEntry]:
    """Return the users' .ssh folders and authorized_keys as entries of ``files``; none for a user without keys."""
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


def describe_user(user_name: str) -> str:
    """Return a user as a line of the diff."""
    account = find_user_account(user_name)
    return f"{user_name}: {account.pw_gecos}, {account.pw_shell}\n" if account else ""


def apply_user_entries(entries: list[UserEntry], check_mode: bool) -> tuple[list[str], list[AnsibleDiff]]:
    """Create, change or remove the users; return the names of the changed ones and the diffs."""
    changed, diffs = [], []
    for entry in entries:
        argv = build_user_command(entry)
        if argv is None:
            continue
        name, before = entry["name"], describe_user(entry["name"])
        after = "" if entry["state"] == "absent" else f"{name}: {entry['comment']}, {entry['shell']}\n"
        if not check_mode:
            status, out, err = run_program(argv)
            if status != 0:
                raise HostError(f"{argv[0]} {name}: {first_nonempty_line(err, out)}", user=name)
            after = describe_user(name)
        changed.append(name)
        diffs.append(build_diff_entry(f"user {name}", before, after))
    return changed, diffs
