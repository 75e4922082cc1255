# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""What the modules share: programs of the host run in one way, text replaced in one rename, one kind of failure."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

COMMAND_NOT_FOUND = 127  # the shell's status for a command that is not there
# Mode, user id and group id of a path.
Access = tuple[int, int, int]
BACKUP_SUFFIX = ".before-gpufleet"
HEADER = "# Written by gpufleet; changes made here are overwritten.\n"


class AnsibleDiff(TypedDict):
    """One entry of Ansible's diff."""

    before_header: str
    after_header: str
    before: str
    after: str


class HostError(Exception):
    """Why a host cannot be brought to its requested state, on one line; ``result`` joins the task's result."""

    def __init__(self, msg: str, **result: Any) -> None:
        self.msg, self.result = " ".join(msg.split()), result
        super().__init__(self.msg)


def build_program_environment(**more: str) -> dict[str, str]:
    """Return the environment for the host's programs: their messages untranslated, system folders on PATH."""
    path = os.environ.get("PATH", "")
    return {
        **os.environ,
        "LC_ALL": "C",
        "PATH": f"{path}:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
        **more,
    }


def run_program(
    argv: Sequence[str], stdin: str | None = None, timeout: float = 900, **env: str
) -> tuple[int, str, str]:
    """Run a program and wait for it; return status, output and errors. A missing program has status 127."""
    try:
        done = subprocess.run(
            argv, input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
            env=build_program_environment(**env), capture_output=True, timeout=timeout, check=False,
            encoding="utf-8", errors="replace",
        )  # fmt: skip
    except FileNotFoundError:
        return COMMAND_NOT_FOUND, "", f"{argv[0]}: command not found"
    except subprocess.TimeoutExpired:
        raise HostError(f"{' '.join(argv[:2])} was stopped after {timeout} s") from None
    return done.returncode, done.stdout, done.stderr


def run_required_program(*argv: str | Path) -> str:
    """Run a program that has to succeed; return its output."""
    status, out, err = run_program([str(argument) for argument in argv])
    if status != 0:
        raise HostError(f"{argv[0]} failed: {first_nonempty_line(err, out)}")
    return out


def first_nonempty_line(*texts: str) -> str:
    """Return the first line that is not empty."""
    return next(
        (line.strip() for text in texts for line in text.splitlines() if line.strip()), "no reason given"
    )


def parse_os_release(text: str) -> dict[str, str]:
    """Return the assignments of /etc/os-release without their quotes."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {name: value.strip("\"'") for name, value in pairs}


def replace_file_atomically(path: Path, text: str, access: Access) -> None:
    """Replace the file in one rename, so that no reader sees half of it."""
    handle, name = tempfile.mkstemp(prefix=".gpufleet-", dir=path.parent)
    candidate = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        set_file_access(candidate, access)
        candidate.replace(path)
    except BaseException:
        candidate.unlink()
        raise


def replace_file_with_backup(path: Path, before: str, after: str) -> None:
    """Replace a file whose text was ``before``, which stays next to it.

    Both get the mode that the file has: FAT has no modes of its own, and refuses any other than the one that it shows.
    """
    access = read_access(path)
    replace_file_atomically(path.with_name(path.name + BACKUP_SUFFIX), before, access)
    replace_file_atomically(path, after, access)


def read_access(path: Path) -> Access:
    """Return mode, user id and group id."""
    status = path.stat()
    return stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid


def set_file_access(path: Path, access: Access) -> None:
    """Give a path its mode, user id and group id."""
    os.chown(path, access[1], access[2])
    path.chmod(access[0])


def build_diff_entry(title: str, before: str | None, after: str | None) -> AnsibleDiff:
    """Return one entry of Ansible's diff."""
    return {"before_header": title, "after_header": title, "before": before or "", "after": after or ""}
