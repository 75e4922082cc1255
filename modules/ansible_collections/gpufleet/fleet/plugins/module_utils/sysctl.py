# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""Kernel settings: one file for the next start, the running kernel where it lets us, the truth about the rest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypedDict, Union

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    HEADER,
    AnsibleDiff,
    HostError,
    build_diff_entry,
    replace_file_atomically,
)

PROC_SYS = Path("/proc/sys")

# Kernel setting to value.
Settings = dict[str, Union[str, int]]


class SysctlResult(TypedDict):
    """Ansible's result of a file of kernel settings."""

    changed: bool
    rewritten: bool
    not_applied: dict[str, str]
    diff: AnsibleDiff


def render_sysctl_file(settings: Settings) -> str:
    """Return the file's text."""
    return HEADER + "".join(f"{key} = {settings[key]}\n" for key in sorted(settings))


def proc_sys_path(key: str) -> Path:
    """Return the path of a setting below /proc/sys; as in sysctl(8), a slash in a dotted name means a dot."""
    swapped = key if "." not in key.partition("/")[0] else key.translate(str.maketrans("./", "/."))
    return PROC_SYS / swapped


def is_same_kernel_value(running_value: str, setting: str | int) -> bool:
    """Return whether two values are equal to the kernel: their fields, not their spaces."""
    return running_value.split() == str(setting).split()


def set_kernel_setting(key: str, setting: str | int, check_mode: bool) -> bool | str:
    """Set one value; return True if it was set, False if it had the value already, or why it cannot be set."""
    path = proc_sys_path(key)
    try:
        if is_same_kernel_value(path.read_text(encoding="ascii"), setting):
            return False
        if check_mode:
            return True if os.access(path, os.W_OK) else "cannot be written on this host"
        path.write_text(f"{setting}\n", encoding="ascii")
    except FileNotFoundError:
        return "this kernel does not have it"
    except OSError as error:
        return str(error.strerror).lower()
    return True


def apply_kernel_settings(path: Path, settings: Settings, check_mode: bool) -> SysctlResult:
    """Write the file and set what differs; return Ansible's result. Without settings the file is removed."""
    before = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    after = render_sysctl_file(settings) if settings else ""
    if before != after and not check_mode:
        try:
            replace_file_atomically(
                path, after, (0o644, os.geteuid(), os.getegid())
            ) if after else path.unlink()
        except OSError as error:
            raise HostError(f"cannot write {path}: {error.strerror}") from None
    outcome = {key: set_kernel_setting(key, settings[key], check_mode) for key in sorted(settings)}
    return {
        "changed": before != after or True in outcome.values(),
        "rewritten": before != after,
        "not_applied": {key: value for key, value in outcome.items() if isinstance(value, str)},
        "diff": build_diff_entry(str(path), before, after),
    }
