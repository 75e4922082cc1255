# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""A set of small files: what differs, whether the validator accepts it, and its replacement."""

from __future__ import annotations

import grp
import os
import pwd
import re
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.module_utils.json_merge import merge_json_text
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    COMMAND_NOT_FOUND,
    Access,
    AnsibleDiff,
    HostError,
    build_diff_entry,
    replace_file_atomically,
    run_program,
    set_file_access,
)

STATES = ["file", "lines", "json", "directory", "link", "absent"]
DEFAULT_MODES = {"file": 0o644, "lines": 0o644, "json": 0o644, "directory": 0o755}


class FileEntry(TypedDict):
    """One entry of the option ``files``."""

    path: str
    state: str
    content: str | None
    lines: list[str] | None
    remove: list[str] | None
    target: str | None
    mode: str | None
    owner: str
    group: str | None
    validate: list[str] | None


def file_argument_spec() -> dict[str, Any]:
    """Return the argument specification of a list of files."""
    texts = {"type": "list", "elements": "str"}
    entry = {
        "path": {"type": "path", "required": True},
        "state": {"type": "str", "choices": STATES, "default": "file"},
        "content": {"type": "str"},
        "lines": texts,
        "remove": texts,
        "target": {"type": "str"},
        "mode": {"type": "str"},
        "owner": {"type": "str", "default": "root"},
        "group": {"type": "str"},
        "validate": texts,
    }
    needs = [
        ("state", "file", ["content"]),
        ("state", "json", ["content"]),
        ("state", "lines", ["lines"]),
        ("state", "link", ["target"]),
    ]
    return {"type": "list", "elements": "dict", "default": [], "options": entry, "required_if": needs}


def requested_file_text(entry: FileEntry, current_text: str | None) -> str:
    """Return the requested content, given the current one (None: no file)."""
    if entry["state"] == "file":
        return entry["content"] or ""
    if entry["state"] == "json":
        return merge_json_text(entry["content"] or "", current_text, entry["path"])
    required, unwanted = entry["lines"] or [], entry["remove"] or []
    lines = (current_text or "").splitlines()
    merged = [
        line for line in lines if line in required or not any(re.search(rule, line) for rule in unwanted)
    ]
    merged += [line for line in required if line not in merged]
    return "".join(f"{line}\n" for line in merged)


def read_text_if_exists(path: Path) -> str | None:
    """Return the file's text, or None if it does not exist."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return None


def requested_file_access(entry: FileEntry, current_mode: int | None) -> Access:
    """Return the requested mode, user id and group id."""
    if entry["mode"]:
        mode = int(entry["mode"], 8)
    elif entry["state"] in ("lines", "json") and current_mode is not None:
        mode = current_mode  # a part of a file that others manage keeps that file's mode
    else:
        mode = DEFAULT_MODES[entry["state"]]
    user = pwd.getpwnam(entry["owner"])
    return mode, user.pw_uid, grp.getgrnam(entry["group"]).gr_gid if entry["group"] else user.pw_gid


def read_file_access(path: Path) -> Access | None:
    """Return mode, user id and group id, or None if the path does not exist."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_mode & 0o7777, status.st_uid, status.st_gid


