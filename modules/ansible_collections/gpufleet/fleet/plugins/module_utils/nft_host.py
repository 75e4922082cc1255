# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""The firewall on its host: in force at once, in place once confirmed, else taken back by the host itself."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.module_utils.nft import CLEAR_TABLE, TABLE
from ansible_collections.gpufleet.fleet.plugins.module_utils.rollback_timer import (
    is_rollback_armed,
    start_rollback_timer,
    stop_rollback_timer,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.ssh_session import read_ssh_connection
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    HostError,
    build_diff_entry,
    first_nonempty_line,
    replace_file_atomically,
    run_program,
)

RULES_FILE = Path("/etc/gpufleet/firewall.nft")
UNIT = "gpufleet-firewall.service"
ROLLBACK_UNIT = "gpufleet-firewall-rollback"
# Memory: after a restart of the host nothing is pending, because only confirmed rules are in place.
FOLDER = Path("/run/gpufleet-firewall")
CANDIDATE, PREVIOUS = FOLDER / "candidate.nft", FOLDER / "before.nft"
LIST_COMMAND = f"nft --stateless list table {TABLE}"


def find_operator_address() -> tuple[str, int] | None:
    """Return the address that this run comes from and the port of sshd, or None for a run without SSH."""
    parts = read_ssh_connection().split()
    if not parts:
        return None
    address, __, __, port = parts
    return address, int(port)


def read_active_rules() -> tuple[str | None, str]:
    """Return the rules in force (None: no such table), and why they cannot be read (empty: they can)."""
    status, out, err = run_program(LIST_COMMAND.split())
    if status == 0:
        return out, ""
    missing = "No such file or directory" in err
    return None, "" if missing else first_nonempty_line(err, out)


def list_rules_of_file(path: Path) -> str | None:
    """Return the kernel's listing of a rules file, loaded in a separate network namespace; None if that fails."""
    status, out, __ = run_program(
        ["unshare", "--net", "sh", "-c", f'nft -f "$0" && {LIST_COMMAND}', str(path)]
    )
    return out if status == 0 else None


def apply_firewall_rules(rules_text: str, confirm_seconds: int, check_mode: bool) -> dict[str, Any]:
    """Load new rules, to be confirmed within that many seconds; change nothing if the rules are the same."""
    if not shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin"):
        if check_mode:
            return {"changed": True, "diff": build_diff_entry(str(RULES_FILE), "", rules_text)}
        raise HostError("nft is not installed")
    now, failure = read_active_rules()
    if failure:
        return {"not_applied": {"firewall": failure}}
    try:
        return _apply_if_different(rules_text, now, confirm_seconds, check_mode)
    finally:
        if not PREVIOUS.exists():  # no rules wait for confirmation
            CANDIDATE.unlink(missing_ok=True)


def _apply_if_different(text: str, now: str | None, seconds: int, check_mode: bool) -> dict[str, Any]:
    """Check the candidate with nft, and load it if it differs from the rules in force."""
    _write(CANDIDATE, text)
    status, __, err = run_program(["nft", "--check", "--file", str(CANDIDATE)])
    if status != 0:
        raise HostError(
            f"{RULES_FILE} was not changed: {first_nonempty_line(err).replace(str(CANDIDATE), str(RULES_FILE))}"
        )
    before = RULES_FILE.read_text(encoding="utf-8", errors="replace") if RULES_FILE.exists() else ""
    enabled = run_program(["systemctl", "is-enabled", "--quiet", UNIT])[0] == 0
    if before == text and enabled and now is not None and list_rules_of_file(CANDIDATE) in (now, None):
        return {}
    result = {"changed": True, "diff": build_diff_entry(str(RULES_FILE), before, text)}
    return result if check_mode else {**result, **_apply_until_confirmed(text, now, seconds)}


def _apply_until_confirmed(text: str, now: str | None, seconds: int) -> dict[str, Any]:
    """Start the rollback timer, then load the new rules."""
    if not PREVIOUS.exists():  # else an earlier call was never confirmed, and these are the rules before it
        _write(PREVIOUS, CLEAR_TABLE + (now or ""))
    stop_rollback_timer(ROLLBACK_UNIT)
    back = f"nft -f {PREVIOUS} && rm -f {PREVIOUS} {CANDIDATE}"
    if problem := start_rollback_timer(ROLLBACK_UNIT, seconds, back):
        raise HostError(f"the rules were not changed: {problem}")
    status, __, err = run_program(["nft", "--file", str(CANDIDATE)])
    if status != 0:
        raise HostError(f"the kernel rejected the rules: {first_nonempty_line(err)}")
    return {"pending": _digest(text), "connection": read_ssh_connection()}


def confirm_firewall_rules(rules_digest: str, applied_from: str) -> dict[str, Any]:
    """Keep the rules, because a new connection has come in through them."""
    current = read_ssh_connection()
    if current and current == applied_from:
        raise HostError(
            "the firewall was not confirmed: this is still the connection that applied it; the old rules return"
        )
    text = CANDIDATE.read_text(encoding="utf-8") if CANDIDATE.exists() else ""
    armed = is_rollback_armed(ROLLBACK_UNIT)
    stop_rollback_timer(ROLLBACK_UNIT)
    if not armed or not PREVIOUS.exists() or _digest(text) != rules_digest:
        raise HostError(
            "rolled back: no new connection got through the new firewall, so the host restored the old rules"
        )
    _write(RULES_FILE, text)
    status, __, err = run_program(["systemctl", "enable", "--now", UNIT])
    if status != 0:
        run_program(["nft", "--file", str(PREVIOUS)])
        raise HostError(f"rolled back: the firewall cannot be started at boot: {first_nonempty_line(err)}")
    PREVIOUS.unlink()
    CANDIDATE.unlink()
    return {"changed": True}


def remove_firewall_rules(check_mode: bool) -> dict[str, Any]:
    """Remove gpufleet's table, its file and its unit."""
    now, failure = read_active_rules() if shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin") else (None, "")
    if failure:
        return {"not_applied": {"firewall": failure}}
    enabled = run_program(["systemctl", "is-enabled", "--quiet", UNIT])[0] == 0
    if now is None and not enabled and not RULES_FILE.exists():
        return {}
    if not check_mode:
        run_program(["systemctl", "disable", "--now", UNIT])
        if read_active_rules()[0] is not None:
            run_program(["nft", "delete", "table", *TABLE.split()])
        RULES_FILE.unlink(missing_ok=True)
    return {"changed": True}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700 if path.parent == FOLDER else 0o755, parents=True, exist_ok=True)
    replace_file_atomically(path, text, (0o600, 0, 0))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
