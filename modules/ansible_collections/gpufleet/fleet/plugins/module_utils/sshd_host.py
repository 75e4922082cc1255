# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""sshd's drop-in on its host: in force at once, permanent once confirmed, otherwise reverted by the host itself."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.module_utils import files, sshd_config
from ansible_collections.gpufleet.fleet.plugins.module_utils.rollback_timer import (
    is_rollback_armed,
    start_rollback_timer,
    stop_rollback_timer,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.ssh_session import read_ssh_connection
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    HostError,
    first_nonempty_line,
    replace_file_atomically,
    run_program,
)

DROP_IN = Path("/etc/ssh/sshd_config.d/00-gpufleet.conf")
PREVIOUS = Path("/etc/gpufleet/sshd-previous.conf")
# While a change is unconfirmed, this rule of tmpfiles.d(5) reverts it if the host starts again.
BOOT_GUARD = Path("/etc/tmpfiles.d/gpufleet-sshd.conf")
ROLLBACK_UNIT = "gpufleet-sshd-rollback"


class SshdOptions(TypedDict):
    """What the role requests; ``check`` is a script that judges a candidate for ``login``."""

    settings: sshd_config.Settings
    algorithms: sshd_config.AlgorithmLists
    login: str
    check: str
    unit: str
    confirm_seconds: int


def apply_sshd_settings(options: SshdOptions, check_mode: bool) -> dict[str, Any]:
    """Write the drop-in and reload sshd, to be confirmed in time; change nothing if the file is the same."""
    if not check_mode:
        _revert_unconfirmed_change(options["unit"])
    present_text = files.read_text_if_exists(DROP_IN) or ""
    selection = sshd_config.find_supported_algorithms(options["algorithms"], present_text)
    text = sshd_config.render_sshd_drop_in(options["settings"], selection["supported"])
    changes = files.plan_file_changes([_drop_in_entry(text, options)])
    result: dict[str, Any] = {"unsupported": selection["unsupported"]}
    if changes:
        result |= {"changed": True, "diff": [change.build_diff() for change in changes]}
        if check_mode:
            return result
        result |= _apply_until_confirmed(changes, text, options)
    overridden = sshd_config.find_overridden_lists(selection["supported"])
    return {**result, "not_applied": {"sshd": overridden} if overridden else {}}


def confirm_sshd_settings(text_digest: str, applied_from: str) -> dict[str, Any]:
    """Keep the drop-in, because a new connection was accepted with it."""
    current = read_ssh_connection()
    if current and current == applied_from:
        raise HostError(
            "sshd's settings were not confirmed: this is still the connection that applied them; the old ones return"
        )
    armed = is_rollback_armed(ROLLBACK_UNIT)
    stop_rollback_timer(ROLLBACK_UNIT)
    if not armed or not BOOT_GUARD.exists() or _digest(DROP_IN.read_text("utf-8")) != text_digest:
        raise HostError(
            "rolled back: no new connection got through with sshd's new settings, so the host restored the old ones"
        )
    BOOT_GUARD.unlink()
    PREVIOUS.unlink(missing_ok=True)
    return {"changed": True}


def _drop_in_entry(text: str, options: SshdOptions) -> files.FileEntry:
    command = ["sh", "-c", options["check"], "sshd_admits", "{}", DROP_IN.name, options["login"]]
    return {
        "path": str(DROP_IN), "state": "file", "content": text, "lines": None, "remove": None, "target": None,
        "mode": "0600", "owner": "root", "group": None, "validate": command,
    }  # fmt: skip


def _apply_until_confirmed(
    changes: list[files.FileChange], text: str, options: SshdOptions
) -> dict[str, Any]:
    """Start the rollback timer, then write the drop-in and reload sshd; without a running sshd only write it."""
    if run_program(["systemctl", "is-active", "--quiet", options["unit"]])[0] != 0:
        files.apply_file_changes(changes)
        return {}
    _write_boot_guard()
    script = _rollback_script(options["unit"])
    if problem := start_rollback_timer(ROLLBACK_UNIT, options["confirm_seconds"], script):
        _revert_unconfirmed_change(options["unit"])
        raise HostError(f"{DROP_IN} was not changed: {problem}")
    files.apply_file_changes(changes)
    status, __, err = run_program(["systemctl", "reload-or-restart", options["unit"]])
    if status != 0:
        stop_rollback_timer(ROLLBACK_UNIT)
        _revert_unconfirmed_change(options["unit"])
        raise HostError(f"rolled back: sshd does not take its new settings: {first_nonempty_line(err)}")
    return {"pending": _digest(text), "connection": read_ssh_connection()}


def _write_boot_guard() -> None:
    """Keep the present drop-in aside, and say what the next start does with an unconfirmed one."""
    rule = f"r! {DROP_IN}"
    PREVIOUS.unlink(missing_ok=True)
    if DROP_IN.exists():
        PREVIOUS.parent.mkdir(mode=0o755, exist_ok=True)
        replace_file_atomically(PREVIOUS, DROP_IN.read_text("utf-8"), (0o600, 0, 0))
        rule = f"L+! {DROP_IN} - - - - {PREVIOUS}"
    replace_file_atomically(BOOT_GUARD, f"{rule}\n", (0o644, 0, 0))


def _rollback_script(unit: str) -> str:
    return (
        f"if [ -e {PREVIOUS} ]; then mv -f {PREVIOUS} {DROP_IN}; else rm -f {DROP_IN}; fi;"
        f" rm -f {BOOT_GUARD}; systemctl reload-or-restart {unit}"
    )


def _revert_unconfirmed_change(unit: str) -> None:
    """Restore the confirmed drop-in if an earlier run was cut off and the host has started again since."""
    if BOOT_GUARD.exists() and not is_rollback_armed(ROLLBACK_UNIT):
        run_program(["sh", "-c", _rollback_script(unit)])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
