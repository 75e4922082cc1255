# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bring a set of small files to the wanted content in one call, each validated before it replaces the old."""

from __future__ import annotations

DOCUMENTATION = """
module: files
short_description: Bring a set of small files to the wanted content, all or nothing
description:
  - Every wanted content is first written to memory-backed scratch space and given to its validator. Only when
    all are accepted are files replaced, each in one atomic rename. So no refused content ever reaches its place,
    and a role's files cost one round trip instead of one or two for each.
  - Where a replacement fails half way (a full disk), files replaced before it stay and the message names both.
options:
  files:
    description: The files, in order.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Absolute path., type: path, required: true}
      state:
        description: >-
          C(file) has exactly I(content); C(lines) holds each of I(lines) and no other line that matches one of
          I(remove); C(directory) exists; C(link) points to I(target), which must exist; C(absent) is not there.
        type: str
        choices: [file, lines, directory, link, absent]
        default: file
      content: {description: The whole content., type: str}
      lines: {description: Lines that must be there; new ones are added at the end., type: list, elements: str}
      remove: {description: Python regular expressions searched in each line., type: list, elements: str}
      target: {description: What the link points to., type: str}
      mode: {description: Octal permissions., type: str}
      owner: {description: User name., type: str, default: root}
      group: {description: Group name; the owner's own when left out., type: str}
      validate:
        description: Command and arguments; C({}) becomes the path of the candidate. A status other than 0 refuses.
        type: list
        elements: str
author: gpufleet contributors
"""

EXAMPLES = """
- name: Let operators use sudo
  gpufleet.fleet.files:
    files:
      - path: /etc/sudoers.d/operators
        content: "ops ALL=(ALL:ALL) NOPASSWD: ALL\\n"
        mode: "0440"
        validate: [visudo, -cf, "{}"]
"""

RETURN = """
changed_paths: {description: What was replaced., returned: always, type: list, elements: str}
"""

import grp  # noqa: E402 - Ansible wants its documentation above the imports
import os  # noqa: E402
import pwd  # noqa: E402
import re  # noqa: E402
import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

STATES = ["file", "lines", "directory", "link", "absent"]
DEFAULT_MODES = {"file": 0o644, "lines": 0o644, "directory": 0o755}


def wanted_text(entry, current):
    """Return the content that an entry asks for, given what is there now (None: no file)."""
    if entry["state"] == "file":
        return entry["content"]
    wanted, unwanted = entry["lines"] or [], entry["remove"] or []
    lines = (current or "").splitlines()
    kept = [line for line in lines if line in wanted or not any(re.search(rule, line) for rule in unwanted)]
    kept += [line for line in wanted if line not in kept]
    return "".join(f"{line}\n" for line in kept)


def read(path):
    """Return the file's text, or None where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return None


def wanted_access(entry, current_mode):
    """Return mode, user id and group id that the entry asks for."""
    if entry["mode"]:
        mode = int(entry["mode"], 8)
    else:  # a line in a file that others manage keeps that file's mode
        mode = (
            current_mode
            if entry["state"] == "lines" and current_mode is not None
            else DEFAULT_MODES[entry["state"]]
        )
    user = pwd.getpwnam(entry["owner"])
    return mode, user.pw_uid, grp.getgrnam(entry["group"]).gr_gid if entry["group"] else user.pw_gid


def access(path):
    """Return mode, user id and group id, or None where there is nothing."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_mode & 0o7777, found.st_uid, found.st_gid


def validate(module, entry, text):
    """Stop with the validator's own words unless it accepts the candidate."""
    scratch = "/run" if os.access("/run", os.W_OK) else None
    handle, candidate = tempfile.mkstemp(prefix="gpufleet-candidate-", dir=scratch)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
        command = [part.replace("{}", candidate) for part in entry["validate"]]
        status, out, err = module.run_command(command)
    finally:
        Path(candidate).unlink()
    if status != 0:
        said = (err.strip() or out.strip() or f"status {status}").replace(candidate, entry["path"])
        module.fail_json(msg=f"refused, left as it was: {entry['path']}: {said}", refused=entry["path"])


def replace(path, text, rights):
    """Put the text in the file's place in one rename, so that no reader ever sees half a file."""
    handle, name = tempfile.mkstemp(prefix=".gpufleet-", dir=path.parent)
    fresh = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        set_access(fresh, rights)
        fresh.replace(path)
    except BaseException:
        fresh.unlink()
        raise


def set_access(path, rights):
    os.chown(path, rights[1], rights[2])
    path.chmod(rights[0])


class Change:
    """One entry's difference between what is and what is wanted; ``apply`` makes it."""

    def __init__(self, entry):
        self.entry, self.path, self.state = entry, Path(entry["path"]), entry["state"]
        self.before = self.after = None
        self.rights = None
        self.needed = {"link": self._link, "absent": self._absent}.get(self.state, self._content)()

    def _link(self):
        self.before = str(self.path.readlink()) if self.path.is_symlink() else None
        self.after = self.entry["target"]
        if not Path(self.after).exists():
            raise LookupError(f"refused, left as it was: {self.path}: {self.after} does not exist")
        return self.before != self.after

    def _absent(self):
        return os.path.lexists(self.path)

    def _content(self):
        now = access(self.path)
        self.rights = wanted_access(self.entry, now[0] if now else None)
        if self.state != "directory":
            self.before = read(self.path)
            self.after = wanted_text(self.entry, self.before)
        return self.before != self.after or now != self.rights

    def apply(self):
        if self.state == "absent":
            self.path.unlink()
        elif self.state == "link":
            fresh = self.path.with_name(f".gpufleet-{os.getpid()}-{self.path.name}")
            fresh.symlink_to(self.after)
            fresh.replace(self.path)
        elif self.state == "directory":
            self.path.mkdir(parents=True, exist_ok=True)
            set_access(self.path, self.rights)
        elif self.before == self.after:
            set_access(self.path, self.rights)
        else:
            replace(self.path, self.after, self.rights)

    def diff(self):
        return {
            "before_header": str(self.path),
            "after_header": str(self.path),
            "before": self.before or "",
            "after": self.after or "",
        }


def apply_all(module, changes):
    """Apply the changes in order; name what was done before one that failed."""
    done = []
    for change in changes:
        try:
            change.apply()
        except OSError as trouble:
            tail = f"; replaced before it: {', '.join(done)}" if done else ""
            module.fail_json(msg=f"cannot write {change.path}: {trouble.strerror}{tail}", changed=bool(done))
        done.append(str(change.path))


def argument_spec():
    text, texts = {"type": "str"}, {"type": "list", "elements": "str"}
    entry = {
        "path": {"type": "path", "required": True},
        "state": {"type": "str", "choices": STATES, "default": "file"},
        "content": text,
        "lines": texts,
        "remove": texts,
        "target": text,
        "mode": text,
        "owner": {"type": "str", "default": "root"},
        "group": text,
        "validate": texts,
    }
    needs = [("state", "file", ["content"]), ("state", "lines", ["lines"]), ("state", "link", ["target"])]
    return {
        "files": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": entry,
            "required_if": needs,
        }
    }


def main():
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        changes = [change for change in map(Change, module.params["files"]) if change.needed]
    except LookupError as trouble:
        module.fail_json(msg=trouble.args[0])
    for change in changes:
        if change.entry["validate"] and change.after is not None:
            validate(module, change.entry, change.after)
    if not module.check_mode:
        apply_all(module, changes)
    paths = [str(change.path) for change in changes]
    module.exit_json(changed=bool(changes), changed_paths=paths, diff=[change.diff() for change in changes])


if __name__ == "__main__":
    main()