class FileChange:
    """The difference between an entry and the file on the host; ``apply`` removes it.

    ``planned_paths`` are the paths that earlier entries create. ``packages_pending`` is True in check mode if packages
    are still to be installed: they may bring a user, a folder or a validator.
    """

    def __init__(
        self, entry: FileEntry, planned_paths: Collection[str] = (), packages_pending: bool = False
    ) -> None:
        self.entry, self.state = entry, entry["state"]
        self.path = Path(os.path.expanduser(entry["path"]))  # noqa: PTH111 - pathlib's raises where no such user is
        self.planned_paths, self.packages_pending = planned_paths, packages_pending
        self.before: str | None = None
        self.after: str | None = None
        self.access: Access | None = None
        if not self.path.is_absolute() and not packages_pending:
            raise HostError(
                f"{entry['path']}: a path must be absolute, or start with ~ and a user of the host"
            )
        try:
            self.is_needed = {"link": self._link_differs, "absent": self._exists}.get(
                self.state, self._content_differs
            )()
        except OSError as error:
            raise HostError(f"cannot read {self.path}: {error.strerror}") from None

    def _link_differs(self) -> bool:
        self.before = str(self.path.readlink()) if self.path.is_symlink() else None
        target = self.after = self.entry["target"] or ""
        if not (
            self.packages_pending or target in self.planned_paths or (self.path.parent / target).exists()
        ):
            raise HostError(f"{self.path} was not changed: {target} does not exist")
        return self.before != self.after

    def _exists(self) -> bool:
        return os.path.lexists(self.path)

    def _content_differs(self) -> bool:
        now = read_file_access(self.path)
        try:
            self.access = requested_file_access(self.entry, now[0] if now else None)
        except LookupError as error:
            if not self.packages_pending:
                raise HostError(f"{self.path}: {error.args[0]}") from None
        if self.state != "directory":
            self.before = read_text_if_exists(self.path)
            self.after = requested_file_text(self.entry, self.before)
        return now is None or self.before != self.after or now != self.access

    def validate_candidate(self) -> None:
        """Raise HostError with the validator's message unless it accepts the candidate."""
        if not self.entry["validate"] or self.after is None or self.state == "link":
            return
        scratch = "/run" if os.access("/run", os.W_OK) else None
        handle, candidate = tempfile.mkstemp(prefix="gpufleet-candidate-", dir=scratch)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(self.after)
            status, out, err = run_program([part.replace("{}", candidate) for part in self.entry["validate"]])
        finally:
            Path(candidate).unlink()
        if status == COMMAND_NOT_FOUND and self.packages_pending:
            return
        if status != 0:
            message = (err.strip() or out.strip() or f"status {status}").replace(
                candidate, self.entry["path"]
            )
            raise HostError(f"{self.path} was not changed: {message}", refused=str(self.path))

    def apply_file_change(self) -> None:
        """Make the change."""
        if self.state == "absent":
            self.path.rmdir() if self.path.is_dir() and not self.path.is_symlink() else self.path.unlink()
        elif self.state == "link":
            fresh = self.path.with_name(f".gpufleet-{os.getpid()}-{self.path.name}")
            fresh.symlink_to(self.after or "")
            fresh.replace(self.path)
        elif self.state == "directory":
            self.path.mkdir(parents=True, exist_ok=True)
            set_file_access(self.path, self._known_access())
        elif self.before == self.after:
            set_file_access(self.path, self._known_access())
        else:
            replace_file_atomically(self.path, self.after or "", self._known_access())

    def _known_access(self) -> Access:
        """Return mode and owner; raise HostError if the owner does not exist, which only check mode tolerates."""
        if self.access is None:
            raise HostError(f"{self.path}: its owner does not exist on this host")
        return self.access

    def build_diff(self) -> AnsibleDiff:
        return build_diff_entry(str(self.path), self.before, self.after)


def plan_file_changes(entries: list[FileEntry], packages_pending: bool = False) -> list[FileChange]:
    """Return the changes that are needed, each accepted by its validator; nothing is changed yet."""
    planned_paths: set[str] = set()
    changes: list[FileChange] = []
    for entry in entries:
        change = FileChange(entry, planned_paths, packages_pending)
        if entry["state"] != "absent":
            planned_paths.add(entry["path"])
        if change.is_needed:
            changes.append(change)
    for change in changes:
        change.validate_candidate()
    return changes


def apply_file_changes(changes: list[FileChange]) -> list[str]:
    """Apply the changes in order; a HostError names the paths that were replaced before the failed one."""
    done: list[str] = []
    for change in changes:
        try:
            change.apply_file_change()
        except OSError as error:
            tail = f"; replaced before it: {', '.join(done)}" if done else ""
            message = f"cannot write {change.path}: {error.strerror}{tail}"
            raise HostError(message, changed=bool(done), changed_paths=done) from None
        done.append(str(change.path))
    return done
